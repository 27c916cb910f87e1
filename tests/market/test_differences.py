"""A buyer who takes the difference of two sums learns no single seller's payment, whatever came between."""

from datetime import timedelta

import numpy as np
import pytest

from dpmarket import market
from dpmarket.campaign import spending
from dpmarket.errors import Infeasible, MarketRefusal
from dpmarket.ledger import money, reading
from dpmarket.market import tables
from support.live import CLOSES, SOLD, Live


def owing(desk, title, costs, escrow):
    """Return an offline campaign whose escrow is short, and what clearing came to."""
    live = Live(desk, "offline", title=title)
    for k, cost in enumerate(costs):
        live.newcomer(f"{title} {k}", "consent", "report", cost=cost)
    with live.acting() as connection:  # as if the plan had been wrong
        money.refund(connection, live.campaign, live.escrow - escrow)
    live.now = CLOSES
    return live, market.clear(desk, live.campaign, live.now)


def shown(live):
    with reading(live.desk.ledger) as connection:
        return market.show_sums(connection, market.Caller("buyer", live.buyer), live.campaign)


def fund(live, amount):
    with live.acting() as connection:
        return market.fund_campaign(connection, live.campaign, amount, live.now)


def refund(live, amount):
    with live.acting() as connection:
        market.refund_campaign(connection, live.campaign, amount, live.now)


def test_who_leaves_an_unpaid_campaign_changes_nothing_that_the_buyer_sees_or_pays(desk):
    live, result = owing(desk, "spring", [1.0, 1.2, 1.4, 1.6, 2.0, 2.2], 60)
    people = live.looked(lambda connection: quoted(connection, live))
    assert shown(live).debt == result.debt
    for who in people[:2]:
        live.withdraw(who)
        assert shown(live).debt == live.looked(market.campaign_of, live.campaign).debt == result.debt
        market.sweep(desk, live.now)
        assert (shown(live).debt, live.state()) == (result.debt, "unpaid")
    fund(live, result.debt - 1)
    assert (shown(live).debt, live.state()) == (1, "unpaid")
    fund(live, 1)
    assert (shown(live).debt, live.state()) == (0, "deciding")


def quoted(connection, live):
    states = tables.participation.c
    query = tables.participation.select().where(states.campaign == live.campaign, states.state == "quoted")
    return [row.id for row in connection.execute(query.order_by(states.id))]


def test_a_debt_is_told_in_steps_that_hide_what_one_person_is_offered(desk):
    """Two campaigns that differ by one person's offer: their totals differ, and their debts do not."""
    costs = np.linspace(1.0, 4.5, 9).tolist()
    _, one = owing(desk, "one", [*costs, 4.9], 1500)
    _, other = owing(desk, "other", [*costs, 3.0], 1500)
    assert one.total != other.total
    assert one.debt == other.debt >= max(one.total, other.total) - 1500
    assert one.debt % 1000 == 0  # of what was set aside for thirty expected people, twenty's part


def test_nothing_is_given_back_between_the_opening_and_the_end(live, monkeypatch):
    """Asking for amounts until one is refused would tell what is held, and twice, what somebody was."""
    live.newcomer("a", *SOLD)
    leaving = live.newcomer("b", *SOLD)

    def broken(*_, **__):
        with pytest.raises(MarketRefusal, match="after the end") as refusal:
            refund(live, 1)
        assert refusal.value.kind == "state"
        raise Infeasible("planted.")

    assert live.state() == "open"
    with pytest.raises(MarketRefusal, match="after the end"):
        refund(live, 1)
    live.close()
    with monkeypatch.context() as patch:
        patch.setattr(spending, "_fitted", broken)  # the training is under way
        with pytest.raises(Infeasible):
            live.train()
    live.withdraw(leaving)
    with pytest.raises(MarketRefusal, match="after the end"):
        refund(live, 1)
    assert live.train() == "released"
    rest = live.balance().available
    with pytest.raises(MarketRefusal, match="promised to nobody"):
        refund(live, rest + 1)
    refund(live, rest)
    assert live.balance().available == 0


@pytest.mark.parametrize("cost", [1.1, 4.0])
def test_money_for_more_people_calls_as_many_whatever_others_are_paid(desk, cost):
    """Sent cent by cent, it would call the first who waits at an amount that tells what is held."""
    live = Live(desk, seats=2)
    largest = live.opening.largest_payment
    for k in range(2):
        live.newcomer(f"s{k}", "consent", "seat", "choose", cost=cost)
    k = 0
    while live.seat(live.newcomer(f"w{k}", "consent")).state == "seated":
        k += 1
    assert live.balance().available < largest
    others = [live.newcomer(f"line {k}", "consent", "seat") for k in range(3)]
    before = live.balance()
    for amount in (1, largest - 1, largest + 1):
        with pytest.raises(MarketRefusal, match=f"multiple of {largest}") as refusal:
            fund(live, amount)
        assert refusal.value.kind == "invalid"
    assert live.balance() == before
    fund(live, 2 * largest)
    market.sweep(desk, live.now)
    states = [live.state(who) for who in others]
    assert (states, shown(live).counts["waiting"]) == (["seated", "waiting", "waiting"], 2)


def test_the_paymaster_sees_what_is_owed_and_not_what_is_held(live):
    caller = market.Caller("paymaster", "x")
    before = live.looked(market.list_paying, caller)
    live.newcomer("a", *SOLD)
    assert live.balance().held > 0
    assert live.looked(market.list_paying, caller) == before
    live.close()
    live.train()
    (paying,) = live.looked(market.list_paying, caller)
    assert paying.balance.owed == live.balance().owed > 0


def test_a_campaign_has_no_more_money_than_can_be_counted(live):
    largest = live.opening.largest_payment
    with pytest.raises(MarketRefusal, match="2\\^53"):
        fund(live, 2**53 // largest * largest)
    for wrong in (0, -largest, True, float(largest), 2**70):
        with pytest.raises(MarketRefusal, match="whole minor units"):
            fund(live, wrong)
    live.now += timedelta(seconds=1)
    assert live.balance().funded == live.escrow
