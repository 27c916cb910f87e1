"""Choose the ridge penalty and the prices of uneven weights and noise, on public data only.

Paper, remark on hyper-parameters: they need a validation set, and a private one would leak. So the data are
:class:`~dpmarket.datasets.PublicData`, by type.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.display import html_grid, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.planning.budgets import plan_payment_weight
from dpmarket.planning.plan import prices_of
from dpmarket.planning.rows import Row, compute_rows
from dpmarket.planning.scoring import Trial
from dpmarket.planning.sweeps import sweep
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.tuning/2"


@dataclass(frozen=True)
class Candidate:
    """One choice of settings and how it did.

    Attributes
    ----------
    objective
        With the payment weight that spends the budget in expectation.
    l2
        Ridge penalty, or None for the suggested one.
    test_error, test_error_standard_error
        Mean over the repetitions and its standard error.
    payment
        Mean total payment, money.
    """

    objective: BuyerObjective
    l2: float | None
    test_error: float
    test_error_standard_error: float
    payment: float

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"objective": self.objective.to_dict()}


@dataclass(frozen=True)
class Tuning:
    """All candidates in the order tried, and the best of them.

    The best one's test error is a little too good to be true, having been picked for it; its standard error
    says by how much the pick may be luck.

    Attributes
    ----------
    candidates
        One for every combination of settings.
    budget
        Expected total payment of each, money.
    repetitions
        How often costs, records and noise were drawn for each.
    """

    candidates: tuple[Candidate, ...]
    budget: float
    repetitions: int

    def __repr__(self) -> str:
        rows = [
            ("candidates", f"{len(self.candidates)}"),
            ("budget", f"{self.budget:.4g}"),
            ("repetitions", f"{self.repetitions:,}"),
            ("least test error", f"{self.best.test_error:.4g}"),
        ]
        return short_repr(self, rows)

    def _repr_html_(self) -> str:
        return html_grid(f"Candidates at a budget of {self.budget:.4g}", self._flat())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per candidate: prices and bounds, then how it did."""
        import polars as pl

        return pl.DataFrame(self._flat(), infer_schema_length=None)

    def _flat(self) -> list[dict[str, Any]]:
        names = ("l2", "test_error", "test_error_standard_error", "payment")
        return [
            prices_of(candidate.objective) | {name: getattr(candidate, name) for name in names}
            for candidate in self.candidates
        ]

    @property
    def best(self) -> Candidate:
        """The candidate with the least test error; of equals, the first."""
        return min(self.candidates, key=lambda candidate: candidate.test_error)

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "repetitions": self.repetitions,
            "best": self.best.to_dict(),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
        }


def tune(
    trial: Trial,
    dist: CostDistribution,
    budget: float,
    *,
    concentrations: Sequence[float] = (0.003, 0.01, 0.03, 0.1, 0.3),
    noises: Sequence[float] = (1.0,),
    l2s: Sequence[float | None] = (None,),
    weight_cap: float | None = None,
    repetitions: int = 50,
    seed: int = 0,
    processes: int = 1,
    keep_in: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Return how every choice of settings does for a budget, on public data, and the best one.

    Every candidate gets the payment weight at which it spends the budget in expectation, so that they differ
    in error only. Multiplying concentration, noise and payment weight by the same number changes nothing:
    one ``noise`` is enough.

    Parameters
    ----------
    trial
        Public data and how to split and scale them; its l2 is replaced by each of ``l2s``.
    dist
        The distribution of costs.
    budget
        Expected total payment, money.
    concentrations, noises, l2s
        The values to try, in all combinations; an l2 of None is the suggested one.
    weight_cap
        Nobody's weight exceeds this many times 1/m; None for no cap.
    repetitions, seed, processes, keep_in, progress
        As in :func:`~dpmarket.planning.sweeps.sweep`.

    Returns
    -------
    Tuning
        Every candidate with its test error; ``best.objective`` is what to announce.

    Raises
    ------
    InvalidInput
        If the data are not public by type (:class:`~dpmarket.planning.scoring.Trial` refuses them), or a
        value is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.datasets import separable
    >>> trial = Trial(separable(400, 2, np.random.default_rng(0)))
    >>> tuning = tune(trial, Uniform(1, 5), budget=100.0, concentrations=(0.01, 1.0), repetitions=4)
    >>> len(tuning.candidates), tuning.best in tuning.candidates
    (2, True)
    """
    if not isinstance(trial, Trial):
        raise InvalidInput(
            f"expected a Trial on public data, got {type(trial).__name__}: tuning on private records is a "
            "release that no promise covers."
        )
    budget = checks.positive("budget", budget)
    choices = list(itertools.product(concentrations, noises, l2s))
    if not choices:
        raise InvalidInput("expected at least one value of each setting.")
    tasks = []
    for concentration, noise, l2 in choices:
        objective = BuyerObjective(concentration, noise, 1.0, weight_cap)
        planned = plan_payment_weight(dist, objective, trial.sellers, budget).objective
        tasks.append(_Task(dist, planned, replace(trial, l2=l2), repetitions, seed))
    description = {
        "distribution": dist.to_dict(),
        "trial": trial.describe(),
        "choices": choices,
        "settings": [budget, weight_cap, repetitions, seed],
    }
    rows = compute_rows(_row, tasks, description, processes, keep_in, progress)
    candidates = tuple(
        Candidate(task.objective, task.trial.l2, **row) for task, row in zip(tasks, rows, strict=True)
    )
    return Tuning(candidates, budget, repetitions)


@dataclass(frozen=True)
class _Task:
    dist: CostDistribution
    objective: BuyerObjective
    trial: Trial
    repetitions: int
    seed: int


def _row(task: _Task) -> Row:
    table = sweep(
        task.dist,
        [task.objective],
        task.trial.sellers,
        task.trial,
        repetitions=task.repetitions,
        seed=task.seed,
    )
    row = table.rows[0]
    return {
        "test_error": row.test_error,
        "test_error_standard_error": row.test_error_standard_error,
        "payment": row.payment,
    }
