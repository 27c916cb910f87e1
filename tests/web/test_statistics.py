"""A campaign of statistics through the API, and through the pages of a buyer and of sellers."""

import json
import re

import pytest

from dpmarket.certificates import verify
from dpmarket.market import work
from dpmarket.report import make_reports
from support.live import ANSWERS, ASKED
from support.readers import Reader, again, member_of, seller_of
from support.shop import body_of, open_shop

FILLED = {
    "title": "Ways to work",
    "purpose": "numbers",
    "objective.budget": "20",
    "sellers.expected": "30",
    "statistic0.kind": "mean",
    "statistic0.column": "minutes",
    "statistic0.low": "0",
    "statistic0.high": "60",
    "statistic0.share": "2",
    "statistic1.kind": "histogram",
    "statistic1.column": "way",
    "statistic1.categories": "bus, car, train",
    "statistic1.name": "how people go",
}
STEPS = ("consent", "menu", "quote", "accept")


def test_the_api_takes_a_campaign_of_statistics_from_draft_to_receipts(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open(market=ASKED)
        told = json.loads(
            shop.request("GET", f"/api/v1/campaigns/{campaign}/market", shop.tokens["buyer"]).content
        )
        assert list(told["statistics"]) == list(ASKED["statistics"])
        sellers = [shop.seller(campaign, *STEPS) for _ in range(12)]
        for wrong in ({**ANSWERS, "way": "4711"}, {**ANSWERS, "member": 1}, {"age": 41}):
            answer = shop.request(
                "POST",
                "/api/v1/me/record",
                sellers[0].token,
                json={"values": wrong},
                headers={"Idempotency-Key": "k" * 20},
            )
            assert answer.status_code == 422
            assert "4711" not in str(body_of(answer))
        for seller in sellers:
            seller.deliver(ANSWERS)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        shop.check()
        found = shop.buyer.model(campaign)
        assert found["schema"] == "dpmarket.statistics/1"
        assert set(found["statistics"]) == set(ASKED["statistics"])
        certificate = shop.buyer.certificate(campaign)
        for seller in sellers:
            assert verify(certificate, receipt=seller.receipt()).passed
        report = json.loads(
            shop.request("GET", f"/api/v1/campaigns/{campaign}/figures", shop.tokens["buyer"]).content
        )
        assert all(check["verdict"] != "FAILS" for check in report["certificate"])
        make_reports(shop.desk, shop.clock())
        page = shop.request("GET", f"/api/v1/campaigns/{campaign}/report", shop.tokens["buyer"])
        assert page.status_code == 200
        assert "goes with their records" in page.text
        assert "median" in page.text


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"kind": "share", "low": 1}, "body.market.statistics.*.low"),
        ({"kind": "mean", "column": "age", "low": 1}, "body.market.statistics.*.high"),
        ({"kind": "mean", "column": "age", "low": 2, "high": 1}, "body.market.statistics.*"),
    ],
)
def test_statistics_that_contradict_themselves_are_refused_by_place(shop, change, place):
    market = {**ASKED, "statistics": {"4711": change}}
    times = dict(zip(("opens_at", "closes_at", "deliver_until"), shop.times(), strict=True))
    body = {"title": "x", "mechanism": "online", "market": market, **times}
    answer = shop.request("POST", "/api/v1/campaigns", shop.tokens["buyer"], json=body)
    assert answer.status_code == 422
    assert place in [problem["where"] for problem in body_of(answer)["problems"]]
    assert "4711" not in answer.text


