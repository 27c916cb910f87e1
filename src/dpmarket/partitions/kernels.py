"""Compiled loops of the partitions: exact sums per bucket, the walk within windows, everybody's promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.allocation.kernels.segments import COLUMNS, scaled_slope, square_rate
from dpmarket.allocation.kernels.walk import (
    Sight,
    entered,
    left_cap,
    minima_on,
    next_events,
    segment_between,
    with_minima,
)
from dpmarket.compiling import compiled

QUANTITIES = 6
"""Of a bucket: how many; the sums of the high and low halves of the trailing bits, and of their products."""
_PAGE = 4096
_TRAILING = (1 << 40) - 1
_HALF = (1 << 20) - 1


@compiled(nogil=True)
def pages_of(bits: Any) -> Any:
    """Return, for each exponent of a float, the number of its page of buckets; -1 where there is none."""
    seen = np.zeros(2048, dtype=np.int64)
    for i in range(bits.size):
        seen[bits[i] >> 52] = 1
    pages = np.full(2048, -1, dtype=np.int64)
    count = 0
    for exponent in range(2048):
        if seen[exponent]:
            pages[exponent] = count
            count += 1
    return pages, count


@compiled(nogil=True)
def add_to_buckets(bits: Any, pages: Any, sums: Any, extremes: Any) -> None:
    """Add numbers to the sums of their buckets.

    Parameters
    ----------
    bits
        int64: floats of at least 0, as bits; at most 2**22 of them, so that no sum overflows.
    pages
        What :func:`pages_of` gave.
    sums
        int64, shape (4096 * pages, QUANTITIES); changed.
    extremes
        int64, shape (4096 * pages, 2): the least and the largest trailing bits; changed.
    """
    for i in range(bits.size):
        bucket = pages[bits[i] >> 52] * _PAGE + ((bits[i] >> 40) & (_PAGE - 1))
        row = sums[bucket]
        trailing = bits[i] & _TRAILING
        extremes[bucket, 0] = min(extremes[bucket, 0], trailing)
        extremes[bucket, 1] = max(extremes[bucket, 1], trailing)
        high, low = trailing >> 20, trailing & _HALF
        row[0] += 1
        row[1] += high
        row[2] += low
        row[3] += high * high
        row[4] += high * low
        row[5] += low * low


@compiled()
def walk_windows(psi: Any, sellers: int, rules: Any, members: Any, where: Any) -> Any:
    """Return the local minima between two points of the path.

    Parameters
    ----------
    psi
        Sorted costs at their places; only those around the places that the walk comes by need be there.
    sellers
        How many finite costs there are in all.
    rules, members
        As in :mod:`dpmarket.allocation.kernels.walk`: who is where at the first point.
    where
        The spreads of both; how many may have entered when the walk ends, if it is before the second; and how
        many are at the cap at least. Where not everybody may enter, the last of those in ``psi`` is no seller
        but a cost that none before the others has.

    Returns
    -------
    tuple
        A table of minima, and whether the walk stayed among the costs that are there.
    """
    s, until, most, least = where
    table = np.empty((4, COLUMNS))
    found: Any = np.int64(0)
    here = segment_between(rules, members, s, s)
    bounded = square_rate(here, s) >= rules.least_rate * rules.least_rate
    sight = Sight(scaled_slope(here, s, rules.rho) < 0.0, bounded, np.nan, np.nan)
    while s < until and (members.l < most or most == sellers):
        entry, leave = next_events(psi, rules, members)
        end = min(entry, leave)
        if end > s:
            segment = segment_between(rules, members, s, end)
            sight = minima_on(segment, rules, sight)
            if sight.at_bound >= 0.0 or sight.crossing >= 0.0:
                table, found = with_minima(table, found, sight, (segment, members), rules)
            s = end
        if end == np.inf:
            return table[:found], True
        if entry <= leave:
            members = entered(psi, members)
        else:
            if least >= members.N:
                return table[:found], False
            members = left_cap(psi, rules, members)
    return table[:found], True


@compiled(nogil=True)
def write_promises(psi: Any, rule: Any, epsilons: Any) -> None:
    """Write everybody's promise, with the roundings of :func:`dpmarket.allocation.allocate`.

    Parameters
    ----------
    psi
        Virtual costs.
    rule
        BASE, GAP and SPREAD of the minimum, the largest weight, the total promise, and what no promise may
        exceed.
    epsilons
        Written.
    """
    base, gap, spread, cap, total, bound = rule
    for i in range(psi.size):
        weight = 0.0
        if base - psi[i] >= 0.0:
            weight = min(((base - psi[i]) + gap) / spread, cap)
        epsilons[i] = min(weight * total, bound)


@compiled(nogil=True)
def grouped(values: Any, starts: Any, out: Any) -> None:
    """Write numbers to ``out`` by their first byte; ``starts``: where each byte's begin, and the end."""
    counts = np.zeros(257, dtype=np.int64)
    for i in range(values.size):
        counts[(values[i] >> np.uint64(56)) + np.uint64(1)] += 1
    for k in range(256):
        counts[k + 1] += counts[k]
        starts[k + 1] = counts[k + 1]
    starts[0] = 0
    for i in range(values.size):
        group = values[i] >> np.uint64(56)
        out[counts[group]] = values[i]
        counts[group] += 1


@compiled(nogil=True)
def mark_repeated(values: Any, starts: Any, table: Any, repeated: Any) -> int:
    """Mark numbers that stand before in ``values``; return how many.

    Parameters
    ----------
    values, starts
        What :func:`grouped` wrote. Equal numbers are in one group, whose table stays in the cache.
    table
        int64, as long as a power of two of at least twice as many as the largest group has.
    repeated
        Changed.
    """
    mask = np.uint64(table.size - 1)
    found = 0
    for group in range(starts.size - 1):
        table[:] = -1
        for i in range(starts[group], starts[group + 1]):
            place = values[i] & mask
            while table[place] >= 0 and values[table[place]] != values[i]:
                place = (place + np.uint64(1)) & mask
            if table[place] >= 0:
                repeated[i] = True
                found += 1
            else:
                table[place] = i
    return found
