"""Say when a budget buys little more than noise, and what would change that."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from dpmarket import checks
from dpmarket.costs import CostDistribution
from dpmarket.planning.error_model import ExpectedError, estimator_error
from dpmarket.planning.prices import typical_purchase


@dataclass(frozen=True)
class NoiseAdvice:
    """That noise dominates what a budget buys, and from where on it would not.

    Attributes
    ----------
    ratio
        The expected length of the error, as a multiple of what usual data have to tell; above 1.
    noise_share
        The share of noise in the expected error.
    budget
        The least budget, money, at which the ratio would be 1; None where no budget is enough, because
        ``max_mean_epsilon`` holds the promises down or people are too few.
    features
        The most features with which it would be at most 1 for the same money, the constant not counted; None
        where even one is too many.
    """

    ratio: float
    noise_share: float
    budget: float | None
    features: int | None

    def sentence(self) -> str:
        """Say it."""
        ways = []
        if self.budget is not None:
            ways.append(f"with a budget of {_rounded_up(self.budget)} or more")
        if self.features is not None:
            ways.append(f"with {self.features} feature{'s' if self.features > 1 else ''} or fewer")
        others = f" It would not {', or '.join(ways)}." if ways else " Ask more people."
        what = "Noise dominates" if self.noise_share >= 0.5 else "These are too few people"
        return (
            f"{what}: the expected error ({self.noise_share:.0%} of it noise) is {self.ratio:.2g} times as "
            "long as what usual data have to tell, and such a model is often no better than guessing."
            f"{others}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def noise_advice(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    features: int,
    *,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
    n_classes: int = 2,
) -> NoiseAdvice | None:
    """Return advice where noise dominates the best that a budget can buy; None where it does not.

    Noise dominates where the expected error, of which it is then the larger part, is longer than the mean
    gradient of usual records, a fifth of the row bound. Records differ: some still teach a model something
    there, others need a smaller error.

    Parameters
    ----------
    dist, sellers, budget, weight_cap, max_mean_epsilon
        As in :func:`~dpmarket.planning.prices.suggest_prices`.
    features
        Number of columns of a record, the constant not counted.
    n_classes
        How many labels there are, at least 2.

    Returns
    -------
    NoiseAdvice or None
        A function of these arguments alone.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.prices.suggest_prices`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> advice = noise_advice(Uniform(1, 5), sellers=456, budget=100.0, features=30)
    >>> round(advice.budget), advice.features
    (420, 6)
    >>> noise_advice(Uniform(1, 5), sellers=456, budget=600.0, features=30) is None
    True
    """
    features = checks.whole("features", features, minimum=1)

    def error(money: float, columns: int, bound: float | None) -> ExpectedError:
        model = estimator_error(columns, n_classes=n_classes)
        return typical_purchase(
            dist, sellers, money, model, weight_cap=weight_cap, max_mean_epsilon=bound
        ).error

    here = error(budget, features, max_mean_epsilon)
    if not here.dominates:
        return None
    enough = None
    most = math.inf if max_mean_epsilon is None else sellers * max_mean_epsilon
    if not estimator_error(features, n_classes=n_classes).predict(1.0 / sellers, most).dominates:
        money = most * dist.support[1] * (1.0 - 1e-6)
        enough = _least(lambda budget: error(budget, features, max_mean_epsilon).ratio, budget, money)
    fewer = _most(lambda columns: not error(budget, columns, max_mean_epsilon).dominates, features)
    return NoiseAdvice(here.ratio, here.noise_share, enough, fewer)


def _least(ratio: Callable[[float], float], budget: float, most: float) -> float | None:
    """Return the budget above this one at which the ratio, which falls with it, is 1; None if none can be."""
    high, last = math.log(budget), math.log(most)
    while ratio(math.exp(high)) > 1.0:
        if high == last:
            return None
        low, high = high, min(high + 1.0, last)
    return math.exp(brentq(lambda x: math.log(ratio(math.exp(x))), low, high, xtol=1e-6))


def _most(fits: Callable[[int], bool], too_many: int) -> int | None:
    """Return the largest number that fits, if fewer fit whenever more do; None if not even 1 does."""
    low, high = 0, too_many
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low or None


def _rounded_up(money: float) -> str:
    """Return money to three digits, never less than it is."""
    digits = 2 - math.floor(math.log10(money))
    return f"{math.ceil(money * 10.0**digits) / 10.0**digits:,.10g}"
