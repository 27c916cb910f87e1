"""Turn a pilot's reported costs into the distribution that predicts held-out reports best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from dpmarket.arrays import FloatArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.empirical import Empirical, pilot_costs, pilot_support
from dpmarket.costs.from_scipy import FromScipy
from dpmarket.costs.uniform import Uniform
from dpmarket.errors import InvalidInput

FOLDS = 5


@dataclass(frozen=True)
class FittedCandidate:
    """One family's result.

    Attributes
    ----------
    name
        Of the family: uniform, log-normal, gamma, beta or empirical.
    log_likelihood
        Mean over held-out samples, -inf where the family cannot have made them.
    standard_error
        Of that mean; NaN where it is -inf.
    distribution
        Fitted to all samples, None if that failed.
    """

    name: str
    log_likelihood: float
    standard_error: float
    distribution: CostDistribution | None


@dataclass(frozen=True)
class CostFit:
    """The candidates, best first, and the distribution of the best one.

    Attributes
    ----------
    candidates
        One per family, by falling log-likelihood of held-out samples; what could not be fitted last.
    sample_count
        How many costs they were fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmarket.costs import fit_costs
    >>> fit = fit_costs(np.linspace(1, 5, 81))
    >>> fit.sample_count, [candidate.name for candidate in fit.candidates][:2]
    (81, ['uniform', 'beta'])
    >>> fit.distribution
    Uniform(low=0.95, high=5.05)
    """

    candidates: tuple[FittedCandidate, ...]
    sample_count: int

    @property
    def distribution(self) -> CostDistribution:
        """The best candidate's distribution, fitted to all samples."""
        best = self.candidates[0].distribution
        assert best is not None  # fit_costs puts a candidate without one last, and has one with
        return best


def fit_costs(samples: object, low: float | None = None, high: float | None = None) -> CostFit:
    """Fit uniform, log-normal, gamma, beta and empirical costs to a pilot, and rank them.

    The rank is by mean log-likelihood of held-out samples in a 5-fold cross-validation. The folds are the
    same pseudo-random ones in every call, over the sorted samples: the result is reproducible and does not
    depend on the samples' order.

    Parameters
    ----------
    samples
        At least 20 reported costs, not all equal, in money per unit of epsilon.
    low, high
        The support, where it is known: all candidates are cut to it. Otherwise the bounded candidates
        (uniform, beta, empirical) reach one mean spacing beyond the samples, held-out ones included, and
        log-normal and gamma are unbounded.

    Returns
    -------
    CostFit
        All candidates with their scores, and the distribution of the best one.

    Raises
    ------
    InvalidInput
        Fewer than 20 samples, all equal, negative, NaN, infinite, or outside [low, high].

    Examples
    --------
    >>> import numpy as np
    >>> fit = fit_costs(np.random.default_rng(0).lognormal(0.5, 0.8, 300))
    >>> fit.candidates[0].name
    'log-normal'
    """
    costs = np.sort(pilot_costs(samples))
    bounds = pilot_support(costs, low, high)
    cut = (low if low is not None else 0.0, high if high is not None else math.inf)
    families: dict[str, Callable[[FloatArray], CostDistribution]] = {
        "uniform": lambda _: Uniform(*bounds),
        "log-normal": lambda c: _log_normal(c, *cut),
        "gamma": lambda c: _gamma(c, *cut),
        "beta": lambda c: _beta(c, *bounds),
        "empirical": lambda c: Empirical(c, *bounds),
    }
    fold = np.random.default_rng(0).permutation(len(costs)) % FOLDS
    candidates = []
    for name, family in families.items():
        scores = np.concatenate([_score(family, costs[fold != k], costs[fold == k]) for k in range(FOLDS)])
        finite = bool(np.isfinite(scores).all())
        candidates.append(
            FittedCandidate(
                name,
                float(scores.mean()) if finite else -math.inf,
                float(scores.std(ddof=1) / math.sqrt(len(scores))) if finite else math.nan,
                _try(family, costs),
            )
        )
    candidates.sort(key=lambda c: (c.distribution is None, -c.log_likelihood))
    return CostFit(tuple(candidates), len(costs))


def _score(
    family: Callable[[FloatArray], CostDistribution], train: FloatArray, test: FloatArray
) -> FloatArray:
    distribution = _try(family, train)
    if distribution is None:
        return np.full(len(test), -math.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(distribution.pdf(test)))


def _try(family: Callable[[FloatArray], CostDistribution], costs: FloatArray) -> CostDistribution | None:
    """Fit, or tell with None that this family cannot have made these costs."""
    try:
        return family(costs)
    except (InvalidInput, stats.FitError, FloatingPointError):
        return None


def _log_normal(costs: FloatArray, low: float, high: float) -> CostDistribution:
    if costs[0] <= 0.0:
        raise InvalidInput("expected positive costs for a log-normal distribution.")
    logs = np.log(costs)
    start = np.array([math.log(logs.std()), logs.mean()])

    def family(parameters: FloatArray) -> CostDistribution:
        return FromScipy(stats.lognorm(s=math.exp(parameters[0]), scale=math.exp(parameters[1])), low, high)

    return _cut_likelihood(family, start, costs, exact=low == 0.0 and math.isinf(high))


def _gamma(costs: FloatArray, low: float, high: float) -> CostDistribution:
    if costs[0] <= 0.0:
        raise InvalidInput("expected positive costs for a gamma distribution.")
    shape, _, scale = stats.gamma.fit(costs, floc=0.0)
    start = np.log([shape, scale])

    def family(parameters: FloatArray) -> CostDistribution:
        return FromScipy(stats.gamma(a=math.exp(parameters[0]), scale=math.exp(parameters[1])), low, high)

    return _cut_likelihood(family, start, costs, exact=low == 0.0 and math.isinf(high))


def _beta(costs: FloatArray, low: float, high: float) -> CostDistribution:
    if costs[0] <= low or costs[-1] >= high:
        raise InvalidInput("expected costs strictly within the support for a beta distribution.")
    a, b, loc, scale = stats.beta.fit(costs, floc=low, fscale=high - low)
    return FromScipy(stats.beta(a=a, b=b, loc=loc, scale=scale), low, high)


def _cut_likelihood(
    family: Callable[[FloatArray], CostDistribution],
    start: FloatArray,
    costs: FloatArray,
    *,
    exact: bool,
) -> CostDistribution:
    """Maximise the likelihood of a truncated family; the untruncated fit is exact without cuts."""
    if exact:
        return family(start)

    def loss(parameters: FloatArray) -> float:
        try:
            distribution = family(parameters)
        except (InvalidInput, OverflowError):
            return math.inf
        with np.errstate(divide="ignore"):
            return -float(np.log(distribution.pdf(costs)).mean())

    found = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
    return family(found.x)
