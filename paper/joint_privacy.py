"""Appendix: the exact privacy loss when weights are chosen from the records, as Algorithm 4 does.

People with one feature, of whom the last changes the label. For one feature the output's density is known.
Eta is given, which is kinder than Algorithm 4: it looks for eta as well.
"""

import numpy as np
from scipy.special import expit

from common import figure, in_parallel, label, lines, main
from dpmarket.mechanisms.joint import Inner
from dpmarket.privacy import NoiseNorm, Release, logistic_loss, paper_privacy_loss
from printed import algorithm4

SETTINGS = {
    "people": [7, 11, 21, 41],
    "mus": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
    "l2s": [0.5, 0.1, 2.0],
    "etas": [20.0, 5.0],
    "gamma": 1e-3,
}
QUICK = {"people": [7, 11], "mus": [1.0, 100.0], "l2s": [0.5], "etas": [20.0]}


def compute(s):
    tasks = [(s.gamma, l2, eta, m, mu) for l2 in s.l2s for eta in s.etas for m in s.people for mu in s.mus]
    yield from in_parallel(loss, tasks)


def loss(gamma, l2, eta, m, mu):
    """Return the exact loss, and what formulas for fixed weights say about either data set's weights."""
    labels = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    changed = labels * np.where(np.arange(m) == m - 1, -1.0, 1.0)
    psi = 2.0 * np.linspace(1.5, 5.0, m) - 1.0
    # Starts on both sides: with small mu there is more than one minimum.
    starts = np.array([[0.0], *np.random.default_rng(0).standard_normal((8, 1))])
    outputs = np.linspace(-200.0, 200.0, 8_001)
    release = Release(logistic_loss(), NoiseNorm.euclidean(1), l2)
    densities, weights = [], []
    for signs in (labels, changed):
        inner = Inner(signs[:, None], psi, np.zeros(1), l2, mu, 1.0)
        a = algorithm4(inner, psi, 1.0, gamma, np.array([eta]), np.zeros(1), starts)[1].weights
        s = expit(-np.outer(outputs, signs))
        noise = (s * signs) @ a - l2 * outputs
        densities.append(-0.5 * eta * np.abs(noise) + np.log(l2 + (s * (1.0 - s)) @ a))
        weights.append(a)
    return [{
        "people": m, "mu": mu, "l2": l2, "eta": eta,
        "exact": float(np.abs(densities[0] - densities[1]).max()),
        "paper": max(float(paper_privacy_loss(a, eta, l2)[-1]) for a in weights),
        "package": max(float(release.epsilons(a, eta)[-1]) for a in weights),
    }]  # fmt: skip


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, m in zip(axes, table["people"].unique().sort()[-2:], strict=True):
        part = table.filter(people=m, l2=0.5, eta=20.0)
        for name, text in (
            ("exact", "exact loss"),
            ("paper", "Proposition, fixed weights"),
            ("package", "sharper"),
        ):
            lines(ax, part, "mu", name)
            ax.lines[-1].set_label(text)
        for line, colour in zip(ax.lines, ("#c8553d", "#1b6ca8", "#3c8d5a"), strict=True):
            line.set_color(colour)
        label(ax, f"{m} people, Λ = 0.5, η = 20", "μ", "privacy loss", log="x")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
