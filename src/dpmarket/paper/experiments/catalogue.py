"""List every experiment, in the order of the paper, under its own name and under the paper's figure."""

from __future__ import annotations

from dpmarket.errors import InvalidInput
from dpmarket.paper.experiments.arrivals import ARRIVALS
from dpmarket.paper.experiments.asymptotic import ASYMPTOTIC
from dpmarket.paper.experiments.budget import BUDGET
from dpmarket.paper.experiments.budget_lie import BUDGET_LIE
from dpmarket.paper.experiments.cap import CAP
from dpmarket.paper.experiments.convexity import CONVEXITY
from dpmarket.paper.experiments.descent import DESCENT
from dpmarket.paper.experiments.error_bound import ERROR_BOUND
from dpmarket.paper.experiments.hyperparameters import CONCENTRATION, NOISE_RATE
from dpmarket.paper.experiments.independence import INDEPENDENCE
from dpmarket.paper.experiments.interaction import INTERACTION
from dpmarket.paper.experiments.market import MARKET
from dpmarket.paper.experiments.market_variants import MARKET_VARIANTS
from dpmarket.paper.experiments.online import ONLINE
from dpmarket.paper.experiments.payments import PAYMENTS, REPORTS
from dpmarket.paper.experiments.printed import PRINTED
from dpmarket.paper.experiments.privacy import JOINT_PRIVACY, PRIVACY
from dpmarket.paper.experiments.rate import RATE
from dpmarket.paper.experiments.running import Experiment
from dpmarket.paper.experiments.schedule import SCHEDULE
from dpmarket.paper.experiments.variables import VARIABLES

EXPERIMENTS: tuple[Experiment, ...] = (
    INTERACTION,
    MARKET,
    MARKET_VARIANTS,
    BUDGET_LIE,
    BUDGET,
    ONLINE,
    RATE,
    ARRIVALS,
    ASYMPTOTIC,
    SCHEDULE,
    NOISE_RATE,
    CONCENTRATION,
    ERROR_BOUND,
    PAYMENTS,
    REPORTS,
    INDEPENDENCE,
    CAP,
    PRIVACY,
    JOINT_PRIVACY,
    CONVEXITY,
    DESCENT,
    VARIABLES,
    PRINTED,
)
PAPER_FIGURES: dict[str, tuple[Experiment, ...]] = {
    "fig1": (INTERACTION,),
    "fig2": (MARKET,),
    "fig3": (ONLINE,),
    "fig4": (NOISE_RATE, CONCENTRATION),
    "fig4a": (NOISE_RATE,),
    "fig4b": (CONCENTRATION,),
}


def experiment_named(name: str) -> Experiment:
    """Return the experiment of this name, or say which there are."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    raise _unknown(name)


def experiments_named(name: str) -> tuple[Experiment, ...]:
    """Return the experiment of this name, or those of a figure of the paper (fig1 to fig4, fig4a, fig4b).

    Examples
    --------
    >>> [experiment.name for experiment in experiments_named("fig4")]
    ['noise-rate', 'concentration']
    """
    return PAPER_FIGURES[name] if name in PAPER_FIGURES else (experiment_named(name),)


def _unknown(name: str) -> InvalidInput:
    known = ", ".join((*PAPER_FIGURES, *(experiment.name for experiment in EXPERIMENTS)))
    return InvalidInput(f"expected one of {known}, got {name!r}.")
