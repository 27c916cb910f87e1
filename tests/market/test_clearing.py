"""Offline campaigns: sealed costs, one decision for all, and a debt where money is short; nothing is void."""

from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.campaign import Reported, decide_offline
from dpmarket.campaign import check_market as checked_market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import clearing, tables
from support.live import CLOSES, DELIVER, MARKET, START, Live

COSTS = [1.1, 1.4, 2.0, 2.3, 3.1, 4.9]


def reported(live, costs=COSTS):
    """Let people report; return their participations in the order in which clearing sees them."""
    people = {live.newcomer(f"p{k}", "consent", "report", cost=cost): cost for k, cost in enumerate(costs)}
    return dict(sorted(people.items()))


def cleared(live):
    live.now = CLOSES
    return market.clear(live.desk, live.campaign, live.now)


def listed(costs):
    costs = np.array(list(costs))
    return Reported(range(costs.size), costs, b"0" * 16)


def quotes_of(live, people):
    quotes = [live.looked(market.quote_of, who) for who in people]
    return [(quote.epsilon, quote.payment) for quote in quotes]


def test_everybody_is_quoted_as_the_mechanism_decides_and_their_money_is_held(offline):
    people = reported(offline)
    result = cleared(offline)
    decided = decide_offline(checked_market(MARKET), listed(people.values()))
    expected = list(zip(decided.outcome.epsilons.tolist(), decided.amounts.tolist(), strict=True))
    assert quotes_of(offline, people) == expected
    assert (result.reports, result.total, result.state) == (6, int(decided.amounts.sum()), "deciding")
    assert offline.balance().held == result.total
    states = ["quoted" if payment else "declined" for _, payment in expected]
    assert [offline.state(who) for who in people] == states


def test_an_offline_campaign_from_reports_to_receipts(offline):
    people = reported(offline)
    silent = offline.newcomer("silent", "consent")
    with pytest.raises(MarketRefusal) as refusal:
        market.clear(offline.desk, offline.campaign, CLOSES - timedelta(seconds=1))
    assert refusal.value.kind == "early"
    offline.now = CLOSES
    assert [job.kind for job in market.work(offline.desk, offline.now)] == ["clear"]
    assert (offline.state(silent), offline.limits(silent).held) == ("expired", 0.0)
    sellers = [who for who in people if offline.state(who) == "quoted"]
    for who in sellers:
        offline.accept(who)
        offline.deliver(who)
    offline.now = DELIVER
    assert [job.kind for job in market.work(offline.desk, offline.now)] == ["close", "train", "certify"]
    assert [offline.state(who) for who in sellers] == ["spent"] * len(sellers)
    assert offline.looked(market.show_receipt, market.Caller("seller", sellers[0]), sellers[0])


def test_clearing_is_done_once_and_a_killed_workers_successor_decides_the_same(offline):
    people = reported(offline)
    offline.now = CLOSES
    found = clearing.begin_clearing(offline.desk, offline.campaign, offline.now)  # and then the worker dies
    assert offline.state() == "clearing"
    sellers, costs = clearing.open_costs(offline.desk, found)
    assert [people[who] for who, _ in sellers] == costs.tolist()
    market.clear(offline.desk, offline.campaign, offline.now)
    before = quotes_of(offline, people)
    with pytest.raises(MarketRefusal) as refusal:
        market.clear(offline.desk, offline.campaign, offline.now)
    assert refusal.value.kind == "state"
    decided = decide_offline(checked_market(MARKET), listed(costs))
    with pytest.raises(MarketRefusal, match="cleared already"), offline.acting() as connection:
        clearing.enter_quotes(connection, found, sellers, decided, offline.now)
    assert quotes_of(offline, people) == before


