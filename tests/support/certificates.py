"""A small market that was bought from, its certificate, and what a verification found."""

import json

import numpy as np

import dpmarket as dpm
from dpmarket.certificates import certify

SELLERS = 37  # not a power of eight: the last groups of the tree are not full
IDS = np.array([f"sëller {k}" for k in range(SELLERS)])
DIST = dpm.Uniform(1.0, 5.0)
OBJECTIVE = dpm.BuyerObjective(concentration=1.0, noise=1.0, payment_weight=2e-2)


def costs_of(sellers=SELLERS):
    """Return what the sellers report."""
    return DIST.sample(sellers, np.random.default_rng(4))


def certified(sellers=SELLERS, minor_units=None):
    """Buy from so many sellers, train, and certify."""
    outcome = dpm.OfflineMechanism(DIST, OBJECTIVE).run(costs_of(sellers), seller_ids=IDS[:sellers])
    x = np.random.default_rng(5).uniform(-0.5, 0.5, size=(sellers, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    model = dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(x, y, epsilons=outcome.epsilons)
    return certify(outcome, model, minor_units=minor_units)


def canonical(data):
    """Return the one text of this data, without a line's end."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def verdicts(result):
    """Return what every check found, by its name."""
    return {check.name: check.verdict for check in result.checks}


def failing(result):
    """Return the names of the checks that failed."""
    return {check.name for check in result.checks if check.verdict == "FAILS"}
