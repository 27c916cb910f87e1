"""Turn promises into test scores, on public data: train with them, look at records held out."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmarket import checks
from dpmarket.datasets import PublicData
from dpmarket.errors import InvalidInput
from dpmarket.learning import PrivateLogisticRegression, PublicScaler
from dpmarket.planning.error_model import ErrorModel, estimator_error
from dpmarket.privacy import SeededNoise


class Scores(NamedTuple):
    """How a model did on records that it was not trained on.

    Attributes
    ----------
    error
        Share of wrong predictions.
    log_loss
        Mean negative logarithm of the probability that the model gave to the true label.
    """

    error: float
    log_loss: float


_GUESSING = Scores(0.5, math.log(2.0))  # of a buyer who has bought nothing


@dataclass(frozen=True, eq=False)
class Trial:
    """A way to try promises out on public records: one record per seller, the others to test on.

    Parameters
    ----------
    data
        Public records, one per person.
    train_share
        The share of records that sellers hold; models are tested on the rest.
    radius
        Length beyond which scaled rows are shortened, see :class:`~dpmarket.learning.scaling.PublicScaler`.
    l2
        Ridge penalty of the model, or None for the suggested one.

    Examples
    --------
    >>> from dpmarket.datasets import separable
    >>> trial = Trial(separable(500, 3, np.random.default_rng(0)), train_share=0.5)
    >>> trial.sellers, trial.run(np.full(250, 5.0), seed=1) < 0.3
    (250, True)
    """

    data: PublicData
    train_share: float = 0.8
    radius: float | None = 1.0
    l2: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.data, PublicData):
            raise InvalidInput(
                f"expected PublicData, got {type(self.data).__name__}: tuning or scoring on private records "
                "is a release that no promise covers."
            )
        if self.data.people is not None:
            raise InvalidInput("expected data with one record per person.")
        checks.strictly_between("train_share", self.train_share, 0.0, 1.0)
        if self.radius is not None:
            checks.positive("radius", self.radius)
        if self.l2 is not None:
            checks.positive("l2", self.l2)
        self._split(0)

    @property
    def sellers(self) -> int:
        """Number of sellers: of training records."""
        return len(self._split(0)[0])

    @property
    def error_model(self) -> ErrorModel:
        """What noise and few people cost models of these records: known from the number of features."""
        return estimator_error(self.data.n_features)

    def run(self, epsilons: object, seed: int) -> float:
        """Return the test error of one model that keeps these promises; see :meth:`score`."""
        return self.score(epsilons, seed).error

    def score(self, epsilons: object, seed: int) -> Scores:
        """Return test error and log loss of one model that keeps these promises.

        The seed decides which records are tested on and the noise, so that two buyers can be compared under
        the same chance. A buyer who has bought nothing guesses: error 0.5.

        Parameters
        ----------
        epsilons
            One promise per seller.
        seed
            A whole number.
        """
        promises = checks.non_negative_vector("epsilons", epsilons)
        if not promises.any():
            return _GUESSING
        train, test = self._split(seed)
        checks.same_length("epsilons", promises, "training records", train)
        scaler = PublicScaler(self.data.low, self.data.high, self.radius).fit(self.data.features)
        bought = np.flatnonzero(promises)
        model = PrivateLogisticRegression(
            l2=self.l2, classes=self.data.classes, noise_source=SeededNoise(seed), numerical_epsilon=1e-9
        ).fit(scaler.transform(train.features[bought]), train.labels[bought], epsilons=promises[bought])
        margins = model.decision_function(scaler.transform(test.features)) * test.signs
        # A margin of exactly 0 is a prediction of the negative class.
        wrong = (margins < 0.0) | ((margins == 0.0) & (test.signs > 0.0))
        return Scores(float(np.mean(wrong)), float(np.logaddexp(0.0, -margins).mean()))

    def describe(self) -> dict[str, Any]:
        """Return plain data by which two trials can be told apart."""
        digest = hashlib.sha256(self.data.features.tobytes() + self.data.signs.tobytes())
        digest.update(self.data.low.tobytes() + self.data.high.tobytes())
        settings = {name: getattr(self, name) for name in ("train_share", "radius", "l2")}
        return {"data": self.data.name, "digest": digest.hexdigest(), **settings}

    def _split(self, seed: int) -> tuple[PublicData, PublicData]:
        return self.data.split(self.train_share, np.random.default_rng(seed))


def mean_and_standard_error(values: object) -> tuple[float, float]:
    """Return the mean and its standard error (0 for one value)."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return float(array.mean()), 0.0
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size))
