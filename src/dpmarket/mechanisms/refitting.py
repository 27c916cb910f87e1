"""Turn the reports of a market's past sellers into what to believe about its next ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, PiecewiseLinear

LEAST_REPORTS = 20
# Groups grow like n^(1/3), as histograms should; each holds at least so many reports.
_GROUPS = 3.0
_LEAST_IN_GROUP = 4


def refit(reports: FloatArray, prior: CostDistribution) -> CostDistribution:
    """Return a distribution on the prior's support that follows the reports, most closely at the cheap end.

    A buyer with many sellers buys from the cheapest few, so what matters is how dense the lowest costs are.
    The reports are cut into groups whose sizes grow towards the dear end, and the density is made from them
    as in :mod:`dpmarket.costs.empirical`.

    Parameters
    ----------
    reports
        Past reports, shape (n,), at least 0. Reports below the support count as its lower end, those above it
        are left out.
    prior
        Believed as long as there are fewer than 20 reports to go by, or no two different ones. Its support
        must be finite and is kept: curve and payments use the same upper end throughout.

    Returns
    -------
    CostDistribution
        The new belief: ``prior`` itself, or a :class:`~dpmarket.costs.empirical.PiecewiseLinear` on its
        support.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> belief = refit(np.linspace(2.0, 4.0, 100), Uniform(0, 10))
    >>> belief.support, 2.5 < belief.quantile(0.5) < 3.5
    ((0.0, 10.0), True)
    """
    low, high = prior.support
    ordered = np.sort(np.maximum(reports[reports <= high], low))
    if ordered.size < LEAST_REPORTS or ordered[0] == ordered[-1]:
        return prior
    cuts = _cuts(ordered.size)
    inner = 0.5 * (ordered[cuts - 1] + ordered[cuts])
    edges = np.unique(np.concatenate(([low], inner[(inner > low) & (inner < high)], [high])))
    below = 0.5 * (np.searchsorted(ordered, edges, "left") + np.searchsorted(ordered, edges, "right"))
    below[0], below[-1] = 0.0, ordered.size
    shares, widths = np.diff(below), np.diff(edges)
    heights = np.concatenate(
        (
            shares[:1] / widths[:1],
            (shares[1:] + shares[:-1]) / (widths[1:] + widths[:-1]),
            shares[-1:] / widths[-1:],
        )
    )
    # A cost that can occur has a density: half a report's over the whole support.
    return PiecewiseLinear(edges, np.maximum(heights, 0.5 / (high - low)))


def keep_prior(reports: FloatArray, prior: CostDistribution) -> CostDistribution:
    """Return the prior whatever was reported: for a distribution that is known, so that only plans change.

    Parameters
    ----------
    reports
        Past reports; not looked at.
    prior
        What is known.

    Returns
    -------
    CostDistribution
        The prior itself.
    """
    return prior


def name_of(fit: Callable[..., CostDistribution]) -> str:
    """Return a name that tells a fitting function from others.

    A function that can be imported goes by its place; anything else (a lambda, a partial, an object) by its
    ``repr``, which is hardly ever the same in another process.
    """
    if inspect.isfunction(fit) and "<" not in fit.__qualname__:
        return f"{fit.__module__}.{fit.__qualname__}"
    return repr(fit)


def _cuts(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many reports lie below each edge between groups, which are smaller at the cheap end."""
    groups = math.ceil(_GROUPS * count ** (1.0 / 3.0))
    wanted = np.unique(np.round(count * (np.arange(1, groups) / groups) ** 2).astype(np.int64))
    cuts: list[int] = []
    for cut in wanted.tolist():
        if cut - (cuts[-1] if cuts else 0) >= _LEAST_IN_GROUP and count - cut >= _LEAST_IN_GROUP:
            cuts.append(cut)
    return np.array(cuts, dtype=np.int64)
