"""What the accuracy benchmarks share: public sets, promises, and trials, each a split of a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from _public_sets import affairs, german_health, health_insurance
from dpmarket.datasets import PublicData, breast_cancer, standard_bounds
from dpmarket.learning import PublicScaler

LARGEST = 8_000  # records taken of a set, drawn once, so that a comparison takes minutes, not hours


def _some(data: PublicData) -> PublicData:
    return data.take(np.random.default_rng(0).permutation(len(data))[:LARGEST])


def best_threshold(epsilons: np.ndarray) -> float:
    """Return the promise that buys most: itself times the number of people promised at least that."""
    promised = np.sort(epsilons)
    return float(promised[int((promised * np.arange(promised.size, 0, -1)).argmax())])


SETS: dict[str, Callable[[], PublicData]] = {
    "breast cancer": breast_cancer,
    "affairs": affairs,
    "German health": german_health,
    "health insurance": lambda: _some(health_insurance()),
}
COMMON = ("0.1", "0.3", "1", "3", "10")
MIXTURES = {
    "54/37/9% at 0.01/0.2/1": ((0.01, 0.2, 1.0), (0.54, 0.37, 0.09)),
    "34/43/23% at 1/2/3": ((1.0, 2.0, 3.0), (0.34, 0.43, 0.23)),
}
LOG_UNIFORM = "log-uniform on [0.05, 5]"
LEVELS = (*COMMON, *MIXTURES, LOG_UNIFORM)


def promises(level: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return a promise (epsilon) for each of ``count`` people."""
    if level in MIXTURES:
        values, shares = MIXTURES[level]
        return rng.choice(values, count, p=shares)
    if level == LOG_UNIFORM:
        return np.exp(rng.uniform(np.log(0.05), np.log(5.0), count))
    return np.full(count, float(level))


@dataclass(frozen=True)
class Trial:
    """One split: a public part (a fifth), a private one to train on (three), one to test on (a fifth)."""

    public: PublicData
    private: PublicData
    test: PublicData
    number: int

    def scaled(self, spread: float = 2.0, radius: float | None = 1.0) -> Trial:
        """Scale all parts with bounds from the public part."""
        low, high = standard_bounds(self.public, spread)
        return self._with(PublicScaler(low, high, radius))

    def _with(self, scaler: PublicScaler) -> Trial:
        parts = (
            PublicData(scaler.fit_transform(part.features), part.signs, (-1.0, 1.0), -1.0, 1.0, part.name, "")
            for part in (self.public, self.private, self.test)
        )
        return Trial(*parts, self.number)


def trial(data: PublicData, number: int) -> Trial:
    """Return the trial with this number, always the same."""
    rng = np.random.default_rng([7, number])
    public, rest = data.split(0.2, rng)
    private, test = rest.split(0.75, rng)
    return Trial(public, private, test, number)


def scores(margins: np.ndarray) -> tuple[float, float]:
    """Return accuracy and log loss from margins, positive where the label is right."""
    return float((margins > 0.0).mean()), float(np.logaddexp(0.0, -margins).mean())
