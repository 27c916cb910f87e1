"""No misreport pays through the acts, whatever the others report, also when the money ends midway."""

import numpy as np
import pytest

from campaign.live import CLOSES, METHODS, SCHEDULE, Live
from dpmarket.campaign import line, quoting, worker
from dpmarket.mechanisms import posted_price

TRUE = (1.1, 1.7, 2.9)
LIES = (0.5, 1.3, 2.0, 2.8, 4.0)


def gain(quote, cost):
    """What a seller with a true cost gains, in minor units; a payment is rounded up by less than one."""
    return quote.payment - 100 * cost * (quote.epsilon or 0.0)


def outcomes(market, name, mechanism, report, others, places):
    """Return what the first seller gets, beside others who report."""
    live = Live(market, mechanism, places=places, name=name, escrow=5000 if mechanism == "offline" else None)
    me = [live.join(f"{name} {k}") for k in range(1 + len(others))]
    reports = [*others[:1], report, *others[1:]]  # somebody comes before
    mine = 1 if others else 0
    for k, cost in enumerate(reports):
        if mechanism == "offline":
            live.act(quoting.report, me[k], cost)
        elif live.act(line.reserve, me[k]).state == "reserved":
            live.act(quoting.choose, me[k], cost)
    if mechanism == "offline":
        market.clock.now = CLOSES
        worker.work(market, METHODS)
    seen = live.shown(me[mine])
    return quoting.Quote(seen.epsilon or 0.0, seen.payment or 0, None)


@pytest.mark.parametrize(("mechanism", "places"), [("online", 3), ("online", 1), ("offline", 3)])
def test_no_misreport_gains_more_than_rounding(market, clock, mechanism, places):
    start = clock.now
    for number, cost in enumerate(TRUE):
        honest = gain(outcomes(market, f"t{number}", mechanism, cost, [1.2, 2.0], places), cost)
        assert honest >= 0.0
        clock.now = start
        for k, lie in enumerate(LIES):
            told = outcomes(market, f"l{number}.{k}", mechanism, lie, [1.2, 2.0], places)
            assert gain(told, cost) <= honest + 1.0
            clock.now = start


def test_whether_there_is_room_depends_on_no_report(market):
    """With money for two largest payments, the third seller waits, however little the first two ask for."""
    for k, cost in enumerate((1.0, 2.9, 3.5)):
        live = Live(market, places=2, name=f"c{k}")
        first = live.join(f"a{k}")
        live.act(line.reserve, first)
        live.act(line.reserve, live.join(f"b{k}"))
        third = live.join(f"c{k}")
        assert live.act(line.reserve, third).state == "waiting"
        live.act(quoting.choose, first, cost)
        assert live.state(third) == "waiting"


def test_amounts_round_up_and_nothing_stays_nothing():
    for epsilon, price, amount in ((1e-9, 1e-9, 1), (0.5, 2.468, 124), (1.0, 2.5, 250)):
        amounts = quoting.priced(posted_price(price, epsilon), np.array([1e-9, 3.0]), 100)[1]
        assert amounts.tolist() == [amount, 0]
    assert quoting.priced(SCHEDULE, np.array([2.0]), 100)[1].tolist() == [250]
