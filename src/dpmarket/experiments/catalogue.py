"""List every experiment, in the order of the paper."""

from __future__ import annotations

from dpmarket.errors import InvalidInput
from dpmarket.experiments.arrivals import ARRIVALS
from dpmarket.experiments.asymptotic import ASYMPTOTIC
from dpmarket.experiments.budget import BUDGET
from dpmarket.experiments.descent import DESCENT
from dpmarket.experiments.error_bound import ERROR_BOUND
from dpmarket.experiments.hyperparameters import CONCENTRATION, NOISE_RATE
from dpmarket.experiments.market import MARKET
from dpmarket.experiments.online import ONLINE
from dpmarket.experiments.payments import BUDGET_LIE, PAYMENTS, REPORTS
from dpmarket.experiments.printed import PRINTED
from dpmarket.experiments.privacy import JOINT_PRIVACY, PRIVACY
from dpmarket.experiments.running import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    MARKET,
    ONLINE,
    CONCENTRATION,
    NOISE_RATE,
    ERROR_BOUND,
    ASYMPTOTIC,
    ARRIVALS,
    BUDGET,
    BUDGET_LIE,
    PAYMENTS,
    REPORTS,
    PRIVACY,
    JOINT_PRIVACY,
    DESCENT,
    PRINTED,
)


def experiment_named(name: str) -> Experiment:
    """Return the experiment of this name, or say which there are."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    known = ", ".join(experiment.name for experiment in EXPERIMENTS)
    raise InvalidInput(f"expected one of {known}, got {name!r}.")