def test_a_buyer_asks_for_numbers_and_sees_them_with_their_intervals(tmp_path):
    with open_shop(tmp_path) as shop:
        buyer = member_of(shop, "buyer")
        page = buyer.press(buyer.see("/b/new"), "/b/new", act="plan", **FILLED)
        assert page.status == 200
        assert "this budget" in page.text
        assert "expected squared error of the number" in page.text
        page = buyer.press(page, "/b/new", act="draft")
        assert page.heading == "Ways to work"
        assert "how people go: how many of 100 people" in page.text
        assert "it gets 67% of every promise" in page.text
        campaign = page.path.removeprefix("/b/")
        shop.paymaster.fund(campaign, 20_000)
        buyer.press(buyer.see(page.path), f"{page.path}/open")
        readers = []
        for link in [one["link"] for one in shop.operator.invite(campaign, ["a", "b", "c"])]:
            reader = Reader(shop)
            readers.append(reader)
            page = reader.enter(link)
            page = reader.see("/s/consent")
            assert "the mean of minutes, each counted from 0 to 60" in page.text
            assert "bounded influence on these numbers" in page.text
            assert "model" not in page.text.split("What is promised, and what is not")[0]
            page = reader.press(reader.press(page, "/s/consent"), "/s/seat")
            assert page.heading == "How much may the published numbers say about you?"
            page = reader.press(reader.press(page, "/s/quote"), "/s/accept")
            page = reader.see("/s/record")
            assert "what lies beyond counts as the nearest" in page.text
            refused = reader.press(page, "/s/record", f0="a while", f1="bus")
            assert (refused.status, "Please write a number" in refused.text) == (422, True)
            assert reader.press(page, "/s/record", f0="25.5", f1="bus").path == "/s/payee"
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        shop.check()
        page = again(buyer).see(f"/b/{campaign}")
        assert re.search(r"mean of minutes.*With 95% confidence between", page.text, re.S)
        assert "Effective sample size: 3" in page.text
        assert "leans towards those who sell cheaply" in page.text
        found = json.loads(buyer.send("GET", f"/b/{campaign}/model.json").text)
        value = found["statistics"]["mean of minutes"]["release"]["values"][0]
        assert f"{float(f'{value:.4g}'):g}" in page.text.replace(",", "")
        page = again(readers[0]).see("/s")
        assert page.heading == "The numbers are released"
        page = readers[0].see("/s/receipt")
        assert "nothing is wrong" in page.text
        assert "Effective sample size: 3" in page.text


def test_what_is_wrong_with_a_number_stands_beside_its_line(shop):
    buyer = member_of(shop, "buyer")
    wrong = {**FILLED, "statistic0.low": "70", "statistic1.categories": "", "statistic1.edges": "1, 2"}
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **wrong)
    assert page.status == 422
    assert re.search(r'id="statistic0.column-help"[^>]*>[^<]*low &lt; high', page.html)
    assert re.search(r'id="statistic1.edges-help"[^>]*>[^<]*at least three', page.html)
    assert page.form("/b/new")["values"]["statistic1.edges"] == "1, 2"
    assert page.form("/b/new")["values"]["purpose"] == "numbers"


def test_two_numbers_of_one_name_are_both_asked(shop):
    buyer = member_of(shop, "buyer")
    twice = {**FILLED, "title": "Twice", "statistic1.name": "mean of minutes"}
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **twice)
    assert page.status == 200
    assert "mean of minutes (2): how many of 100 people" in page.text


SEVERAL = {
    "title": "Several at once",
    "purpose": "numbers",
    "objective.budget": "20",
    "sellers.expected": "30",
    "statistic0.kind": "vector_mean",
    "statistic0.column": "east, north",
    "statistic0.bound": "2,5",
    "statistic1.kind": "histogram",
    "statistic1.column": "minutes",
    "statistic1.edges": "0, 7.5, 1500",
}


