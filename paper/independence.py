"""Section IV, discussion: payments depend neither on the loss nor on how the model is trained.

First one purchase and several learners that keep its epsilons; then one payment identity and several buyers.
"""

import math

import numpy as np

from common import figure, in_parallel, label, main, mean_and_error
from dpmarket.costs import Uniform, VirtualCost
from dpmarket.datasets import breast_cancer
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import CheapestK, JointMechanism, OfflineMechanism, PaperObjective, posted_price
from dpmarket.privacy import SeededNoise
from learners import LargeEpsilonsOnly, OutputPerturbation
from records import LOWEST, split

SETTINGS = {"gamma": 1e-3, "noise_draws": 15, "splits": [0, 1, 2], "sellers": 40, "reports": 21,
            "quantiles": [0.0, 0.2, 0.5]}  # fmt: skip
QUICK = {"noise_draws": 2, "splits": [0], "reports": 5, "quantiles": [0.2]}
CLASSES = (-1.0, 1.0)
LEARNERS = {
    "noise in the objective": lambda noise: PrivateLogisticRegression(classes=CLASSES, noise_source=noise),
    "noise on the coefficients": lambda noise: OutputPerturbation(CLASSES, noise),
    "one epsilon for all": lambda noise: LargeEpsilonsOnly(LEARNERS["noise in the objective"](noise)),
}
BUYERS = ("excess risk", "noise only", "loss on the records", "posted price", "cheapest k")


def compute(s):
    yield from in_parallel(learner, [(s, name, seed) for name in LEARNERS for seed in s.splits])
    yield from in_parallel(buyer, [(s, name) for name in BUYERS])


def learner(s, name, seed):
    """Return payments before and after a learner was trained, what misreports gain, and its test error."""
    parts, dist = split(breast_cancer(), 0.6, 0.2, seed), Uniform(LOWEST, 5.0 * LOWEST)
    mechanism = OfflineMechanism(dist, PaperObjective(1.0, 1.0, s.gamma))
    (x, y), (test_x, test_y) = parts.sellers, parts.test
    costs = dist.sample(y.size, np.random.default_rng([7, seed]))
    before = mechanism.run(costs)
    kept, errors = before.epsilons > 0.0, []
    for draw in range(s.noise_draws):
        model = LEARNERS[name](SeededNoise(1_000 * seed + draw)).fit(
            x[kept, :-1], y[kept], before.epsilons[kept]
        )
        errors.append(float((model.predict(test_x[:, :-1]) != test_y).mean()))
    after = mechanism.run(costs)
    test_error, test_error_se = mean_and_error(errors)
    gain, worst = misreports(mechanism.respond, costs, dist.support, s)
    return [{"kind": "learner", "name": name, "split": seed, "payments": after.total_payment,
             "moved": float(np.abs(after.payments - before.payments).max()), "gain": gain, "worst": worst,
             "test_error": test_error, "test_error_se": test_error_se}]  # fmt: skip


def buyer(s, name):
    """Return payments and what misreports gain with one buyer's objective; costs from U[1, 5]."""
    dist, rng = Uniform(1.0, 5.0), np.random.default_rng(0)
    costs = dist.sample(s.sellers, rng)
    x = rng.uniform(-0.5, 0.5, size=(s.sellers, 3))
    y = np.where(x[:, 0] + 0.1 * rng.standard_normal(s.sellers) > 0.0, 1.0, -1.0)
    objective = PaperObjective(1.0, 1.0, 0.01)
    joint = JointMechanism(x, y, VirtualCost.of(dist), mu=25.0, sigma=1.0, gamma=0.01, l2=1.0,
                           noise_source=SeededNoise(0))  # fmt: skip
    posted = posted_price(2.5, 0.5)
    respond = {
        "excess risk": OfflineMechanism(dist, objective).respond,
        "noise only": OfflineMechanism(dist, PaperObjective(1e-6, 1.0, 0.01, weight_cap=4.0)).respond,
        "loss on the records": joint.respond,
        "posted price": lambda costs, i, report: [float(value[0]) for value in posted.quote([report])],
        "cheapest k": CheapestK(10, 0.5, 5.0, objective).respond,
    }[name]
    gain, worst = misreports(respond, costs, dist.support, s)
    paid = sum(respond(costs, i, float(cost))[1] for i, cost in enumerate(costs))
    nothing = {"split": 0, "moved": None, "test_error": None, "test_error_se": None}
    return [{"kind": "buyer", "name": name, "payments": paid, "gain": gain, "worst": worst} | nothing]


def misreports(respond, costs, support, s):
    """Return the largest gain of a misreport, as a share of the payment, and the least utility of truth."""
    gain, worst, order = -math.inf, math.inf, np.argsort(costs)
    for quantile in s.quantiles:
        i = int(order[round(quantile * (costs.size - 1))])
        true = float(costs[i])
        epsilon, payment = respond(costs, i, true)
        utility = payment - true * epsilon
        worst = min(worst, utility)
        for report in np.linspace(*support, s.reports).tolist():
            other, paid = respond(costs, i, report)
            gain = max(gain, (paid - true * other - utility) / max(payment, paid, 1e-12))
    return gain, worst


def draw(table):
    drawn, (left, right) = figure(columns=2)
    trained, buyers = table.filter(kind="learner"), table.filter(kind="buyer")
    left.errorbar(trained["test_error"], trained["name"], xerr=2 * trained["test_error_se"], fmt="o")
    label(left, "Three learners, equal payments", "test error", "", legend=False)
    right.plot(buyers["gain"], buyers["name"], "o")
    right.set_xscale("symlog", linthresh=1e-9)
    right.set_xticks([-1e-5, -1e-7, 0.0])
    label(right, "Best misreport, five buyers", "gain, as a share of the payment", "", legend=False)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
