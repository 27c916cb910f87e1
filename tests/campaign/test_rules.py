"""Rules of a campaign: what a file may say, what a record is, and what follows before anybody reports."""

import json
import math
import tomllib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.campaign.opening import decide_for, draft_of, opening_of
from dpmarket.campaign.quoting import Reports
from dpmarket.campaign.rules import columns, encoding
from dpmarket.campaign.rules.decision import Binding, bound_salt, sellers_digest
from dpmarket.campaign.rules.pricing import guessing_error, noise_warning, objective_for, terms_of
from dpmarket.campaign.rules.publication import announced_text
from dpmarket.campaign.rules.rules_file import check_rules, rules_from
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.mechanisms.outcome import whole_units
from outside.goods import GOODS

RULES = GOODS["two classes"].rules(60)


def asks(**question):
    return {"features": None, "label": None, "statistics": {"x": {"column": "value"} | question}}


def network(**training):
    good = GOODS["delta, torch"].rules()
    changed = {**good["training"], **training}
    return good | {"training": {key: value for key, value in changed.items() if value is not None}}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"statistic": {"kind": "share"}}, "statistic: unknown key"),
        ({"objective": {"budget": 3, "payment_weight": 1}}, "found both"),
        ({"objective": {}}, "found neither"),
        ({"target": {"low": 0, "high": 1}}, "none beside [label]"),
        ({"campaign": {"mechanism": "posted"}}, "expected objective.budget"),
        ({"sellers": {"minimum": 0}}, "sellers.minimum"),
        ({"money": {"currency": "euro"}}, "money.currency"),
        ({"questions": {"age": {"wording": 3}}}, "questions.age.wording: expected a text, got 3"),
        ({"questions": {"age": 3}}, "questions.age: expected a table, got 3"),
        ({"objective": {"payment_weight": 1, "delta": 1e-6}, "sellers": {}}, "sellers.expected: missing"),
        ({"features": {"age": {"low": 3, "high": 2}}}, "expected low < high"),
        ({"label": {"column": "age", "values": ["a", "b"]}}, "expected another column"),
        # Cells are compared without the blanks around them, so that such a category would match nobody.
        ({"features": {"job": {"categories": ["baker", "smith "]}}}, "no blanks around them"),
        ({"label": {"column": "label", "values": ["no", " yes"]}}, "no blanks around them"),
        ({"features": {"job": {"categories": [1, 2], "missing": 3}}}, "missing to be one of the categories"),
        (
            asks(kind="vector_mean", columns=["x", "y"], bound=1.0)
            | {"training": {"outside_bounds": "refuse"}},
            "training.outside_bounds: expected clip",
        ),
        (
            {"screening": [{"question": "?", "answers": ["a", "b"], "groups": {"a": "c", "b": "d"}}] * 60},
            "screening: expected answers that lead to at most 100 groups",
        ),
        (asks(kind="mean", low=0.0), "statistics.x.high: missing"),
        (asks(kind="share", low=0.0), "statistics.x.low: a share has no such key."),
        (asks(kind="histogram", categories=["a", "b"], edges=[0.0, 1.0, 2.0]), "beside categories"),
        (asks(kind="quantile", low=0.0, high=1.0), "statistics.x.steps: missing"),
        (network(code=None), "training.code: missing"),
        (network(parameters=None), "training.parameters: missing"),
        (network(model=None), "training.code: expected training.model beside it"),
        (network(model="support.networks:small"), "training.model: expected torch:package.module:factory"),
        (network(code="0"), "training.code: expected 64 hexadecimal digits"),
        (network(l2=0.1), "training.l2: expected none"),
        (network() | {"objective": {"payment_weight": 1.0}}, "objective.delta: missing"),
    ],
)
def test_what_is_wrong_is_named_by_the_keys_path(tables, words):
    given = {name: table for name, table in (RULES | tables).items() if table is not None}
    with pytest.raises(FileProblem) as caught:
        check_rules(given)
    assert words in " ".join(caught.value.details)


