"""The live desk with a delta: seats, clearing, training and receipts; limits of deltas over campaigns."""

import json

import pytest

import dpmarket as dpm
from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import rounds_of
from dpmarket.market.deltas import LIFETIME_DELTA
from dpmarket.market.opening import curve_of
from support.live import CLOSES, MARKET, SOLD, Live

DELTA = 6e-4
WITH_DELTA = {**MARKET, "objective": {"payment_weight": 0.01, "max_epsilon": 1.0, "delta": DELTA}}


def test_a_campaign_with_a_delta_goes_from_the_menu_to_verified_receipts(desk):
    live = Live(desk, rules=WITH_DELTA, seats=8)
    people = [live.newcomer(f"p{k}", *SOLD, cost=1.0 + k / 2) for k in range(4)]
    promised = [live.looked(market.quote_of, who) for who in people]
    assert all(0.0 < quote.epsilon <= 1.0 for quote in promised)
    assert [quote.epsilon for quote in promised] == sorted((q.epsilon for q in promised), reverse=True)
    assert live.close() == "closed"
    assert live.train() == "released"
    assert [found.delta for found in live.looked(rounds_of)] == [DELTA]
    body = market.certify_campaign(live.desk, live.campaign, live.now)
    receipt = live.looked(market.show_receipt, market.Caller("seller", people[0]), people[0])
    found = dpm.verify(body, receipt=receipt)
    assert found.passed, found
    assert any("1 - delta" in check.detail for check in found.checks)


def test_all_at_once_a_campaign_with_a_delta_is_cleared(desk):
    live = Live(desk, mechanism="offline", rules=WITH_DELTA)
    people = [live.newcomer(f"p{k}", "consent", "report", cost=1.0 + k / 4) for k in range(10)]
    live.now = CLOSES
    done = market.clear(desk, live.campaign, live.now)
    assert (done.reports, done.state) == (10, "deciding")
    quote = live.looked(market.quote_of, people[0])
    assert 0.0 < quote.epsilon <= 1.0
    assert quote.payment >= 100 * quote.epsilon


def test_deltas_of_one_person_do_not_add_up_to_more_than_the_desk_allows(desk):
    assert 2 * DELTA > LIFETIME_DELTA
    first = Live(desk, rules=WITH_DELTA, seats=8)
    second = Live(desk, rules=WITH_DELTA, seats=8, title="summer")
    one, other = first.newcomer("ann", cap=50.0), second.newcomer("ann", cap=50.0)
    assert first.consent(one) == "consented"
    before = first.limits(one)
    assert second.consent(other) == "waiting"
    assert first.limits(one) == before
    first.withdraw(one)
    assert second.seat(other).state == "seated"


def test_a_delta_above_the_desks_limit_and_too_many_people_are_refused(desk):
    rules = {**WITH_DELTA, "objective": {**WITH_DELTA["objective"], "delta": 2e-3}}
    with pytest.raises(MarketRefusal, match="over all campaigns"):
        Live(desk, rules=rules)
    live = Live(desk, rules=WITH_DELTA, title="many")
    with pytest.raises(MarketRefusal, match="at most 166 people"):
        live.invite(*(f"p{k}" for k in range(167)))
    assert len(live.invite("ann", "bob")) == 2


def test_the_frozen_curve_is_read_back_as_it_was(desk):
    live = Live(desk, rules=WITH_DELTA)
    data = json.loads(live.opening.curve)
    assert data["mechanism"] == "online with a delta"
    again = curve_of(live.opening.curve)
    assert again.to_dict() == data
