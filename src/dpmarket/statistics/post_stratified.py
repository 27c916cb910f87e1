r"""Post-stratification: results for a population whose groups are not represented by their shares.

Each group is released by itself, with the epsilons of its own people. The population's value is the sum of
the groups' values times their public shares :math:`\pi_g`, whatever each group sold
(:func:`post_stratified`). Its interval needs no record either: sampling errors of groups are independent and
sub-Gaussian with variance proxy :math:`|a|^2/4` in units of the range, and a Chernoff bound for their
weighted sum,

.. math:: P(X > x) \le e^{-t x + t^2 \sigma^2 / 2} \prod_g \frac{1}{1 - t^2 \pi_g^2 b_g^2}, \qquad
          \sigma^2 = \frac14 \sum_g \frac{\pi_g^2}{n_g},

holds at every t below :math:`1/\max \pi_g b_g`, with effective sample sizes :math:`n_g` and noise scales
:math:`b_g`; the least x is taken. Sales *within* a group must not depend on the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.statistics.release import ReleasedStatistic
from dpmarket.statistics.sample import RESOLUTION

_KINDS = ("mean", "share", "histogram")
_STEPS = np.geomspace(1e-6, 0.995, 400)  # of the largest t
_UP = 1.0 + 1e-9  # far more than the formulas can be off by rounding


class PostStratified(NamedTuple):
    """A population's values from releases of its groups, with intervals that hold all together.

    Attributes
    ----------
    labels, values, lows, highs
        As in :class:`~dpmarket.statistics.ReleasedStatistic`, for the population.
    """

    labels: tuple[str, ...]
    values: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


def post_stratified(
    releases: Mapping[str, ReleasedStatistic], shares: Mapping[str, float], confidence: float = 0.95
) -> PostStratified:
    """Return a population's mean, share or histogram from releases of its groups.

    Parameters
    ----------
    releases, shares
        Of each group, by name: the same statistic with the same public settings; and its share of the
        population, adding up to 1, public, not from these records.
    confidence
        Probability with which all intervals shall hold the population's values.

    Returns
    -------
    PostStratified
        Made of published numbers alone: it costs no privacy.

    Examples
    --------
    >>> from dpmarket.privacy import SeededNoise
    >>> from dpmarket.statistics import PrivateShare
    >>> groups = {"city": [True] * 300 + [False] * 100, "land": [True] * 10 + [False] * 40}
    >>> releases = {name: PrivateShare(epsilon=1.0, noise_source=SeededNoise(1)).fit(answers).release_
    ...             for name, answers in groups.items()}
    >>> found = post_stratified(releases, {"city": 0.5, "land": 0.5})
    >>> round(found.values[0], 4), round(found.lows[0], 4), round(found.highs[0], 4)
    (0.5, 0.3891, 0.611)
    """
    confidence = checks.strictly_between("confidence", confidence, 0.0, 1.0)
    if not releases or set(releases) != set(shares):
        raise InvalidInput("expected a release and a share for each group, and the same names in both.")
    weights = np.array([checks.positive(f"share of {name}", shares[name]) for name in releases])
    if abs(math.fsum(weights) - 1.0) > 1e-9:
        raise InvalidInput(f"expected shares that add up to 1, got {math.fsum(weights)!r}.")
    first, *others = releases.values()
    settings = [{**each.question, "confidence": None} for each in (first, *others)]
    if first.kind not in _KINDS or any(each != settings[0] for each in settings):
        raise InvalidInput("expected one mean, share or histogram with the same settings for all.")
    # The released numbers themselves: values were brought into their range, which moves them.
    numbers = np.array(
        [[float(Fraction(n, each.denominator)) for n in each.numerators] for each in releases.values()]
    )
    changed = 2.0 if first.kind == "histogram" and len(first.labels) > 2 else 1.0
    scales = weights * np.array([changed / each.total_epsilon for each in releases.values()])
    sizes = np.array([each.effective_people for each in releases.values()])
    risk = 0.5 * (1.0 - confidence) / numbers.shape[1]
    margin = _margin(0.5 * math.sqrt(float((weights**2 / sizes).sum())), scales, risk)
    margin += 1.5 / RESOLUTION + max(1.0 / each.denominator for each in releases.values())
    found = weights @ numbers
    if first.kind == "histogram" and len(first.labels) == 2:
        found = np.array([1.0 - found[0], found[0]])
    low, size = 0.0, 1.0
    if first.kind == "mean":
        low, size = first.question["low"], first.question["high"] - first.question["low"]
    values, lows, highs = (
        tuple((low + size * np.clip(each, 0.0, 1.0)).tolist())
        for each in (found, found - margin, found + margin)
    )
    return PostStratified(first.labels, values, lows, highs)


def _margin(deviation: float, scales: FloatArray, risk: float) -> float:
    """Return what a sub-Gaussian and Laplace errors together exceed, one way, with at most this risk."""
    steps = _STEPS / float(scales.max())
    laplace = -np.log1p(-((steps[:, None] * scales) ** 2)).sum(axis=1)
    bounds = (math.log(1.0 / risk) + 0.5 * (steps * deviation) ** 2 + laplace) / steps
    return float(bounds.min()) * _UP


def group_difference(values: object, membership: object) -> float:
    r"""Return D, how much groups differ in what is to be learnt, from a public pilot table.

    Weights that give group g the sum :math:`w_g` in place of :math:`\pi_g` move a mean by :math:`\sum_g
    (w_g - \pi_g) m_g`, with :math:`m_g` the groups' means: its square is D times the squared gaps, with D the
    variance of the groups' means, less what sampling adds to it.

    Parameters
    ----------
    values
        For a mean: each record's number. For a model: each record's gradient of the loss at the coefficients
        that fit the whole table, shape (n, p).
    membership
        Each record's group as a whole number; every group has at least two records.

    Returns
    -------
    float
        In units of the objective's sampling error, at least 0: the weight of soft quotas in a plan.

    Examples
    --------
    >>> group_difference([1.0, 1.2, 3.0, 3.2], [0, 0, 1, 1])
    1.99
    """
    table: NDArray[Any] = np.asarray(values, dtype=np.float64)
    table = table.reshape(table.shape[0], -1) if table.ndim else table.reshape(0, 1)
    if not table.size or not np.isfinite(table).all():
        raise InvalidInput("expected values that are finite numbers, a row for each record.")
    members: NDArray[Any] = np.asarray(membership)
    if members.shape != table.shape[:1]:
        raise InvalidInput(f"expected the groups of {table.shape[0]} records as a vector.")
    names, counts = np.unique(members, return_counts=True)
    if names.size < 2 or counts.min() < 2:
        raise InvalidInput("expected at least two groups with at least two records each.")
    parts = [table[members == name] for name in names]
    means = np.array([part.mean(axis=0) for part in parts])
    between = float(means.var(axis=0, ddof=1).sum())
    sampled = [float(part.var(axis=0, ddof=1).sum()) / len(part) for part in parts]
    return max(between - math.fsum(sampled) / names.size, 0.0)


def rebalanced(epsilons: object, membership: object, shares: Sequence[float]) -> FloatArray:
    """Return what to use of each seller's epsilon so that groups have their shares of the total exactly.

    Everybody in a group with too much uses the same part of their epsilon; the group with the least for
    its share uses all. Nobody spends more than was sold, and payments stay as they are.

    Parameters
    ----------
    epsilons, membership
        What each seller sold, at least 0, with a delta the Gaussian parameters mu; and the seller's group as
        a position in ``shares``.
    shares
        Of the groups. Those of groups that sold nothing go to the others in proportion.

    Returns
    -------
    ndarray of shape (m,)
        At most the epsilons given.

    Examples
    --------
    >>> rebalanced([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 1], [0.5, 0.5]).round(3).tolist()
    [0.333, 0.333, 0.333, 1.0]
    """
    sold = checks.non_negative_vector("epsilons", epsilons)
    targets = checks.non_negative_vector("shares", shares)
    members: NDArray[Any] = np.asarray(membership)
    if members.shape != sold.shape or not np.isin(members, np.arange(targets.size)).all():
        raise InvalidInput(f"expected {sold.size} groups as positions from 0 to {targets.size - 1}.")
    members = members.astype(np.int64)
    totals = np.bincount(members, weights=sold, minlength=targets.size)
    wanted = np.where(totals > 0.0, targets, 0.0)
    if not wanted.any():
        return np.zeros(sold.size)
    filled = wanted > 0.0
    most = float((totals[filled] / wanted[filled]).min())
    part = np.divide(most * wanted, totals, out=np.zeros(targets.size), where=totals > 0.0)
    return np.asarray(sold * np.minimum(part, 1.0)[members])
