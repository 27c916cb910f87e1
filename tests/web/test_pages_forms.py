"""The buyer's form over the market file: every kind of feature, gaps, consent texts; and money going back."""

import json
import re

import pytest
from dpmarket.market import acting, add_consent, campaign_of, work
from dpmarket.web.pages.market_form import market_data, places_of, starts
from support.live import MARKET

from dpmarket.campaign import check_market
from dpmarket.errors import FileProblem
from dpmarket.ledger import reading
from dpmarket.web.pages.forms import Form
from support.readers import again, member_of, seller_of
from support.shop import SOLD, open_shop

FILLED = {
    "title": "Every kind",
    "objective.budget": "20",
    "sellers.expected": "30",
    "feature0.name": "age",
    "feature0.low": "18",
    "feature0.high": "90",
    "feature0.gap": "value",
    "feature0.missing": "40,5",
    "feature1.name": "born",
    "feature1.kind": "date",
    "feature1.low": "1950-01-01",
    "feature1.high": "2010-12-31",
    "feature2.name": "job",
    "feature2.kind": "choice",
    "feature2.categories": "baker, smith, cook",
    "feature2.other": "yes",
    "feature2.gap": "category",
    "feature3.name": "smokes",
    "feature3.kind": "truth",
    "feature3.gap": "value",
    "feature3.missing": "no",
    "label.column": "bought",
    "label.values": "no, yes",
}
FEATURES = {
    "age": {"low": 18.0, "high": 90.0, "missing": 40.5},
    "born": {"first": "1950-01-01", "last": "2010-12-31"},
    "job": {"categories": ["baker", "smith", "cook"], "other": True, "missing_category": True},
    "smokes": {"boolean": True, "missing": False},
}


def test_the_form_says_what_a_file_would_say():
    data = market_data(Form({**starts(), **FILLED}))
    assert data["features"] == FEATURES
    check_market(data)


@pytest.mark.parametrize(
    ("changed", "path", "field"),
    [
        ({"feature0.low": "95"}, "features.age", "feature0"),
        ({"feature1.low": "31.12.1950"}, "features.born", "feature1"),
        ({"feature2.categories": "baker, baker"}, "features.job", "feature2"),
        ({"feature3.missing": "perhaps"}, "features.smokes", "feature3"),
        ({"feature0.missing": "many"}, "features.age", "feature0"),
        ({"feature1.categories": "a, b"}, "features.born", "feature1"),
        (
            {"feature2.other": "", "feature2.gap": "value", "feature2.missing": "nurse"},
            "features.job",
            "feature2",
        ),
    ],
)
def test_what_the_file_refuses_the_form_refuses_beside_its_field(shop, changed, path, field):
    data = market_data(Form({**starts(), **FILLED, **changed}))
    with pytest.raises(FileProblem) as caught:
        check_market(data)
    buyer = member_of(shop, "buyer")
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **{**FILLED, **changed})
    assert page.status == 422
    for line in caught.value.details:
        assert line in page.text
        assert line.startswith(path)
    assert re.search(rf'id="{field}\.[a-z]+-help" lang="en"', page.html)


def test_every_kind_is_drafted_and_asked_for(shop):
    buyer = member_of(shop, "buyer")
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="plan", **FILLED)
    assert page.status == 200
    assert 'name="feature7.name"' in page.html  # four more lines
    assert re.search(r'name="feature2.other" value="yes" checked', page.html)
    page = buyer.press(page, "/b/new", act="draft", **{"feature2.other": "yes"})
    assert page.heading == "Every kind"
    rules = json.loads(buyer.send("GET", f"{page.path}/market.json").content)
    assert rules["features"] == FEATURES
    campaign = page.path.removeprefix("/b/")
    shop.paymaster.fund(campaign, 20_000)
    assert "open" in buyer.press(page, f"{page.path}/open").text
    seller = seller_of(shop, campaign)
    asked = seller.see("/s/consent").text
    assert "a date from 1950-01-01 to 2010-12-31" in asked
    assert "one of: baker, smith, cook, or something else; can be left out" in asked


def test_a_campaign_has_the_consent_text_that_was_chosen(shop):
    with acting(shop.desk) as connection:
        version = add_consent(connection, "en", "A text of this hospital's own.", shop.clock())
    buyer = member_of(shop, "buyer")
    form = buyer.see("/b/new")
    assert "Version 1 (de, en)" in form.text
    assert f"Version {version} (en)" in form.text
    chosen = {**FILLED, "title": "Own text", "consent_version": str(version)}
    page = buyer.press(form, "/b/new", act="draft", **chosen)
    campaign = page.path.removeprefix("/b/")
    with reading(shop.desk.ledger) as connection:
        assert campaign_of(connection, campaign).consent_version == version
    shop.paymaster.fund(campaign, 20_000)
    buyer.press(page, f"{page.path}/open")
    reader = seller_of(shop, campaign, "de")
    page = reader.see("/s/consent")
    assert "A text of this hospital's own." in page.text
    assert '<div lang="en">' in page.html
    assert reader.press(page, "/s/consent").heading == "Sie nehmen teil"
    for wrong in ("99", "x"):
        refused = buyer.press(
            form, "/b/new", act="draft", **{**chosen, "title": "x", "consent_version": wrong}
        )
        assert refused.status == 422


