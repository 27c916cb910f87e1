"""Theorem `convexify`, first part: the smallest eigenvalue of the appendix objective's Hessian in (w, a).

Records: the worst ones, close to two opposite directions across the coefficients, so that every
s_i = 1/(1 + exp(w.u_i)) can be 1; breast cancer; random ones. Points (w, a) are random, and w far out.
"""

import math

import numpy as np
from scipy.special import expit

from common import figure, in_parallel, label, lines, main
from dpmarket.datasets import breast_cancer
from records import split

SETTINGS = {
    "records": ["worst", "breast cancer", "random"],
    "ratios": [0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 4.0],
    "balances": [1.0, 0.01, 100.0],
    "people": 60,
    "points": 20,
    "seed": 0,
}
QUICK = {"ratios": [0.1, 0.9, 1.01, 2.0], "balances": [1.0, 100.0], "people": 20, "points": 3}


def compute(s):
    yield from in_parallel(eigenvalues, [(s, kind, balance) for kind in s.records for balance in s.balances])


def signed_rows(kind, people, seed):
    """Return signed rows of length at most 1."""
    rng = np.random.default_rng(seed)
    if kind == "breast cancer":
        rows, signs = split(breast_cancer(), 0.6, 0.2, seed).sellers
        chosen = rng.permutation(len(signs))[:people]
        return signs[chosen, None] * rows[chosen]
    if kind == "random":
        rows = rng.standard_normal((people, 5))
        return rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]
    tilt = 0.02
    half = np.where(np.arange(people) % 2 == 0, 1.0, -1.0)
    return np.column_stack([np.full(people, tilt), half * math.sqrt(1.0 - tilt * tilt)])


def hessian(rows, w, a, l2, mu):
    """Return the Hessian of the appendix objective in (w, a)."""
    s = expit(-(rows @ w))
    cross = -(s[:, None] * rows).T
    first = l2 * np.eye(rows.shape[1]) + (rows.T * (a * s * (1.0 - s))) @ rows
    return np.block([[first, cross], [cross.T, 2.0 * mu * np.eye(len(rows))]])


def eigenvalues(s, kind, balance):
    """Return the smallest eigenvalue for each 2 Lambda mu/m; ``inside``: along directions that keep sum a."""
    rows = signed_rows(kind, s.people, s.seed)
    m, n = rows.shape
    rng = np.random.default_rng([s.seed, 1])
    down = -np.linalg.pinv(rows) @ np.ones(m)  # every margin falls, as far as there is such a direction
    down /= np.linalg.norm(down)
    points = [(reach * down, np.full(m, 1.0 / m)) for reach in (0.0, 1.0, 10.0, 1_000.0)]
    points += [(5.0 * rng.standard_normal(n), rng.dirichlet(np.full(m, 0.3))) for _ in range(s.points)]
    basis = np.linalg.qr(np.column_stack([np.ones(m), rng.standard_normal((m, m - 1))]))[0][:, 1:]
    keeps = np.block([[np.eye(n), np.zeros((n, m - 1))], [np.zeros((m, n)), basis]])
    found = []
    for ratio in s.ratios:
        mu = math.sqrt(ratio * m / balance) / 2.0
        l2 = 2.0 * mu * balance
        matrices = [hessian(rows, w, a, l2, mu) for w, a in points]
        lowest = min(np.linalg.eigvalsh(matrix)[0] for matrix in matrices)
        inside = min(np.linalg.eigvalsh(keeps.T @ matrix @ keeps)[0] for matrix in matrices)
        found.append(
            {"records": kind, "balance": balance, "ratio": ratio, "l2": l2, "mu": mu,
             "sharp_ratio": ratio * m / float(np.linalg.norm(rows, 2)) ** 2,
             "lowest": lowest / min(l2, 2.0 * mu), "inside": inside / min(l2, 2.0 * mu)}
        )  # fmt: skip
    return found


def draw(table):
    drawn, (ax,) = figure(width=4.5)
    lines(ax, table.filter(balance=1.0), "ratio", "lowest", "records")
    ax.axhline(0.0, color="k", linewidth=0.8)
    ax.axvline(1.0, color="k", linestyle=":", linewidth=0.8)
    label(ax, "Smallest eigenvalue of the Hessian over min(Λ, 2μ)", "2Λμ/m", "eigenvalue", log="x")
    ax.set_ylim(-3.0, 1.2)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
