"""A small market that was bought from, its certificate, and what a verification found."""

import json

import numpy as np

import dpmarket as dpm
from dpmarket.certificates import certify
from dpmarket.certificates.verifier.layout import Release
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import PaperObjective

SELLERS = 37  # not a power of eight: the last groups of the tree are not full
IDS = np.array([f"sëller {k}" for k in range(SELLERS)])
DIST = dpm.Uniform(1.0, 5.0)
OBJECTIVE = PaperObjective(mu=1.0, sigma=1.0, gamma=2e-2)


RULES = {"mechanism": "offline"}  # all that decided, as far as these tests look at it


def bought(costs, gamma=2e-2):
    """Return what the exact mechanism decides about these costs."""
    return OfflineMechanism(DIST, PaperObjective(mu=1.0, sigma=1.0, gamma=gamma)).run(costs)


def costs_of(sellers=SELLERS):
    """Return what the sellers report."""
    return DIST.sample(sellers, np.random.default_rng(4))


def certified(sellers=SELLERS, minor_units=None):
    """Buy from so many sellers, train, and certify."""
    mechanism = OfflineMechanism(DIST, OBJECTIVE)
    outcome = mechanism.run(costs_of(sellers))
    x = np.random.default_rng(5).uniform(-0.5, 0.5, size=(sellers, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    model = dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(x, y, epsilons=outcome.epsilons)
    return certify(outcome, model, mechanism.rules(), seller_ids=IDS[:sellers], minor_units=minor_units)


def canonical(data):
    """Return the one text of this data, without a line's end."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def verdicts(result):
    """Return what every check found, by its name."""
    return {check.name: check.verdict for check in result.checks}


def failing(result):
    """Return the names of the checks that failed."""
    return {check.name for check in result.checks if check.verdict == "FAILS"}


def constants(**changes):
    """Return the constants of a release, of which only the named ones matter."""
    usual = {
        "kind": "binary model", "delta": 0.0, "features": None, "classes": [0, 1], "coef_grid": [0],
        "n_coefficients": 1, "grid": 0.25, "stretch": 1.0, "fit_intercept": True, "intercept_scaling": 0.5,
        "l2": 0.1, "noise_rate": 10.0, "row_bound": 1.5, "rows_per_person": 1, "weight_total": 1.0,
        "gradient_bound": 1e-9, "noise_accuracy": 1e-12, "numerical_epsilon": 1e-6,
    }  # fmt: skip
    return Release(**usual | changes)


def body_of(certificate):
    """Return a certificate's body, as data."""
    first = bytes(certificate).split(b"\n")[0]
    return json.loads(first.removeprefix(b'{"body":').removesuffix(b","))


def release_of(plan, **stated):
    """Return the constants of a release that was planned, for the verifier's own arithmetic."""
    planned = {
        "grid": plan.grid,
        "gradient_bound": plan.gradient_bound,
        "noise_accuracy": plan.noise_accuracy,
        "numerical_epsilon": plan.numerical_epsilon,
    }
    return constants(**planned | stated)
