"""Virtual costs against what they cannot do without: one pass over the array; the cdf and the pdf."""

import numpy as np
from scipy import stats

import dpmarket as dpm
from _results import Table, at_most, measure
from _timing import compare

M = 1_000_000


def virtual_costs():
    rng = np.random.default_rng(0)
    rows = []
    dist = dpm.Uniform(1, 5)
    costs = dist.sample(M, rng)
    ours, peer = compare([lambda: dpm.virtual_costs(costs, dist), lambda: costs * 2.0], repeat=41)
    rows.append(["uniform", "one numpy pass, `c * 2.0`", at_most(4, ours / peer)])
    for name, frozen in (
        ("log-normal", stats.lognorm(s=0.5, scale=2.0)),
        ("gamma", stats.gamma(a=2.0)),
        ("exponential", stats.expon()),
    ):
        truncated = dpm.FromScipy(frozen, 0, 20)
        assert truncated.is_regular
        sample = truncated.sample(M, rng)
        ours, peer = compare(
            [
                lambda c=sample, d=truncated: dpm.virtual_costs(c, d),
                lambda c=sample, f=frozen: (f.cdf(c), f.pdf(c)),
            ],
            repeat=9,
        )
        rows.append([name, "scipy's cdf and pdf", at_most(1.5, ours / peer)])
    yield Table(f"Virtual costs of {M:,} costs, input checks on", ["costs", "peer", "ratio"], rows)


if __name__ == "__main__":
    measure(__file__, virtual_costs)
