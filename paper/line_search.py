"""Algorithm `alg:mechanism-base` (Algorithm 4): where its line search over the mean epsilon ends.

As printed the noise b is drawn before the search and w is free: with w = -2b/(eta Lambda) the objective is
about sigma/eta - 2|b|^2/(Lambda eta^2) and falls without bound as eta tends to 0. Two readings have a
minimum: the noise replaced by its mean 0, and |w| <= beta.
"""

import numpy as np

from common import figure, in_parallel, label, lines, main
from dpmarket.mechanisms.joint import Inner
from dpmarket.privacy import SeededNoise
from dpmarket.privacy.noise import radial_noise
from printed import algorithm4
from records import sellers_of_wisconsin

SETTINGS = {
    "l2_and_sigma": [[1.0, 100.0], [1.0, 10.0], [1.0, 1_000.0], [0.1, 100.0], [10.0, 100.0]],
    "lowest": [0.1, 1e-4, 1e-3, 1e-2, 0.03, 0.3],
    "highest": 30.0,
    "grid": 15,
    "mu": 100.0,
    "gamma": 1e-3,
    "beta": 0.5,
    "draws": 6,
    "seed": 0,
}
QUICK = {"l2_and_sigma": [[1.0, 100.0], [10.0, 100.0]], "lowest": [0.1, 1e-3], "grid": 6, "draws": 2}
READINGS = ("as printed", "expected noise", "bounded coefficients")


def compute(s):
    cases = [(l2, sigma, draw) for l2, sigma in s.l2_and_sigma for draw in range(s.draws)]
    first = (*s.l2_and_sigma[0], 0)
    tasks = [(s, READINGS[0], *case) for case in cases] + [(s, reading, *first) for reading in READINGS[1:]]
    yield from in_parallel(searches, tasks)


def searches(s, reading, l2, sigma, draw):
    """Return the end of the line search for each grid, and the objective on the first one."""
    rows, _, psi = sellers_of_wisconsin(s.seed, np.random.default_rng(s.seed))
    noise = radial_noise(SeededNoise(draw).bits(), rows.shape[1], 2.0, 1e-14).high_low()[0]
    turning = 2.0 * float(noise @ noise) / (l2 * sigma * psi.size)
    inner = Inner(rows, psi, noise, l2, s.mu, 1.0)
    used = np.zeros_like(noise) if reading == "expected noise" else noise
    radius = s.beta if reading == "bounded coefficients" else np.inf
    found = []
    for lowest in s.lowest:
        means = np.geomspace(lowest, s.highest, s.grid)
        total, _, values = algorithm4(inner, psi, sigma, s.gamma, psi.size * means, used, radius=radius)
        chosen = total / psi.size
        ends = np.isclose(chosen, means[[0, -1]], rtol=1e-9)
        edge = "lowest" if ends[0] else "highest" if ends[1] else "inside"
        for mean, value in zip(means, values, strict=True):
            if lowest == s.lowest[0] or mean == means[0]:
                found.append(
                    {"reading": reading, "l2": l2, "sigma": sigma, "draw": draw, "lowest": lowest,
                     "mean_epsilon": mean, "objective": value, "chosen": chosen, "edge": edge,
                     "turning": turning}
                )  # fmt: skip
    return found


def draw(table):
    drawn, (left, right) = figure(columns=2)
    first = table.filter(l2=1.0, sigma=100.0, draw=0, lowest=0.1)
    lines(left, first, "mean_epsilon", "objective", "reading")
    label(left, "Objective on one grid, Λ = 1, σ = 100", "mean ε", "objective", log="x")
    ends = table.filter(reading="as printed").group_by("l2", "sigma", "draw", "lowest").first()
    for edge, colour in (("inside", "#3c8d5a"), ("lowest", "#c8553d"), ("highest", "#b8860b")):
        part = ends.filter(edge=edge)
        right.plot(part["turning"], part["lowest"], "o", color=colour, label=f"ends {edge}", alpha=0.6)
    limits = np.array([ends["turning"].min(), ends["turning"].max()])
    right.plot(limits, limits, "k:", label="equal")
    label(right, "As printed: where the search ends", "2|b|²/(Λσm)", "lowest mean ε of the grid", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