def test_dates_of_toml_are_dates():
    since = tomllib.loads("since = { first = 2000-01-01, last = 2020-12-31 }")
    assert check_rules(RULES | {"features": since}).features["since"].first == "2000-01-01"


def test_frozen_rules_are_the_rules_without_a_password():
    rules = check_rules(RULES | {"campaign": {"name": "a", "database": "postgresql://me:secret@host/x"}})
    stored = json.dumps(draft_of(rules, channel="file").rules)
    assert "secret" not in stored
    assert rules_from(stored).model_copy(update={"campaign": rules.campaign}) == rules


# --- records ---


@pytest.mark.parametrize("good", GOODS.values(), ids=GOODS)
def test_records_have_one_length_and_come_back_as_they_were(good):
    rules, rng = check_rules(good.rules()), np.random.default_rng(0)
    people = [good.person(rng) for _ in range(20)]
    written = [encoding.encode_record(rules, rows if good.rows > 1 else rows[0]) for rows in people]
    assert {len(one) for one in written} == {encoding.record_bytes(rules), len(encoding.zero_record(rules))}
    found = encoding.decode_records(rules, written)
    assert np.bincount(found.owners).tolist() == [len(rows) for rows in people]
    if good.is_model and "age" in rules.features:
        ages = [row["age"] for rows in people for row in rows]
        assert [None if one is None else float(one) for one in ages] == list(found.columns["age"])
    assert found.clipped == {}


@given(st.binary(max_size=60), st.sampled_from(sorted(GOODS)))
def test_nothing_in_a_record_raises_an_error(content, name):
    rules = check_rules(GOODS[name].rules())
    width = encoding.record_bytes(rules)
    for one in (content, (content * width)[:width], None):
        assert encoding.decode_records(rules, [one]).owners.tolist() == [0]


def test_values_outside_are_clipped_or_refused():
    rules = check_rules(GOODS["categories"].rules())
    row = {"age": 91, "job": "nothing known", "town": "town 1", "bought": "no"}
    found = encoding.decode_records(rules, [encoding.encode_record(rules, row)])
    assert found.columns["age"].tolist() == [90.0]
    strict = check_rules(GOODS["categories"].rules() | {"training": {"outside_bounds": "refuse"}})
    usual = {"age": 50, "job": "job 1", "town": "town 1", "bought": "no"}
    wrong = (("age", 91), ("job", "nothing known"), ("age", "old"), ("bought", "maybe"), ("age", None))
    for name, value in wrong:
        with pytest.raises(MarketRefusal, match=name) as caught:
            encoding.encode_record(strict, usual | {name: value})
        assert str(value) not in str(caught.value) or value is None
    for name, value in (
        ("job", "\ud800"),
        ("age", 10**5000),
        ("age", [50]),
        ("age", True),
        ("age", math.nan),
    ):
        with pytest.raises(MarketRefusal, match=name):
            encoding.encode_record(
                rules, {"town": "town 1", "bought": "no", "age": 50, "job": "job 1"} | {name: value}
            )


def test_whole_labels_are_not_matched_by_other_numbers():
    rules = check_rules(RULES | {"label": {"column": "bought", "values": [0, 1]}})
    outcome = columns.fields_of(rules)[-1]
    codes, problems = outcome.read(pl.DataFrame({"bought": ["1", "1.0", "1.5"]}), np.arange(3))
    assert codes[:2].tolist() == [1.0, 1.0]
    assert problems[0].rows == (2,)


# --- before anybody reports, and after ---


def reports(number, seed=0):
    rng = np.random.default_rng(seed)
    ids = [f"seller {k}" for k in range(number)]
    return Reports(ids, rng.uniform(1, 5, number), ["escrow"] * number)


