"""``dpmarket demo``: the main job on data that is already there."""

from __future__ import annotations


def demo() -> None:
    """Buy privacy from 569 simulated sellers, show what was decided, and look for a profitable lie."""
    import numpy as np

    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy, number, print_table
    from dpmarket.costs import Uniform
    from dpmarket.mechanisms import OfflineMechanism

    dist = Uniform(1, 5)
    mechanism = OfflineMechanism(dist, BuyerObjective(concentration=1.0, noise=1.0, payment_weight=1e-3))
    costs = dist.sample(569, np.random.default_rng(0))
    with busy("Deciding promises and payments"):
        outcome = mechanism.run(costs)
    print_table(
        "A buyer, and 569 sellers whose privacy costs them between 1 and 5 per unit of epsilon",
        ["", ""],
        outcome.summary(),
    )
    order = np.argsort(costs)
    rows = []
    for share in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        i = int(order[round(share * 568)])
        curve = mechanism.response_curve(costs, i, np.linspace(1.0, 5.0, 101))
        truth = float(outcome.payments[i] - costs[i] * outcome.epsilons[i])
        gain = float((curve.utilities(costs[i]) - truth).max())
        rows.append(
            [
                f"{share:.0%}",
                number(costs[i]),
                number(outcome.epsilons[i]),
                number(outcome.payments[i]),
                number(truth),
                "none" if gain <= 1e-9 * max(float(outcome.payments[i]), 1e-9) else number(gain),
            ]
        )
    print_table(
        "Six of them, from the lowest to the highest (simulated) cost",
        ["dearer than", "cost", "epsilon", "paid", "gain", "by lying"],
        rows,
        "gain: payment less what the promise costs them; by lying: what the best of 101 lies would add.",
    )
