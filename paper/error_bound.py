"""Theorem `gen loss`: the printed error bound, with its ``log`` read to base e and to base 2.

Two cases with little room. "all alike": one feature of value 1, label +1, and a small negative coefficient:
every prediction is wrong, while the loss is close to log 2, which is below 1 in natural logarithms. "all
different": every record has a direction of its own and coefficients fit the labels as well as their length
allows, which says nothing about new records; no noise is drawn, in favour of the bound.
"""

import math

import numpy as np

from common import figure, in_parallel, label, main
from printed import LN2, draw_noise, printed_constants, repaired_constants, short_constants

SETTINGS = {
    "records": [100, 300, 1_000, 3_000, 10_000, 100_000],
    "deltas": [0.1, 0.01, 0.05, 0.11, 0.2, 0.3, 0.46, 0.6],
    "betas": [0.01, 0.1, 1.0, 5.0, 20.0],
    "noise_delta": 0.1,
    "draws": 2_000,
    "seed": 0,
}
QUICK = {"records": [1_000, 100_000], "deltas": [0.1, 0.46, 0.6], "betas": [0.01, 1.0, 20.0], "draws": 200}


def compute(s):
    cases = [
        (case, delta, beta)
        for case in ("all alike", "all different")
        for delta in s.deltas
        for beta in s.betas
    ]
    yield from in_parallel(bounds, [(s, *case, m) for case in cases for m in s.records])


def bounds(s, case, delta, beta, m):
    """Return three readings of the bound on an error of 1, and how often each fails; eta = m, a = 1/m."""
    is_alike = case == "all alike"
    margin = -beta if is_alike else beta / math.sqrt(m)
    loss, terms = float(np.logaddexp(0.0, -margin)), (beta, delta, s.noise_delta, 1 if is_alike else m)
    rng = np.random.default_rng([s.seed, m])
    pulls = (
        np.array([-2.0 * beta / m * draw_noise(1, rng)[0] for _ in range(s.draws)])
        if is_alike
        else np.zeros(1)
    )
    readings = {
        "base_e": (loss, printed_constants(*terms, math.e)),
        "base_2": (loss / LN2, printed_constants(*terms, 2.0)),
        "repaired": (loss / LN2, repaired_constants(*terms)),
    }
    row = {"case": case, "delta": delta, "beta": beta, "records": m, "allowed": delta + s.noise_delta}
    for name, (training, (mu, sigma)) in readings.items():
        bound = training + pulls + mu / math.sqrt(m) + (sigma / m if is_alike else 0.0)
        row |= {name: float(bound.mean()), f"{name}_broken": float((bound < 1.0).mean())}
    mus = {"printed_mu": readings["base_2"][1][0], "repaired_mu": readings["repaired"][1][0]}
    return [row | mus | {"short_mu": short_constants(*terms)[0]}]


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, case in zip(axes, ("all alike", "all different"), strict=True):
        part = table.filter(case=case, delta=0.1, beta=0.01)
        for name, style in (("base_e", "o-"), ("base_2", "s-"), ("repaired", "^--")):
            ax.plot(part["records"], part[name], style, label=name.replace("_", " "))
        ax.axhline(1.0, color="k", linestyle=":", label="the error")
        label(ax, f"{case}, δ = 0.1, β = 0.01", "records m", "bound", log="x")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
