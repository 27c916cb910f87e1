"""Ways to buy, and ways to use what was bought, side by side at equal money on public sets.

Sellers' costs come from U[1, 5], linear or quadratic in epsilon. Every rule spends the budget on average, or
at most (FairQuery, All-in). What each buys is trained on by the package's private logistic regression with
its default penalty; the last four ways use the epsilons of the personal prices with another learner.
"""

import numpy as np

from common import figure, in_parallel, label, main, mean_and_error
from dpmarket import datasets
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import Objective
from dpmarket.privacy import SeededNoise
from records import split
from ways import CLASSES, COSTS, learners, rules

SETTINGS = {
    "sets": ["breast_cancer", "diabetes", "wine"],
    "budgets": [100.0, 1_000.0],
    "shapes": ["linear", "quadratic"],
    "most": 20.0,  # the largest epsilon on sale with quadratic costs
    "trials": 20,
}
QUICK = {"sets": ["breast_cancer"], "budgets": [100.0], "trials": 3}


def compute(s):
    tasks = [(s, name, budget, shape) for name in s.sets for budget in s.budgets for shape in s.shapes]
    yield from in_parallel(trials, tasks)


def trials(s, name, budget, shape):
    """Return each way's spending, error and log loss over many splits, less that of personal prices."""
    data, found = getattr(datasets, name)(), {}
    for trial in range(s.trials):
        parts = split(data, 0.6, 0.2, trial)
        (x, y), (test_x, test_y) = ((rows[:, :-1], labels) for rows, labels in (parts.sellers, parts.test))
        objective = Objective.for_model(x.shape[1] + 1)
        costs = COSTS.sample(y.size, np.random.default_rng([trial, 1]))
        bought = {
            way: rule.buy(costs) for way, rule in rules(objective, y.size, budget, shape, s.most).items()
        }
        noise = SeededNoise(trial)
        used = {
            way: (PrivateLogisticRegression(classes=CLASSES, noise_source=noise), *b)
            for way, b in bought.items()
        }
        if shape == "linear":
            personal = bought["personal prices"]
            used |= {
                way: (model, *personal)
                for way, model in learners(objective, personal[0], noise, trial).items()
            }
        for way, (model, epsilons, payments) in used.items():
            kept = epsilons > 0.0
            chances = model.fit(x[kept], y[kept], epsilons[kept]).predict_proba(test_x)[:, 1]
            right = np.clip(np.where(test_y > 0.0, chances, 1.0 - chances), 1e-12, 1.0)
            values = (payments.sum(), (right < 0.5).mean(), -np.log(right).mean(), kept.mean())
            found.setdefault(way, []).append(values)
    return [
        row(name, budget, shape, way, np.array(v), np.array(found["personal prices"]))
        for way, v in found.items()
    ]


def row(name, budget, shape, way, values, personal):
    (spent, test_error, loss, share), more = values.mean(axis=0), values[:, 2] - personal[:, 2]
    more, more_se = mean_and_error(more)
    return {"set": name, "budget": budget, "costs": shape, "way": way, "spent": spent, "share_bought": share,
            "error": test_error, "log_loss": loss, "more_loss": more, "more_loss_se": more_se}  # fmt: skip


def draw(table):
    sets, shapes = table["set"].unique(maintain_order=True), table["costs"].unique(maintain_order=True)
    drawn, axes = figure(rows=len(sets), columns=len(shapes), width=4.4)
    for ax, (name, shape) in zip(axes, [(a, b) for a in sets for b in shapes], strict=True):
        part = table.filter(set=name, costs=shape)
        ways = part["way"].unique(maintain_order=True).to_list()[1:]
        for k, ((budget,), group) in enumerate(part.group_by("budget", maintain_order=True)):
            rest = group.filter(group["way"] != "personal prices")
            places = np.arange(len(ways)) + 0.2 * (k - 1)
            ax.errorbar(
                rest["more_loss"], places, xerr=2 * rest["more_loss_se"], fmt="o", label=f"budget {budget:g}"
            )
        ax.set_yticks(range(len(ways)), ways, fontsize=7)
        ax.axvline(0.0, color="k", linewidth=0.8)
        label(ax, f"{name.replace('_', ' ')}, {shape} costs", "log loss less that of personal prices", "")
        ax.legend(fontsize=6)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
