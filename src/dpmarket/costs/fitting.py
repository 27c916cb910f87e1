"""A cost distribution from a pilot: the family that predicts held-out reports best.

Every family is fitted to one half of the pilot and scored by the mean log-likelihood of the other half, both
ways round, with a little probability, 2/n, spread up to twice the highest cost, so that no report rules a
family out. Bounded families end one mean spacing beyond the reports. The best is then fitted to all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.costs.distribution import CostDistribution, Mixture, Uniform
from dpmarket.errors import InvalidInput

Family = Callable[[FloatArray], CostDistribution]
"""Fits a distribution to rising costs."""
_LEAST = 20
_HALVINGS = 10  # of the pilot, for held-out scores


@dataclass(frozen=True)
class FittedCandidate:
    """One family: mean held-out log-likelihood, its standard error, and the fit to all reports (or None)."""

    name: str
    log_likelihood: float
    standard_error: float
    distribution: CostDistribution | None


@dataclass(frozen=True)
class CostFit:
    """The candidates, best first, and how many reports they were fitted to."""

    candidates: tuple[FittedCandidate, ...]
    sample_count: int

    @property
    def distribution(self) -> CostDistribution:
        """The best candidate's distribution; the uniform always has one."""
        return self.candidates[0].distribution  # type: ignore[return-value]


def fit_costs(samples: object) -> CostFit:
    """Fit uniform, log-normal, gamma, beta and histogram costs to a pilot, and rank them.

    Parameters
    ----------
    samples
        At least 20 reported costs, not all equal, in money per unit of epsilon, in any order.

    Returns
    -------
    CostFit
        All candidates with their scores, and the distribution of the best one.

    Examples
    --------
    >>> fit = fit_costs(np.linspace(1, 5, 81))
    >>> fit.candidates[0].name, fit.distribution.support
    ('uniform', (0.95, 5.05))
    """
    costs = _pilot(samples)
    rng = np.random.default_rng(0)
    halves = [rng.permutation(costs.size) < costs.size // 2 for _ in range(_HALVINGS)]
    sides = [side for half in halves for side in (half, ~half)]
    candidates = []
    for name, family in FAMILIES.items():
        each = _held_out(family, costs, sides)
        error = float(each.std(ddof=1)) / math.sqrt(costs.size) if np.isfinite(each).all() else math.nan
        candidates.append(FittedCandidate(name, float(each.mean()), error, _try(family, costs)))
    candidates.sort(key=lambda c: (c.distribution is None, -c.log_likelihood))
    return CostFit(tuple(candidates), costs.size)


def Empirical(samples: object) -> CostDistribution:
    """Return the histogram of a pilot's costs: a mixture of uniforms with equal counts.

    It ends one mean spacing beyond the reports, not below 0, and holds edges of groups of reports: people of
    a pilot must not sell in the market planned with it.

    Parameters
    ----------
    samples
        At least 20 costs, not all equal; they make 2 n^(1/3) groups.

    Returns
    -------
    CostDistribution
        Ties are kept together.

    Examples
    --------
    >>> round(Empirical(np.linspace(1, 5, 101)).quantile(0.5), 9)
    3.0
    """
    ordered = _pilot(samples)
    low, high = _support(ordered)
    groups = min(math.ceil(2.0 * ordered.size ** (1.0 / 3.0)), ordered.size // 4)
    cuts = np.round(np.linspace(0, ordered.size, groups + 1)[1:-1]).astype(int)
    inner = 0.5 * (ordered[cuts - 1] + ordered[cuts])
    edges = np.unique(np.concatenate(([low], inner[(inner > low) & (inner < high)], [high])))
    # An edge in the middle of tied samples has half of them on either side.
    below = 0.5 * (np.searchsorted(ordered, edges, "left") + np.searchsorted(ordered, edges, "right"))
    below[0], below[-1] = 0.0, ordered.size
    # A group that ties have emptied still gets a density, half a sample's: a cost that can occur has one.
    counts = np.maximum(np.diff(below), 0.5 * np.diff(edges) / (high - low))
    parts = [Uniform(float(a), float(b)) for a, b in pairwise(edges)]
    return Mixture(parts, (counts / counts.sum()).tolist())


def _pilot(samples: object) -> FloatArray:
    """Return a pilot's costs in rising order: at least 20, finite, never negative, not all equal."""
    costs = np.sort(checks.non_negative_vector("samples", samples))
    if costs.size < _LEAST:
        raise InvalidInput(f"expected at least {_LEAST} samples, got {costs.size}: ask more people.")
    if costs[0] == costs[-1]:
        raise InvalidInput("expected samples that are not all equal, got one value only.")
    return costs


def _support(ordered: FloatArray) -> tuple[float, float]:
    """Return the support: one mean spacing beyond the (rising) costs."""
    first, last = float(ordered[0]), float(ordered[-1])
    spacing = (last - first) / (ordered.size - 1)
    return max(first - spacing, 0.0), last + spacing


def _held_out(family: Family, costs: FloatArray, halves: Sequence[BoolArray]) -> FloatArray:
    """Return each report's mean log-likelihood where it was held out; -inf if the family does not fit."""
    stray = 2.0 / costs.size
    total, count = np.zeros(costs.size), np.zeros(costs.size)
    for half in halves:
        fitted = _try(family, costs[half])
        if fitted is None or not np.isfinite(density := np.asarray(fitted.pdf(costs[~half]))).all():
            return np.full(costs.size, -math.inf)
        total[~half] += np.log((1.0 - stray) * density + stray / (2.0 * costs[-1]))
        count[~half] += 1.0
    return np.asarray(total / count)


def _try(family: Family, costs: FloatArray) -> CostDistribution | None:
    """Fit, or say with None that this family cannot have made these costs."""
    from scipy import stats

    try:
        return family(costs)
    except (InvalidInput, stats.FitError, FloatingPointError):
        return None


def _positive(name: str, costs: FloatArray) -> CostDistribution:
    """Fit a family of positive costs by maximum likelihood."""
    from scipy import stats

    if costs[0] <= 0.0:
        raise InvalidInput(f"expected positive costs for {name}.")
    family = getattr(stats, name)
    shape, _, scale = family.fit(costs, floc=0.0)
    return CostDistribution(family(shape, scale=scale))


def _beta(costs: FloatArray) -> CostDistribution:
    from scipy import stats

    low, high = _support(costs)
    if costs[0] <= low:
        raise InvalidInput("expected costs strictly within the support for a beta distribution.")
    a, b, _, _ = stats.beta.fit(costs, floc=low, fscale=high - low)
    return CostDistribution(stats.beta(a, b, loc=low, scale=high - low), low, high)


FAMILIES: dict[str, Family] = {
    "uniform": lambda costs: Uniform(*_support(costs)),
    "log-normal": partial(_positive, "lognorm"),
    "gamma": partial(_positive, "gamma"),
    "beta": _beta,
    "histogram": Empirical,
}
"""What a pilot's costs may follow."""
