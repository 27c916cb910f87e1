"""A plan for a million sellers against one allocation of that size.

One fresh market: what one draw of a million sellers costs under the plan, against the budget.
"""

import numpy as np
from scipy import stats

import dpmarket as dpm
from _results import Table, at_most, measure, tell
from _timing import compare

SELLERS = 1_000_000
OBJECTIVES = {
    "no cap": dpm.BuyerObjective(1.0, 1.0, 1e-3),
    "cap 3": dpm.BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
}
DISTRIBUTIONS = {
    "uniform": dpm.Uniform(1, 5),
    "uniform from 0": dpm.Uniform(0, 1),
    "log-normal": dpm.FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30),
}


def plans():
    rows = []
    for name, dist in DISTRIBUTIONS.items():
        psi = dpm.virtual_costs(dist.sample(SELLERS, np.random.default_rng(0)), dist)
        for label, objective in OBJECTIVES.items():
            for budget in (50.0, 500.0):
                tell(f"{name}, {label}, budget {budget:g}")
                plan = dpm.plan_payment_weight(dist, objective, SELLERS, budget)
                ours, peer = compare(
                    [
                        lambda d=dist, o=objective, b=budget: dpm.plan_payment_weight(d, o, SELLERS, b),
                        lambda o=plan.objective, p=psi: dpm.allocate(p, o),
                    ],
                    repeat=3,
                )
                spent = dpm.allocate(psi, plan.objective).payment_part / plan.payment_weight
                rows.append(
                    [
                        f"{name}, {label}, budget {budget:g}",
                        f"{plan.share_bought:.2%}",
                        f"{ours * 1e3:,.0f} ms",
                        at_most(60, ours / peer, ".1f"),
                        f"{spent / budget - 1:+.2%}",
                    ]
                )
    yield Table(
        f"Planning for {SELLERS:,} sellers, in allocations of that size",
        ["market", "bought from", "time", "ratio", "one fresh market"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, plans)