@pytest.mark.parametrize("number", [1, 10, 49, 50])
def test_few_reports_are_decided_and_paid_at_least_their_cost(number):
    """The salt of cross-pricing follows from rules and sellers, in any order, and from no cost."""
    rules = check_rules(GOODS["two classes"].rules(30, budget=20.0, weight_cap=3.0, max_epsilon=1.0))
    given_, nonce = reports(number), bytes(32)
    decision = decide_for(rules, Binding("ab" * 32, nonce))(given_)
    assert (decision.amounts >= given_.costs * decision.epsilons * 100).all()
    assert decision.epsilons.max() <= 1.0
    salt = bound_salt("ab" * 32, sellers_digest(nonce, given_.names[::-1])).hex()
    assert decision.offer.get("salt") == (salt if number >= 50 else None)


def test_the_weight_of_a_small_market_is_that_at_which_its_own_payments_meet_the_budget():
    """One of 10 sellers moves everybody's prices: planned as a typical market they get 9% too much."""
    rules = check_rules(GOODS["two classes"].rules(10, budget=5.0, max_epsilon=1.0))
    terms, quantiles = terms_of(rules), (np.arange(10) + np.random.default_rng(5).random((40, 10))) / 10
    sales = terms.markets((10,), quantiles).decide(objective_for(rules, (10,)), terms.coverage)
    assert np.mean([payments.sum() for _, _, payments in sales]) == pytest.approx(5.0, rel=0.02)


def test_a_payment_near_a_whole_number_is_not_below_the_loss():
    """The float 0.1 lies above a tenth: three times it is more than 30 cents."""
    assert whole_units(np.array([0.3]), 100, np.array([0.1]), np.array([3.0])).tolist() == [31]
    assert whole_units(np.array([0.3, 0.301]), 100).tolist() == [30, 31]


def test_other_rules_sellers_or_nonces_give_other_salts():
    names, nonce = ["ann", "bob"], bytes(32)
    salts = {
        bound_salt("ab" * 32, sellers_digest(nonce, names)),
        bound_salt("cd" * 32, sellers_digest(nonce, names)),
        bound_salt("ab" * 32, sellers_digest(nonce, ["ann", "another"])),
        bound_salt("ab" * 32, sellers_digest(b"\x01" * 32, names)),
    }
    assert len(salts) == 4


@pytest.mark.parametrize("mechanism", ["offline", "posted"])
def test_an_opening_says_what_nobody_exceeds(mechanism):
    rules = check_rules(GOODS["two classes"].rules(200, mechanism, budget=60.0))
    opening, decision = opening_of(rules), decide_for(rules)(reports(200))
    assert decision.epsilons.max() <= opening.ceiling
    if mechanism == "offline":
        assert 6_000 <= opening.escrow < 9_000
        assert decision.amounts.sum() <= opening.escrow
    else:
        assert decision.amounts.max() <= opening.largest
        assert opening.offer is not None


@pytest.mark.parametrize("fixed", ["payment_weight", "budget"])
def test_announced_rules_have_the_objective_as_far_as_it_is_fixed(fixed):
    rules = check_rules(RULES | {"objective": {fixed: 20.0}})
    market = json.loads(announced_text(rules, "2026-01-01T00:00:00Z", "0" * 64))["announced"]["market"]
    assert market["objective"]["sampling_error"] > 0.0
    assert ("payment_weight" in market["objective"]) == (fixed == "payment_weight")


def test_a_purchase_of_noise_is_named_and_a_good_one_is_not():
    for name, answer in (
        ("two classes", "always answering 'no'"),
        ("regression", "always predicting the same number"),
        ("mean", "a guess without any record"),
    ):
        poor = check_rules(GOODS[name].rules(30, budget=0.2))
        assert answer in noise_warning(poor)
        assert noise_warning(check_rules(GOODS[name].rules(5_000, budget=3_000.0))) is None
        assert guessing_error(poor) > 0.0


def test_a_delta_allows_as_many_people_as_a_tenth_of_one_may_fail():
    rules = check_rules(GOODS["delta"].rules(60) | {"sellers": {"expected": 1_000}})
    many = reports(math.floor(0.1 / 1e-5) + 1)
    with pytest.raises(MarketRefusal, match="at most 10,000 people"):
        decide_for(rules)(many)
