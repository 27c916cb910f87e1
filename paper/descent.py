"""Theorem `convexify`, second part: projected gradient descent on (w, a), from several starts.

Breast cancer records at one eta. Several settings have the same 2 Lambda mu/m and divide it differently
between Lambda and mu: that, not the theorem's condition, decides how many steps are taken.
"""

import numpy as np

from common import figure, in_parallel, label, lines, main
from dpmarket.mechanisms.joint import Inner, solve_newton
from dpmarket.numerics import project_to_capped_simplex
from records import sellers_of_wisconsin

SETTINGS = {
    "l2_and_mu": [[20.0, 10.0], [1.0, 200.0], [5.0, 40.0], [100.0, 2.0], [10.0, 10.0], [1.0, 100.0],
                  [1.0, 2.0], [0.1, 20.0], [1.0, 1.0], [0.3, 0.3], [0.1, 0.1], [0.01, 0.1]],
    "gamma": 1e-3,
    "eta": 300.0,
    "starts": 5,
    "points": 15,
    "tolerance": 1e-8,
    "most": 40_000,
    "seed": 0,
}  # fmt: skip
QUICK = {"l2_and_mu": [[20.0, 10.0], [10.0, 10.0], [1.0, 2.0]], "starts": 2, "tolerance": 1e-5}


def compute(s):
    yield from in_parallel(descents, [(s, l2, mu) for l2, mu in s.l2_and_mu])


def descents(s, l2, mu):
    """Return the gap to the minimum after ever more steps, for each start."""
    rng = np.random.default_rng([s.seed, 8])
    rows, _, psi = sellers_of_wisconsin(s.seed, rng)
    inner = Inner(rows, s.gamma * s.eta * psi, np.zeros(rows.shape[1]), l2, mu, 1.0)
    starts = rng.standard_normal((s.starts, rows.shape[1]))
    newton = [solve_newton(inner, start) for start in starts]
    lowest = min(found.value for found in newton)
    runs = [descend(inner, start, s.tolerance, s.most) for start in starts]
    ends = np.array([end for end, _ in runs])
    distances = np.linalg.norm(ends[:, None] - ends[None], axis=2)
    apart = float(distances.max() / np.linalg.norm(ends, axis=1).max())
    found = []
    for k, (_, trace) in enumerate(runs):
        gaps = np.maximum(np.array(trace) - lowest, 0.0)
        for step in np.unique(np.linspace(0, gaps.size - 1, s.points).round().astype(int)):
            found.append(
                {"l2": l2, "mu": mu, "condition": 2.0 * l2 * mu / psi.size,
                 "sharp_condition": 2.0 * l2 * mu / float(np.linalg.norm(rows, 2)) ** 2, "start": k,
                 "step": int(step), "gap": float(gaps[step]), "steps": gaps.size - 1,
                 "newton_steps": len(newton[k].trace) - 1, "apart": apart, "end_gap": float(gaps[-1])}
            )  # fmt: skip
    return found


def descend(inner, w, tolerance, most):
    """Return the end point (w, a) and the objective after each step of length 1/K, as in the proof."""
    step, a = min(1.0, 1.0 / lipschitz(inner)), np.full(len(inner.rows), 1.0 / len(inner.rows))
    trace = [inner.value(w, a)]
    for _ in range(most):
        moved_w = w - step * inner.gradient(w, a)
        moved_a = project_to_capped_simplex(a - step * (inner.scores(w) + 2.0 * inner.mu * a), inner.cap)
        change = np.sqrt(((moved_w - w) ** 2).sum() + ((moved_a - a) ** 2).sum())
        w, a = moved_w, moved_a
        trace.append(inner.value(w, a))
        if change <= step * tolerance * inner.scale:
            break
    return np.concatenate([w, a]), trace


def lipschitz(inner):
    """Return a bound on the norm of the Hessian in (w, a): that of [[l2 + d, x], [x, 2 mu]].

    x is the spectral norm of the rows and d = min(cap x^2, 1)/4.
    """
    x = float(np.linalg.norm(inner.rows, 2))
    first, second = inner.l2 + 0.25 * min(inner.cap * x**2, 1.0), 2.0 * inner.mu
    return 0.5 * (first + second + np.hypot(first - second, 2.0 * x))


def draw(table):
    drawn, (left, right) = figure(columns=2)
    first = table.filter(table["gap"] > 1e-13, start=0)
    named = first.with_columns(name="Λ = " + first["l2"].cast(str) + ", μ = " + first["mu"].cast(str))
    inside = named["condition"] > 0.5
    for ax, part, title in (
        (left, named.filter(inside), "2Λμ/m = 1.2 and 0.59"),
        (right, named.filter(~inside), "below"),
    ):
        lines(ax, part, "step", "gap", "name")
        label(ax, f"Gap to the minimum, {title}", "steps", "gap", log="xy")
        ax.legend(fontsize=6)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
