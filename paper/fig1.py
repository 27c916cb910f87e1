"""Fig. 1: the interaction between sellers and platform, in its order, with the numbers of a small market.

Then one label is replaced at a time, and everybody's payment compared: it must not move where sellers are
paid before they hand over their data (Algorithm 2), and it does where the records decide (Algorithm 4).
"""

import numpy as np

from common import figure, in_parallel, main
from dpmarket.costs import Uniform, VirtualCost
from dpmarket.mechanisms import JointMechanism, OfflineMechanism, PaperObjective
from dpmarket.privacy import SeededNoise

SETTINGS = {"costs": [1.4, 2.6, 4.3], "sellers": 40, "gammas": [1e-3, 1e-2, 1e-1], "replaced": 8, "seed": 0}
QUICK = {"gammas": [1e-2], "replaced": 2}
COSTS = Uniform(1.0, 5.0)


def compute(s):
    outcome = OfflineMechanism(COSTS, PaperObjective(1.0, 1.0, 0.05)).run(s.costs)
    for cost, epsilon, payment in zip(s.costs, outcome.epsilons, outcome.payments, strict=True):
        yield {
            "part": "steps",
            "gamma": 0.05,
            "cost": cost,
            "epsilon": epsilon,
            "payment": payment,
            "moved": None,
        }
    yield from in_parallel(moved, [(s, name, gamma) for name in ("offline", "joint") for gamma in s.gammas])


def moved(s, name, gamma):
    """Return the largest change of anybody's payment, relative to the mean, when one label is replaced."""
    rng = np.random.default_rng(s.seed)
    costs = COSTS.sample(s.sellers, rng)
    x = rng.uniform(-0.5, 0.5, size=(s.sellers, 3))
    y = np.where(x[:, 0] + 0.1 * rng.standard_normal(s.sellers) > 0.0, 1.0, -1.0)
    table = VirtualCost.of(COSTS)
    terms = {"mu": 25.0, "sigma": 1.0, "gamma": gamma, "l2": 1.0}

    def payments(labels):
        if name == "offline":
            return OfflineMechanism(COSTS, PaperObjective(1.0, 1.0, gamma)).run(costs).payments
        joint = JointMechanism(x, labels, table, noise_source=SeededNoise(0), **terms)
        return joint.run(costs).payments

    before, largest = payments(y), 0.0
    for i in np.argsort(costs)[: s.replaced]:
        labels = y.copy()
        labels[i] *= -1.0
        largest = max(largest, float(np.abs(payments(labels) - before).max() / before.mean()))
    return [{"part": name, "gamma": gamma, "cost": None, "epsilon": None, "payment": None, "moved": largest}]


def draw(table):
    drawn, (ax,) = figure(width=6.4)
    ax.set_axis_off()
    steps = table.filter(part="steps")

    def shown(name):
        return ", ".join(f"{value:.2f}" for value in steps[name])

    arrows = (
        (0, 1, "1. report what privacy costs them", f"c' = {shown('cost')}"),
        (1, 0, "2. gets ε and is paid t, from c' alone", f"ε = {shown('epsilon')};  t = {shown('payment')}"),
        (0, 1, "3. hand over their data", f"(x, y) of {steps.height} sellers"),
        (1, 2, "4. trains with noise, publishes w", "ε-private for each of them"),
    )
    places = (0.1, 0.55, 0.95)
    for name, x in zip(("sellers", "platform", "public"), places, strict=True):
        ax.text(x, 1.0, name, ha="center", weight="bold")
        ax.plot([x, x], [0.0, 0.95], color="#888888", linewidth=0.8)
    for k, (start, end, text, detail) in enumerate(arrows):
        y = 0.8 - 0.24 * k
        ax.annotate("", (places[end], y), (places[start], y), arrowprops={"arrowstyle": "->"})
        middle = (places[start] + places[end]) / 2
        ax.text(middle, y + 0.03, text, ha="center", fontsize=8)
        ax.text(middle, y - 0.085, detail, ha="center", fontsize=7, color="#555555")
    ax.set(xlim=(0.0, 1.1), ylim=(-0.1, 1.1))
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
