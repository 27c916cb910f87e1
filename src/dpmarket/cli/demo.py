"""``dpmarket demo``: the main job on data that is already there."""

from __future__ import annotations


def demo() -> None:
    """Show what exists so far, end to end, on a seeded market of 569 sellers."""
    import numpy as np

    from dpmarket.cli.render import number, print_table
    from dpmarket.costs import Uniform, virtual_costs

    dist = Uniform(1, 5)
    costs = np.sort(dist.sample(569, np.random.default_rng(0)))
    virtual = virtual_costs(costs, dist)
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    rows = [
        [
            f"{share:.0%}",
            number(float(np.quantile(costs, share))),
            number(float(np.quantile(virtual, share))),
        ]
        for share in shares
    ]
    print_table(
        "569 sellers whose privacy costs between 1 and 5 per unit of epsilon",
        ["sellers up to", "cost", "virtual cost"],
        rows,
        "What a unit of privacy really costs the buyer when people are paid to tell the truth.",
    )
