"""List every experiment, in the order of the paper."""

from __future__ import annotations

from dpmarket.errors import InvalidInput
from dpmarket.paper.experiments.arrivals import ARRIVALS
from dpmarket.paper.experiments.asymptotic import ASYMPTOTIC
from dpmarket.paper.experiments.budget import BUDGET
from dpmarket.paper.experiments.descent import DESCENT
from dpmarket.paper.experiments.error_bound import ERROR_BOUND
from dpmarket.paper.experiments.hyperparameters import CONCENTRATION, NOISE_RATE
from dpmarket.paper.experiments.market import MARKET
from dpmarket.paper.experiments.online import ONLINE
from dpmarket.paper.experiments.payments import BUDGET_LIE, PAYMENTS, REPORTS
from dpmarket.paper.experiments.printed import PRINTED
from dpmarket.paper.experiments.privacy import JOINT_PRIVACY, PRIVACY
from dpmarket.paper.experiments.running import Experiment

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