def test_what_escrow_lacks_is_the_buyers_debt_and_nobody_is_asked_for_anything_meanwhile(desk):
    live = Live(desk, "offline")
    with live.acting() as connection:  # more people come than were expected, and they are cheap
        people = market.invite(connection, live.campaign, [f"p{k}" for k in range(40)], 5.0, live.now)
    for invitation in people:
        live.steps(invitation.participation, "consent", "report", cost=1.0)
    # Take money away as if it had never been there: the plan was wrong.
    with reading(desk.ledger) as connection:
        found = market.campaign_of(connection, live.campaign)
    from dpmarket.ledger import money

    with live.acting() as connection:
        money.refund(connection, live.campaign, live.escrow - 100)
    result = cleared(live)
    assert result.state == "unpaid"
    step = -(-20 * 100 // 30)  # what twenty of thirty expected people would be paid of what was set aside
    assert result.debt == -(-(result.total - 100) // step) * step
    who = people[0].participation
    before = quotes_of(live, [who])
    assert live.balance().held == 0
    for act in (live.accept, live.deliver):
        with pytest.raises(MarketRefusal, match="unpaid"):
            act(who)
    live.decline(people[1].participation)
    live.withdraw(people[2].participation)
    live.now = DELIVER + timedelta(days=1)
    market.work(desk, live.now)
    assert live.state() == "unpaid"
    with live.acting() as connection:
        market.fund_campaign(connection, live.campaign, 1, live.now)
    assert live.state() == "unpaid"
    owed = live.looked(market.campaign_of, live.campaign).debt
    assert owed == result.debt - 1  # two have left, and that is not told
    with live.acting() as connection:
        market.fund_campaign(connection, live.campaign, owed, live.now)
    assert live.state() == "deciding"
    assert live.balance().held == result.total - 2 * before[0][1]
    # The buyer was three days late, and so is the end.
    late = live.now - CLOSES
    assert live.looked(market.campaign_of, live.campaign).deliver_until == (DELIVER + late).isoformat()
    assert found.deliver_until == DELIVER.isoformat()
    live.accept(who)
    live.deliver(who)
    assert quotes_of(live, [who]) == before


def test_a_clock_that_was_put_back_takes_no_time_from_sellers(desk):
    live = Live(desk, "offline")
    list(reported(live, [1.0] * 8))
    from dpmarket.ledger import money

    with live.acting() as connection:
        money.refund(connection, live.campaign, live.escrow)
    debt = cleared(live).debt
    with live.acting() as connection:
        market.fund_campaign(connection, live.campaign, debt, CLOSES - timedelta(days=1))
    assert live.state() == "deciding"
    assert live.looked(market.campaign_of, live.campaign).deliver_until == DELIVER.isoformat()


def test_an_unpaid_campaign_that_everybody_left_is_cancelled(desk):
    live = Live(desk, "offline")
    people = list(reported(live, [1.0] * 8))
    from dpmarket.ledger import money

    with live.acting() as connection:
        money.refund(connection, live.campaign, live.escrow - 10)
    assert cleared(live).state == "unpaid"
    for who in people[:-1]:
        live.withdraw(who)
    market.sweep(desk, live.now)
    assert live.state() == "unpaid"
    live.withdraw(people[-1])
    market.sweep(desk, live.now)
    assert live.state() == "cancelled"
    assert live.balance().available == 10


def test_who_withdraws_while_it_is_decided_has_no_quote_and_nobody_elses_changes(offline, monkeypatch):
    people = list(reported(offline))
    offline.now = CLOSES

    def leaving(*arguments):
        offline.withdraw(people[0])
        return decide_offline(*arguments)

    monkeypatch.setattr(clearing, "decide_offline", leaving)
    market.clear(offline.desk, offline.campaign, offline.now)
    assert offline.state(people[0]) == "withdrawn"
    decided = decide_offline(checked_market(MARKET), listed(dict(sorted(_costs(offline, people))).values()))
    expected = list(zip(decided.outcome.epsilons.tolist(), decided.amounts.tolist(), strict=True))
    assert quotes_of(offline, people[1:]) == expected[1:]


def _costs(live, people):
    """Return who reported what: the same costs as always, by the order of invitation."""

    def look(connection):
        own = tables.participation.c
        rows = connection.execute(sa.select(own.id, own.person)).all()
        invited = [row.id for row in connection.execute(
            sa.select(tables.event.c.participation.label("id")).where(tables.event.c.kind == "invited")
            .order_by(tables.event.c.number))]  # fmt: skip
        assert len(rows) == len(invited)
        return dict(zip(invited, COSTS, strict=True))

    return live.looked(look).items()


def test_a_report_is_sealed_once_and_by_who_consented_only(offline):
    who = offline.newcomer("a", "consent", "report", cost=1.23456789)
    sealed = offline.looked(
        lambda connection: connection.execute(
            sa.select(tables.participation.c.sealed_cost).where(tables.participation.c.id == who)
        ).scalar_one()
    )
    assert np.float64(1.23456789).tobytes() not in bytes(sealed)
    for person in (who, offline.newcomer("b")):
        with pytest.raises(MarketRefusal) as refusal:
            offline.report(person)
        assert refusal.value.kind == "state"
    with pytest.raises(MarketRefusal, match="all are quoted at once"):
        offline.seat(who)
    offline.now = START + timedelta(days=7)
    late = offline.newcomer
    with pytest.raises(MarketRefusal):
        late("c", "consent")


def test_the_other_mechanism_refuses_reports(live):
    who = live.newcomer("a", "consent")
    with pytest.raises(MarketRefusal, match="take a seat"):
        live.report(who)


def test_without_reports_the_campaign_is_cancelled(offline):
    who = offline.newcomer("a", "consent")
    assert cleared(offline).state == "cancelled"
    assert (offline.state(who), offline.limits(who).held) == ("expired", 0.0)


def test_if_all_ask_for_more_than_the_market_knows_nothing_is_bought_and_all_are_let_go(offline):
    who = offline.newcomer("a", "consent", "report", cost=6.0)
    result = cleared(offline)
    assert (result.reports, result.quoted, result.state) == (1, 0, "cancelled")
    assert (offline.state(who), offline.limits(who).held) == ("expired", 0.0)
