"""The share of a budget that each mechanism spends. Writes ``docs/tables/budgets.md``.

Each row is the mean over simulated markets with a fixed seed. Spending is a multiple of the budget. *Paid* is
the mean number of sellers who sell something: where few are paid, one more or less decides how much is spent.
The second table is what escrow for cross-priced campaigns is set by: a live campaign asks for the budget and
a margin of 2% plus 2.5 over the *effective* number of paid sellers of the typical market, the squared sum of
payments over the sum of their squares. The third table has markets in which hardly anybody reports a cost
below the reserve price.
"""

from __future__ import annotations

import numpy as np

from _markdown import write_tables
from _results import Table, tell
from dpmarket.costs import Uniform
from dpmarket.mechanisms import CrossPricedMechanism, Objective, OfflineMechanism
from dpmarket.mechanisms.cross_pricing import price_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import groups_of
from dpmarket.mechanisms.plan import plan
from dpmarket.mechanisms.price_schedule import CostBins

COSTS = Uniform(1, 5)
MARKETS = 20
ESCROW_MARKETS = 60
FEW_MARKETS = 40


def shown(spent: list[float]) -> str:
    return f"{np.mean(spent):.3f} ± {np.std(spent):.3f}"


def spending() -> Table:
    """Three mechanisms, planned for one distribution, with sellers who follow it or another one."""
    rows = []
    for sellers, wrong, cap in (
        (100, 1.0, None), (100, 1.0, 3.0), (300, 1.0, None), (300, 1.0, 3.0), (1000, 1.0, None),
        (1000, 0.8, None), (1000, 1.25, None),
    ):  # fmt: skip
        tell(f"{sellers} sellers, {wrong} times the announced costs, cap {cap}")
        budget = 0.6 * sellers
        objective = Objective.for_model(10, weight_cap=cap)
        planned = plan(COSTS, objective, sellers, budget)
        crossed = CrossPricedMechanism(COSTS, objective, budget)
        exact = OfflineMechanism(COSTS, planned.objective)
        rng, spent, paid = np.random.default_rng(0), ([], [], []), []
        for _ in range(MARKETS):
            costs = COSTS.sample(sellers, rng) * wrong
            outcome, _ = crossed.run(range(sellers), costs, salt=rng.bytes(16))
            spent[0].append(outcome.total_payment / budget)
            paid.append(np.count_nonzero(outcome.epsilons))
            spent[1].append(exact.run(costs).total_payment / budget)
            spent[2].append(planned.schedules[0].quote(costs)[1].sum() / budget)
        name = f"{sellers:,}" + (f", costs {wrong:g} times" if wrong != 1.0 else "")
        rows.append([name, "none" if cap is None else f"{cap:g}", f"{np.mean(paid):.0f}", *map(shown, spent)])
    return Table(
        f"Spending as a share of the budget: mean and standard deviation of {MARKETS} markets",
        ["sellers", "weight cap", "paid", "cross-priced", "exact", "population schedule"],
        rows,
    )


def escrow() -> Table:
    """What cross-priced campaigns of few sellers spend at most, beside the margin that escrow has for it."""
    rows, table = [], EpsilonCost.identity()
    for sellers, features, each, cap in (
        (50, 10, 2.0, None), (50, 3, 2.0, None), (50, 10, 2.0, 3.0), (60, 10, 3.0, None),
        (100, 10, 2.0, None), (100, 10, 0.6, 3.0), (300, 10, 0.6, None), (300, 10, 0.6, 3.0),
    ):  # fmt: skip
        tell(f"{sellers} sellers, {features} features, {each} for each, cap {cap}")
        budget, objective = each * sellers, Objective.for_model(features, weight_cap=cap)
        bins = [CostBins.typical(groups_of(COSTS, None)[0], COSTS, sellers)]
        weight, typical = price_for_budget(bins, objective, table, budget)
        mechanism = CrossPricedMechanism(COSTS, objective.with_payment_weight(weight), budget)
        rng, spent = np.random.default_rng(0), []
        for _ in range(ESCROW_MARKETS):
            outcome, _ = mechanism.run(range(sellers), COSTS.sample(sellers, rng), salt=rng.bytes(16))
            spent.append(outcome.total_payment / budget)
        effective = typical.payment**2 / typical.squared_payments
        figures = (shown(spent), f"{np.quantile(spent, 0.99):.3f}", f"{1.02 + 2.5 / effective:.3f}")
        bound = "none" if cap is None else f"{cap:g}"
        rows.append([str(sellers), f"{budget:g}", str(features), bound, f"{effective:.0f}", *figures])
    return Table(
        f"Cross-priced campaigns: spending as a share of the budget in {ESCROW_MARKETS} markets, and escrow",
        [
            "sellers",
            "budget",
            "features",
            "weight cap",
            "effectively paid",
            "spent",
            "99% quantile",
            "escrow",
        ],
        rows,
    )


def few() -> Table:
    """What is spent if hardly anybody's cost is below the reserve price, which nobody expected."""
    rows, sellers, budget = [], 60, 100.0
    mechanism = CrossPricedMechanism(COSTS, Objective.for_model(10), budget)
    for below in (1, 2, 3, 20):
        tell(f"{below} of {sellers} sellers below the reserve price")
        rng, spent = np.random.default_rng(0), []
        for _ in range(FEW_MARKETS):
            costs = np.full(sellers, 6.0)
            costs[:below] = COSTS.sample(below, rng)
            outcome, _ = mechanism.run(range(sellers), costs, salt=rng.bytes(16))
            spent.append(outcome.total_payment / budget)
        nothing = sum(share == 0.0 for share in spent)
        rows.append([str(below), str(nothing), shown(spent), f"{max(spent):.3f}"])
    return Table(
        f"{sellers} sellers of whom few may sell, cross-priced: share of the budget in {FEW_MARKETS} markets",
        ["below the reserve price", "markets that buy nothing", "spent", "most"],
        rows,
    )


if __name__ == "__main__":
    write_tables(__file__, [spending(), escrow(), few()])
