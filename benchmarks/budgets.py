"""What mechanisms spend of a budget. Writes ``docs/tables/budgets.md``.

Each row is the mean over simulated markets with a fixed seed. Spending is a multiple of the budget. *Paid* is
the mean number of sellers who sell something: where few are paid, one more or less decides how much is spent.
"""

from __future__ import annotations

import numpy as np

from _markdown import write_tables
from _results import Table, tell
from dpmarket.costs import Uniform
from dpmarket.mechanisms import CrossPricedMechanism, Objective, OfflineMechanism
from dpmarket.mechanisms.plan import plan

COSTS = Uniform(1, 5)
MARKETS = 20


def shown(spent: list[float]) -> str:
    return f"{np.mean(spent):.3f} ± {np.std(spent):.3f}"


def spending() -> Table:
    """Three mechanisms, planned for one distribution, with sellers who follow it or another one."""
    rows = []
    for sellers, wrong, cap in (
        (100, 1.0, None), (100, 1.0, 3.0), (300, 1.0, None), (300, 1.0, 3.0), (1000, 1.0, None),
        (1000, 0.8, None), (1000, 1.25, None), (1000, 0.8, 3.0), (1000, 1.25, 3.0),
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


if __name__ == "__main__":
    write_tables(__file__, [spending()])