def test_many_features_have_room_and_keep_their_order(shop):
    names = [f"answer {k}" for k in range(30)]
    filled = {**FILLED, "title": "Many"}
    filled = {name: value for name, value in filled.items() if not name.startswith("feature")}
    for k, name in enumerate(names):
        filled |= {f"feature{k}.name": name, f"feature{k}.low": "0", f"feature{k}.high": "1"}
    data = market_data(Form(filled))
    assert list(data["features"]) == names
    assert places_of(filled)["features.answer 29.high"] == "feature29.high"


def test_a_person_with_many_rows_gets_room_for_them(shop):
    campaign = shop.open(market={**MARKET, "sellers": {"expected": 30, "rows_per_person": 40}})
    reader = seller_of(shop, campaign)
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    page = reader.press(reader.press(reader.press(page, "/s/seat"), "/s/quote"), "/s/accept")
    assert "up to 40 rows" in page.text
    assert "r3.f0" in page.form("/s/record")["names"]
    assert "r4.f0" not in page.form("/s/record")["names"]
    row = {"f0": "40", "f1": "100", "label": "yes"}
    filled = {f"{'' if k == 0 else f'r{k}.'}{name}": value for k in range(4) for name, value in row.items()}
    page = reader.press(page, "/s/record", act="more", **filled)
    assert (page.status, page.path) == (200, "/s/record")
    assert "r11.f0" in page.form("/s/record")["names"]
    filled |= {f"r{k}.{name}": value for k in range(4, 12) for name, value in row.items()}
    page = reader.press(page, "/s/record", act="more", **filled)
    filled |= {f"r{k}.{name}": value for k in range(12, 16) for name, value in row.items()}
    page = reader.press(page, "/s/record", act="send", **filled)
    assert page.path == "/s/payee"
    shop.check()


def test_what_is_left_goes_back_through_the_paymaster_and_the_auditor_sees_the_books(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for _ in range(4):
            shop.seller(campaign, *SOLD)
        paymaster, auditor = member_of(shop, "paymaster"), member_of(shop, "auditor")
        page = paymaster.see("/p")
        assert f"/p/{campaign}/refund" not in {form["action"] for form in page.forms}
        assert "money comes in multiples of" in page.text
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        page = again(paymaster).see("/p")
        assert "money comes in multiples of" not in page.text
        form = page.form(f"/p/{campaign}/refund")
        left = form["values"]["amount"]
        too_much = paymaster.press(page, f"/p/{campaign}/refund", amount="200")
        assert too_much.status == 422
        page = paymaster.press(page, f"/p/{campaign}/refund")
        assert re.search(r"Left of the buyer.{1,5}s money</th><td[^>]*>€0.00", page.html)
        assert float(left) > 0
        page = again(auditor).see(f"/b/{campaign}")
        assert "All accounts of this service add up." in page.text
        assert f"/b/{campaign}/openings.json" in page.links
        assert f"/b/{campaign}/costs.json" not in page.links
        assert auditor.send("GET", f"/b/{campaign}/costs.json").status_code == 404
        shop.check()


def test_a_buyer_sees_what_is_left_and_enters_it_only_where_buyers_may(tmp_path):
    with open_shop(tmp_path, funding="buyer") as shop:
        buyer = member_of(shop, "buyer")
        page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **FILLED)
        shop.paymaster.fund(page.path.removeprefix("/b/"), 1_234)
        page = buyer.press(page, f"{page.path}/cancel")
        assert "€12.34" in page.text
        page = buyer.press(page, f"{page.path}/refund")
        assert "€12.34" not in page.text
        shop.check()


def test_the_auditor_gets_reported_costs_of_an_offline_campaign_and_nobody_else(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open("offline", amount=100_000)
        for k in range(12):
            shop.seller(campaign, "consent").post("/me/report", {"cost": 1.0 + k / 10})
        shop.clock.pass_(days=7)
        work(shop.desk, shop.clock())
        auditor = member_of(shop, "auditor")
        assert f"/b/{campaign}/costs.json" in auditor.see(f"/b/{campaign}").links
        told = json.loads(auditor.send("GET", f"/b/{campaign}/costs.json").content)
        assert sorted(one["cost"] for one in told["costs"]) == [1.0 + k / 10 for k in range(12)]
        for role in ("operator", "buyer", "paymaster"):
            assert member_of(shop, role).send("GET", f"/b/{campaign}/costs.json").status_code == 404
