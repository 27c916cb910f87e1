"""Truth pays, through the desk's own functions, also where the budget runs out midway."""

from fractions import Fraction

import numpy as np
import pytest

from dpmarket import market
from dpmarket.market import open_desk
from support.live import ASKED, MARKET, Live

SELLERS = 8


def gains(desk, seed, lies, rules=MARKET):
    """Return what lies of one seller gain, in minor units, and whether there was a seat for them."""
    rng = np.random.default_rng(seed)
    costs = rng.uniform(1.0, 5.0, SELLERS).round(int(rng.integers(1, 8)))
    liar = int(rng.integers(SELLERS))
    live = Live(desk, seats=int(rng.integers(1, 6)), title=f"profile {seed}", rules=rules)
    people = live.invite(*(f"{seed}-{k}" for k in range(liar + 1)))
    with live.acting() as connection:
        for who, cost in zip(people, costs, strict=False):
            market.give_consent(connection, who, live.page.digest, live.now)
            seat = market.take_seat(connection, who, live.now)
            if who == people[liar]:
                break
            if seat.state == "seated":
                quote = market.choose(connection, who, float(cost), live.now)
                if quote.payment:
                    (market.accept if rng.random() < 0.8 else market.decline)(connection, who, live.now)
        if seat.state != "seated":
            return None
        own = Fraction(float(costs[liar]))

        def gain(report):
            trial = connection.begin_nested()
            quote = market.choose(connection, people[liar], float(report), live.now)
            trial.rollback()
            return quote.payment - own * Fraction(quote.epsilon) * quote.minor_units

        truth = gain(costs[liar])
        assert truth >= 0  # the payment covers the cost, in exact arithmetic
        near = costs[liar] * (1.0 + rng.normal(0.0, 0.05, lies // 2))
        far = rng.uniform(0.0, 7.0, lies - lies // 2)
        return max(gain(lie) - truth for lie in np.abs(np.concatenate([near, far])))


def run(folder, profiles, lies, rules=MARKET):
    with open_desk(folder / "market.ledger", folder / "keys") as desk:
        found = [gains(desk, seed, lies, rules) for seed in range(profiles)]
    seated = [gain for gain in found if gain is not None]
    assert 0 < len(seated) < len(found)  # for some the budget had run out, and they were asked for nothing
    assert max(seated) <= 1


@pytest.mark.parametrize("rules", [MARKET, ASKED])
def test_no_lie_gains_more_than_a_minor_unit(tmp_path, rules):
    run(tmp_path, profiles=12, lies=10, rules=rules)


@pytest.mark.slow
def test_no_lie_of_ten_thousand_gains_more_than_a_minor_unit(tmp_path):
    run(tmp_path, profiles=200, lies=50)


def test_offline_no_lie_gains_more_than_a_minor_unit_even_if_it_decides_about_a_debt(tmp_path):
    """A campaign whose escrow is short for the truth, and not for a lie: nothing is void, so no lie pays."""
    rng = np.random.default_rng(5)
    short = 0
    with open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        for profile in range(4):
            costs = rng.uniform(1.0, 4.0, 3)
            truth = offline(desk, f"{profile}", costs, None)
            escrow = truth.total - 1
            for lie in (costs[0] * 1.3, costs[0] * 0.7, 4.99):
                told = offline(desk, f"{profile} {lie}", np.append(lie, costs[1:]), escrow)
                own = Fraction(float(costs[0])) * 100
                gain = (told.payment - own * Fraction(told.epsilon)) - (
                    truth.payment - own * Fraction(truth.epsilon)
                )
                assert gain <= 1
                short += told.debt > 0
    assert 0 < short < 12


class Told:
    """What the first seller is offered, and what the campaign came to."""

    def __init__(self, quote, result):
        self.epsilon, self.payment = quote.epsilon, quote.payment
        self.total, self.debt = result.total, result.debt


def offline(desk, title, costs, escrow):
    from dpmarket.ledger import money
    from support.live import CLOSES

    live = Live(desk, "offline", title=title)
    people = live.invite(*(f"{title}-{k}" for k in range(costs.size)))
    with live.acting() as connection:
        for who, cost in zip(people, costs, strict=True):
            market.give_consent(connection, who, live.page.digest, live.now)
            market.report_cost(connection, who, float(cost), live.now)
        if escrow is not None:
            money.refund(connection, live.campaign, live.escrow - escrow)
    result = market.clear(desk, live.campaign, CLOSES)
    return Told(live.looked(market.quote_of, people[0]), result)
