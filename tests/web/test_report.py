"""The report of a released campaign: made once, of sums and of means of ten, for buyer and auditor alone."""

import re

import pytest

from dpmarket.market import work
from dpmarket.report import from_desk, make_reports, summarise_live
from support.live import MARKET
from support.readers import member_of
from support.shop import SOLD, open_shop

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

PEOPLE = 24
MOST = 60_000


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A service with a campaign of 24 people that was released and certified, and its sellers."""
    with open_shop(tmp_path_factory.mktemp("released")) as shop:
        campaign = shop.open(amount=200_000)
        sellers = [shop.seller(campaign, *SOLD, cost=1.0 + 0.1 * k) for k in range(PEOPLE)]
        offers = [seller.get("/me/quote") for seller in sellers]
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        yield shop, campaign, sellers, offers


def test_a_report_is_made_once_and_kept(released):
    shop, campaign, _, _ = released
    before = shop.request("GET", f"/api/v1/campaigns/{campaign}/report", shop.tokens["buyer"])
    assert before.status_code in (200, 404)
    make_reports(shop.desk, shop.clock())
    first = shop.buyer.report(campaign)
    assert make_reports(shop.desk, shop.clock()) == 0
    assert shop.buyer.report(campaign) == first
    assert f"<h1>{shop.buyer.campaign(campaign)['title']}</h1>".encode() in first
    assert b"Passed: nothing was found." in first
    assert b"FAILED" not in first


def test_nobody_else_gets_a_report(released):
    shop, campaign, sellers, _ = released
    make_reports(shop.desk, shop.clock())
    for token in (shop.tokens["paymaster"], shop.tokens["operator"], sellers[0].token):
        assert shop.request("GET", f"/api/v1/campaigns/{campaign}/report", token).status_code == 404
    assert shop.request("GET", f"/api/v1/campaigns/{campaign}/report", shop.tokens["auditor"]).is_success
    other = member_of(shop, "buyer")
    assert other.send("GET", f"/b/{campaign}/report.html").status_code == 404


def test_no_value_of_one_seller_is_on_the_page(released):
    shop, campaign, _, offers = released
    make_reports(shop.desk, shop.clock())
    page = shop.buyer.report(campaign).decode()
    told = {float(value) for value in re.findall(r'<data[^>]*value="(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"', page)}
    assert len(told) > 50
    curve_ends = {offers[0]["epsilon"], max(one["epsilon"] for one in offers)}
    for one in offers:
        if one["epsilon"] not in curve_ends:
            assert one["epsilon"] not in told
        assert one["payment"] / 100 not in told
    groups = re.findall(r'data-name="(?:bought|other)_groups\.\d+\.sellers"[^>]*value="(\d+)"', page)
    assert groups
    assert all(int(number) >= 10 for number in groups)


def test_the_costs_behind_offers_are_never_more_than_what_was_reported(released):
    shop, campaign, _, offers = released
    make_reports(shop.desk, shop.clock())
    summary = summarise_live(shop.desk, campaign)
    assert summary.totals.bought == PEOPLE
    assert summary.totals.paid_minor_units == sum(one["payment"] for one in offers)
    assert all(audit.passed for audit in summary.audits)
    assert summary.bought_groups[0].low >= 1.0


def test_the_page_leads_to_the_report_in_the_browser(released):
    shop, campaign, _, _ = released
    make_reports(shop.desk, shop.clock())
    auditor = member_of(shop, "auditor")
    page = auditor.see(f"/b/{campaign}/report")
    assert f"/b/{campaign}/report.html" in page.links
    answer = auditor.send("GET", f"/b/{campaign}/report.html")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.num_bytes_downloaded < MOST  # by far more before it is packed
    bare = auditor.send("GET", f"/b/{campaign}/report.html", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in bare.headers
    assert bare.content == answer.content == shop.members["auditor"].report(campaign)


def test_of_few_people_there_is_no_report_and_the_page_says_so(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for _ in range(4):
            shop.seller(campaign, *SOLD)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        auditor = member_of(shop, "auditor")
        assert "is being made" in auditor.see(f"/b/{campaign}/report").text
        assert make_reports(shop.desk, shop.clock()) == 1
        assert make_reports(shop.desk, shop.clock()) == 0
        page = auditor.see(f"/b/{campaign}/report")
        assert "fewer than ten" in page.text
        assert f"/b/{campaign}/report.html" not in page.links
        assert auditor.send("GET", f"/b/{campaign}/report.html").status_code == 404


def test_an_offline_campaign_is_reported_on_with_who_left_in_no_figure(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open("offline", amount=200_000)
        sellers = [shop.seller(campaign, "consent") for _ in range(16)]
        for k, seller in enumerate(sellers):
            seller.post("/me/report", {"cost": 1.0 + 0.1 * k})
        shop.clock.pass_(days=7)
        work(shop.desk, shop.clock())
        for seller in sellers[:14]:
            seller.accept()
            seller.deliver({"age": 41, "income": 2.5e4, "bought": "yes"})
        shop.clock.pass_(days=2)
        work(shop.desk, shop.clock())
        summary = summarise_live(shop.desk, campaign)
        assert (summary.totals.sellers, summary.totals.withdrawn) == (14, 2)
        assert summary.rule.is_planned  # two left: the rule that came out would tell their promises
        assert all(audit.passed for audit in summary.audits)
        assert make_reports(shop.desk, shop.clock()) == 1
        assert b"2" in shop.buyer.report(campaign)


@pytest.mark.parametrize("options", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_campaign_with_a_delta_is_reported_on_as_well(tmp_path, monkeypatch, options):
    """Every option is a plan of its own, seconds with a delta: one in place of all."""
    if options == 1:
        monkeypatch.setattr("dpmarket.report.options.FACTORS", (1.0,))
        monkeypatch.setattr("dpmarket.report.from_campaign.crowd_options", lambda *market: ())
    told, render = [], from_desk.render_page
    monkeypatch.setattr(from_desk, "render_page", lambda summary: told.append(summary) or render(summary))
    rules = {**MARKET, "objective": {"payment_weight": 0.01, "max_epsilon": 1.0, "delta": 6e-4}}
    with open_shop(tmp_path) as shop:
        campaign = shop.open(market=rules, amount=200_000)
        for k in range(12):
            shop.seller(campaign, *SOLD, cost=1.0 + 0.1 * k)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        assert make_reports(shop.desk, shop.clock()) == 1
        (summary,) = told
        assert summary.delta == 6e-4
        assert len(summary.options) == options
        assert summary.totals.bought == 12
        assert all(audit.passed for audit in summary.audits)
        auditor = member_of(shop, "auditor")
        assert auditor.send("GET", f"/b/{campaign}/report.html").status_code == 200
        for path in (f"/b/{campaign}", f"/b/{campaign}/report"):
            assert "added to the chance of any result; delta is at most 1 in 1,666" in auditor.see(path).text
