"""Personal prices against simpler rules that cost the same. Writes ``docs/tables/personal-prices.md``."""

from __future__ import annotations

from _markdown import write_tables
from _results import Table
from dpmarket.costs import Uniform
from dpmarket.mechanisms import EpsilonCost, Objective
from dpmarket.mechanisms.plan import plan

COSTS = Uniform(1, 5)
QUADRATIC = EpsilonCost.identity(5.0, "quadratic")


def personal_prices() -> Table:
    """Error of simpler rules at equal expected payments, over the optimum's."""
    rows = []
    for sellers, budget in ((30, 100.0), (500, 60.0), (2000, 500.0)):
        for name, table in (("linear", None), ("quadratic", QUADRATIC)):
            found = plan(COSTS, Objective.for_model(11), sellers, budget, epsilon_cost=table)
            best = found.prospect
            cells = [f"{rule.error / best.error - 1.0:+.0%}" for rule in found.alternatives]
            cells += [""] * (3 - len(cells))
            rows.append(
                [f"{sellers:,} for {budget:g}, {name}", f"{best.share_bought:.0%}",
                 f"{best.largest_epsilon:.3g}", *cells]
            )  # fmt: skip
    return Table(
        "Error of simpler rules at the same expected payments, over that of personal prices; costs U[1, 5]",
        ["sellers, budget, costs", "bought", "largest epsilon", "best posted", "half accept", "same for all"],
        rows,
    )


if __name__ == "__main__":
    write_tables(__file__, [personal_prices()])
