"""Groups between public costs, put together until each has :data:`LEAST` sellers to hide in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution

LEAST = 10
_WIDE = 0.995  # where costs have no upper end, the last group begins at this quantile at the latest


@dataclass(frozen=True)
class Group:
    """Sellers with costs between two public ends, at least ten of them wherever there are ten."""

    low: float
    high: float
    sellers: int
    mean_cost: float
    mean_epsilon: float
    mean_payment: float


def group_ends(dist: CostDistribution, cutoff: float, below: int = 12, above: int = 8) -> FloatArray:
    """Return public ends of groups: ``below`` up to the cutoff (a cost), ``above`` from there on."""
    low, high = dist.support
    top = high if math.isfinite(high) else max(float(dist.quantile(_WIDE)), 2.0 * cutoff - low)
    if not low < cutoff < top:
        return read_only(np.linspace(low, top, below + above + 1))
    return read_only(
        np.append(np.linspace(low, cutoff, below, endpoint=False), np.linspace(cutoff, top, above + 1))
    )


def group_sellers(
    costs: FloatArray, epsilons: FloatArray, payments: FloatArray, ends: FloatArray
) -> tuple[Group, ...]:
    """Put sellers into groups between ``ends`` or beyond, none smaller than :data:`LEAST` unless all are."""
    if costs.size == 0:
        return ()
    places = np.clip(np.searchsorted(ends, costs, side="right") - 1, 0, ends.size - 2)
    counts = np.bincount(places, minlength=ends.size - 1)
    sums = [np.bincount(places, values, minlength=ends.size - 1) for values in (costs, epsilons, payments)]
    groups: list[Group] = []
    for first, last in _spans(counts.tolist()):
        sellers = int(counts[first:last].sum())
        means = [float(total[first:last].sum()) / sellers for total in sums]
        groups.append(Group(float(ends[first]), float(ends[last]), sellers, *means))
    return tuple(groups)


def _spans(counts: list[int]) -> list[tuple[int, int]]:
    """Return runs of bins, each with enough sellers; empty bins at the outer ends are left out."""
    filled = [k for k, count in enumerate(counts) if count]
    spans: list[tuple[int, int]] = []
    start, held = filled[0], 0
    for k in range(filled[0], filled[-1] + 1):
        held += counts[k]
        if held >= LEAST:
            spans.append((start, k + 1))
            start, held = k + 1, 0
    if held:
        first = spans.pop()[0] if spans else start
        spans.append((first, filled[-1] + 1))
    return spans