def test_a_mean_of_several_numbers_is_asked_for_as_a_file_would(tmp_path):
    with open_shop(tmp_path) as shop:
        buyer = member_of(shop, "buyer", "de")
        page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **SEVERAL)
        assert page.status == 200
        rules = json.loads(buyer.send("GET", f"{page.path}/market.json").content)["statistics"]
        asked = {"kind": "vector_mean", "columns": ["east", "north"], "bound": 2.5}
        assert rules["vector_mean of east, north"].items() >= asked.items()
        assert (
            "der gemeinsame Mittelwert von east, north, bei jedem Menschen nicht länger als 2,5" in page.text
        )
        assert "0 bis 7,5, 7,5 bis 1.500" in page.text
        campaign = page.path.removeprefix("/b/")
        shop.paymaster.fund(campaign, 20_000)
        buyer.press(page, f"{page.path}/open")
        for _ in range(3):
            reader = seller_of(shop, campaign)
            page = reader.press(reader.press(reader.see("/s/consent"), "/s/consent"), "/s/seat")
            reader.press(reader.press(page, "/s/quote"), "/s/accept")
            assert (
                reader.press(reader.see("/s/record"), "/s/record", f0="1", f1="-2", f2="30").path
                == "/s/payee"
            )
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        page = again(buyer).see(f"/b/{campaign}")
        assert re.search(r'<th scope="row">east</th>.*<th scope="row">north</th>', page.html, re.S)
        assert '<th scope="row">7,5 bis 1.500</th>' in page.html


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"statistic0.bound": ""}, "statistic0.bound"),
        ({"statistic0.bound": "-1"}, "statistic0.bound"),
        ({"statistic0.column": ","}, "statistic0.column"),
    ],
)
def test_what_is_wrong_with_a_mean_of_several_numbers_stands_beside_it(shop, change, field):
    buyer = member_of(shop, "buyer")
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **{**SEVERAL, **change})
    assert page.status == 422
    assert re.search(rf'class="problem" id="{field}-help"', page.html)


def test_without_numbers_the_form_is_refused_as_a_market_file_would_be(shop):
    buyer = member_of(shop, "buyer")
    nothing = {name: text for name, text in FILLED.items() if not name.startswith("statistic")}
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **nothing)
    assert page.status == 422


HOSTILE = "\"><script>alert(1)</script>'&{{7*7}}{t}%s"


def test_hostile_names_of_statistics_stay_text(shop):
    rules = {
        **{table: ASKED[table] for table in ("sellers", "costs", "objective", "money")},
        "statistics": {
            HOSTILE: {"kind": "histogram", "column": HOSTILE, "categories": [HOSTILE, "{key}"]},
            "b": {"kind": "share", "column": "{0.__class__}"},
        },
    }
    campaign = shop.open(market=rules)
    reader = seller_of(shop, campaign)
    page = reader.see("/s/consent")
    pages = [page]
    page = reader.press(reader.press(page, "/s/consent"), "/s/seat")
    page = reader.press(reader.press(page, "/s/quote"), "/s/accept")
    pages += [page := reader.see("/s/record"), member_of(shop, "auditor").see(f"/b/{campaign}")]
    for one in pages:
        assert one.status == 200
        assert "<script>alert" not in one.html
        assert HOSTILE in one.text
    assert reader.press(page, "/s/record", f0=HOSTILE, f1="yes").path == "/s/payee"


def test_a_record_may_have_several_rows_and_a_begun_one_stays_open(shop):
    campaign = shop.open(market={**ASKED, "sellers": {"expected": 30, "rows_per_person": 2}})
    reader = seller_of(shop, campaign)
    page = reader.press(reader.press(reader.see("/s/consent"), "/s/consent"), "/s/seat")
    reader.press(reader.press(page, "/s/quote"), "/s/accept")
    page = reader.see("/s/record")
    right = {"f0": "41", "f1": "car", "f2": "yes", "f3": "0.5", "f4": "-1"}
    again_ = {f"r1.{name}": text for name, text in right.items()}
    refused = reader.press(page, "/s/record", **right, **{**again_, "r1.f0": "old"})
    assert refused.status == 422
    assert "<details open>" in refused.html
    assert reader.press(page, "/s/record", **right, **again_).path == "/s/payee"
