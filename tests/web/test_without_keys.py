"""Who answers requests has no private key: a worker makes them, and opens what somebody may see."""

import json

import pytest

from dpmarket import market
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import Caller, asking, open_desk, tables, work
from dpmarket.web.settings import Settings
from dpmarket.web.setup import new_member, prepare
from support.live import MARKET
from support.shop import ROLES, SOLD, Clock, Shop, errands, open_shop, serving


@pytest.fixture
def keyless(tmp_path, monkeypatch):
    """A service without keys, and the desk of a worker that has them."""
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    place, clock = tmp_path / "market.ledger", Clock()
    chosen = Settings(folder=tmp_path)
    with open_desk(place, tmp_path / "keys", chosen.terms) as worker, open_desk(place, None) as desk:
        prepare(worker)
        with serving(desk, chosen, clock) as (url, metrics):
            tokens = {role: new_member(desk, f"A {role}", role, url).token for role in ROLES}
            shop = Shop(desk, url, metrics, clock, tokens)
            with shop.http:
                yield shop, worker


def test_a_service_without_keys_goes_all_the_way_beside_a_worker_with_them(keyless):
    shop, worker = keyless
    with pytest.raises(FileProblem, match="a worker has them"):
        shop.desk.keys  # noqa: B018
    with errands(worker, shop.clock):
        campaign = shop.open()
        sellers = [shop.seller(campaign, *SOLD) for _ in range(6)]
        for k, seller in enumerate(sellers):
            seller.set_payee(f"account {k}")
        shop.clock.pass_(days=9)
        work(worker, shop.clock())
        made = shop.paymaster.pay_out(campaign)
        assert {line["payee"] for line in made["lines"]} == {f"account {k}" for k in range(6)}
        openings = json.loads(shop.members["auditor"].read(f"/campaigns/{campaign}/openings"))
        assert openings
        answer = shop.request("GET", f"/api/v1/campaigns/{campaign}/costs", shop.tokens["auditor"])
        assert answer.status_code == 404  # online no cost is kept
    with reading(shop.desk.ledger) as connection:
        assert connection.execute(tables.question.select()).all() == []
    assert list(worker.keys.glob(f"{campaign}-*.key")) == []


def test_without_a_worker_nothing_is_opened_and_it_is_said_so(keyless, monkeypatch):
    shop, worker = keyless
    monkeypatch.setattr(asking.await_campaign_key, "__defaults__", (0.1,))
    campaign = shop.draft()
    shop.paymaster.fund(campaign, 20_000)
    path = f"/api/v1/campaigns/{campaign}/open"
    answer = shop.request("POST", path, shop.tokens["buyer"])
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert shop.buyer.campaign(campaign)["state"] == "draft"
    market.do_errands(worker, shop.clock())
    assert shop.request("POST", path, shop.tokens["buyer"]).status_code == 200


def test_questions_are_for_their_role_only_and_leave_nothing(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign, now = shop.open("offline", amount=100_000), shop.clock()
        for role in ("buyer", "paymaster", "operator", "seller"):
            for ask in (market.ask_for_openings, market.ask_for_costs):
                with pytest.raises(MarketRefusal, match="nothing here"):
                    ask(shop.desk, Caller(role, "x"), campaign, now)
        for role in ("buyer", "auditor", "operator", "seller"):
            with pytest.raises(MarketRefusal, match="nothing here"):
                market.ask_for_payout(shop.desk, Caller(role, "x"), campaign, now)
        with pytest.raises(MarketRefusal, match="nothing here"):
            market.ask_for_payout(shop.desk, Caller("paymaster", "x"), "no payout", now)
        with reading(shop.desk.ledger) as connection:
            assert connection.execute(tables.question.select()).all() == []


def test_a_question_that_nobody_waits_for_is_forgotten(tmp_path):
    with open_shop(tmp_path) as shop:
        values = {"id": "q", "kind": "costs", "subject": "c", "public_key": b"", "refusal": "unknown"}
        with market.acting(shop.desk) as connection:
            connection.execute(tables.question.insert().values(**values, made_at="2020-01-01T00:00:00+00:00"))
        market.do_errands(shop.desk, shop.clock())
        with reading(shop.desk.ledger) as connection:
            assert connection.execute(tables.question.select()).all() == []


def test_two_workers_make_one_key_and_the_other_is_destroyed(tmp_path, monkeypatch):
    from dpmarket.market import errands as module

    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    with open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        prepare(desk)
        now = Clock()()
        with market.acting(desk) as connection:
            buyer = market.add_member(connection, "A buyer", "buyer", now)
            schedule = market.Schedule(now, now.replace(year=now.year + 1), now.replace(year=now.year + 1))
            made = market.draft_campaign(
                connection, buyer, "spring", MARKET, "online", schedule, consent_version=1, now=now
            ).campaign
        module._make_key(desk, made)
        with reading(desk.ledger) as connection:
            first = market.public_key_of(connection, made)
        module._make_key(desk, made)
        with reading(desk.ledger) as connection:
            assert market.public_key_of(connection, made) == first
        assert len(list(desk.keys.glob(f"{made}-*.key"))) == 1
