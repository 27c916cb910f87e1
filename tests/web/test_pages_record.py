"""The form of a record: a field for every kind of column, and what it makes of what was typed."""

import pytest

from dpmarket.campaign.rules.rules_file import check_rules
from dpmarket.web.pages.forms import Form
from dpmarket.web.pages.record_form import fields_of_form, filled
from support import shop as shops
from support.readers import seller_of

RULES = {
    **shops.RULES,
    "features": {
        "age": {"low": 18, "high": 90},
        "income": {"low": 0, "high": 1e5, "missing": 2e4},
        "born": {"first": "1950-01-01", "last": "2010-12-31"},
        "job": {"categories": ["baker", "smith", "cook", "nurse", "clerk"], "other": True},
        "size": {"categories": [1, 2], "missing_category": True},
        "smokes": {"boolean": True},
    },
    "label": {"column": "class", "values": [0, 1]},
    "training": {"outside_bounds": "refuse"},
}
GOOD = {
    "f0": "41", "f1": "", "f2": "1980-02-29", "f3": "smith", "f4": "2", "f5": "no", "f6": "1",
}  # fmt: skip


def test_every_kind_of_column_has_its_field_and_what_was_typed_becomes_values_of_the_right_kind():
    fields = fields_of_form(check_rules(RULES))
    assert [(field.of.column, field.of.kind, field.of.gaps) for field in fields] == [
        ("age", "number", False), ("income", "number", True), ("born", "date", False),
        ("job", "choice", False), ("size", "choice", True), ("smokes", "truth", False),
        ("class", "choice", False),
    ]  # fmt: skip
    assert (fields[0].low, fields[0].high, fields[-1].options) == ("18", "90", ("0", "1"))
    assert fields[3].of.unknown
    given = filled(check_rules(RULES), Form(GOOD))
    assert given.problems == {}
    (row,) = given.rows
    assert list(row.values()) == [41.0, None, "1980-02-29", "smith", "2", False, 1]
    assert "41" not in repr(given)


WRONG = {
    "f0": {"": "missing", "17.9": "outside", "old": "number"},
    "f2": {"1981-02-29": "date", "2011-01-01": "outside"},
    "f4": {"3": "choice"},
    "f5": {"perhaps": "choice"},
    "f6": {"2": "choice", "": "missing"},
}


@pytest.mark.parametrize("field", WRONG)
def test_what_is_wrong_is_named_by_field_and_kind(field):
    for typed, problem in WRONG[field].items():
        given = filled(check_rules(RULES), Form({**GOOD, field: typed}))
        assert given.problems == {field: problem}
        assert given.typed[field] == typed


def test_where_values_are_clipped_bounds_refuse_nothing():
    rules = check_rules({**RULES, "training": {"outside_bounds": "clip"}})
    given = filled(rules, Form({**GOOD, "f0": "500", "f2": "1900-01-01"}))
    assert given.problems == {}
    assert given.rows[0]["age"] == 500.0
    assert given.beyond == {"f0": "90", "f2": "1950-01-01"}
    assert given.beyond_text == "f0=500;f2=1900-01-01"
    assert not fields_of_form(rules)[0].limits


def test_several_rows_are_read_and_empty_ones_left_out():
    rules = check_rules({**RULES, "sellers": {"expected": 30, "minimum": 1, "rows_per_person": 3}})
    second = {f"r2.{field}": typed for field, typed in GOOD.items()}
    given = filled(rules, Form({**GOOD, **second, "r2.f0": "50"}))
    assert given.problems == {}
    assert [row["age"] for row in given.rows] == [41.0, 50.0]
    begun = filled(rules, Form({**GOOD, "r1.f0": "50"}))
    assert begun.problems["r1.f6"] == "missing"
    assert begun.typed["r1.f0"] == "50"


def test_values_outside_their_bounds_are_shown_back_before_they_are_sealed(shop):
    reader = seller_of(shop, shop.open())
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    page = reader.press(reader.press(reader.press(page, "/s/reserve"), "/s/choose"), "/s/accept")
    shown = reader.press(page, "/s/deliver", f0="400", f1="20000", f2="yes")
    assert shown.status == 422
    assert "This value is outside the bounds and counts as 90." in shown.text
    changed = reader.press(
        shown, "/s/deliver", f0="500", f1="20000", f2="yes"
    )  # another value, not confirmed
    assert changed.status == 422
    assert reader.press(changed, "/s/deliver", f0="500", f1="20000", f2="yes").path == "/s/payee"


def test_what_is_filled_in_is_what_is_encoded(shop):
    campaign = shop.open(rules={**RULES, "sellers": {"expected": 30, "minimum": 1, "rows_per_person": 2}})
    reader = seller_of(shop, campaign)
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    assert "one of: baker, smith, cook, nurse, clerk, or something else" in reader.see("/s/consent").text
    page = reader.press(reader.press(reader.press(page, "/s/reserve"), "/s/choose"), "/s/accept")
    more = {f"r1.{field}": typed for field, typed in GOOD.items()}
    wrong = reader.press(page, "/s/deliver", **GOOD, **{**more, "r1.f2": "2999-01-01"})
    assert wrong.status == 422
    assert 'id="r1.f2-problem"' in wrong.html
    page = reader.press(wrong, "/s/deliver", **GOOD, **{**more, "r1.f3": "__other__"})
    assert page.path == "/s/payee"
    shop.check()
