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
from dpmarket.payments.kernels.tables import value_at

QUANTITIES = 6
"""Of a bucket: how many; the sums of the high and low halves of the trailing bits, and of their products."""
_PAGE = 4096
_TRAILING = (1 << 40) - 1
_HALF = (1 << 20) - 1
_INFINITY = 2047 << 52
_UNSIGNED = (1 << 63) - 1  # -0.0 is 0.0


@compiled(nogil=True)
def pages_of(bits: Any) -> Any:
    """Return, for each exponent of a float, the number of its page of buckets; -1 where there is none."""
    seen = np.zeros(2048, dtype=np.int64)
    for i in range(bits.size):
        seen[(bits[i] & _UNSIGNED) >> 52] = 1
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
        own = bits[i] & _UNSIGNED
        bucket = pages[own >> 52] * _PAGE + ((own >> 40) & (_PAGE - 1))
        row = sums[bucket]
        trailing = own & _TRAILING
        extremes[bucket, 0] = min(extremes[bucket, 0], trailing)
        extremes[bucket, 1] = max(extremes[bucket, 1], trailing)
        high, low = trailing >> 20, trailing & _HALF
        row[0] += 1
        row[1] += high
        row[2] += low
        row[3] += high * high
        row[4] += high * low
        row[5] += low * low


@compiled(nogil=True)
def add_to_exponents(bits: Any, sums: Any) -> None:
    """Add floats of at least 0, given as bits, to the sums of their exponents.

    ``sums``: int64, shape (4, 2048, 2); changed. The high 27 and the low 26 bits of the significands, which
    are whole numbers; four sums of each, to be added up, so that none waits for the one before. At most 2**35
    floats, so that no sum overflows.
    """
    for i in range(bits.size):
        exponent = (bits[i] & _UNSIGNED) >> 52
        significand = bits[i] & ((1 << 52) - 1)
        if exponent > 0:
            significand |= 1 << 52
        sums[i & 3, exponent, 0] += significand >> 26
        sums[i & 3, exponent, 1] += significand & ((1 << 26) - 1)


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
def within_ranges(values: Any, ranges: Any, rows: Any) -> int:
    """Write the rows whose value lies in one of some half-open ranges, a row each; return how many."""
    count = 0
    for i in range(values.size):
        inside = False
        for k in range(ranges.shape[0]):
            inside |= ranges[k, 0] <= values[i] < ranges[k, 1]
        rows[count] = i
        count += inside
    return count


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
def write_payments(costs: Any, epsilons: Any, rule: Any, payments: Any, errors: Any) -> bool:
    """Write everybody's payment, with the roundings of :func:`dpmarket.payments.exact_payments`.

    Parameters
    ----------
    costs, epsilons
        What sellers reported, and are promised.
    rule
        A table of premiums by cost, their relative error, and the least cost there can be.
    payments, errors
        Written: two floats above the product, and an estimate of the error.

    Returns
    -------
    bool
        Whether all promises and payments are finite.
    """
    premiums, error, least = rule
    bits = payments.view(np.int64)
    finite = True
    for i in range(costs.size):
        payments[i] = errors[i] = 0.0
        if epsilons[i] > 0.0:
            own = max(costs[i], least)
            price = own + value_at(premiums, own)
            paid = epsilons[i] * price
            finite &= np.isfinite(epsilons[i]) and np.isfinite(paid)
            errors[i] = epsilons[i] * (error * price) + 1e-15 * paid
            payments[i] = paid
            bits[i] = min(bits[i] + 2, _INFINITY)
    return finite


@compiled(nogil=True)
def mixed_sum(hashes: Any, bits: Any) -> Any:
    """Return a sum over rows of hashes and numbers, given as bits, that their order changes."""
    total = np.uint64(0)
    row = np.uint64(0)
    for i in range(hashes.size):
        # Round numbers differ in few bits: each row is mixed (as splitmix64 does) before it is added.
        mixed = ((bits[i] * np.uint64(0xD6E8FEB86659FD93)) ^ hashes[i]) + row
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += mixed ^ (mixed >> np.uint64(31))
        row += np.uint64(0x9E3779B97F4A7C15)
    return total


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
def repeated_in(values: Any, starts: Any, table: Any, found: Any) -> int:
    """Write numbers that stand more than once to ``found``; return how many, some of them several times.

    Parameters
    ----------
    values, starts
        Lists of numbers one after the other, each in the same groups: ``starts[k, g]`` is where group ``g``
        of list ``k`` begins, ``starts[k, -1]`` where the list ends. Equal numbers are in the same group.
    table
        uint64, as long as a power of two of at least twice as many as are in a group of all lists: it stays
        in the cache.
    found
        Written, as far as it reaches.
    """
    mask = np.uint64(table.size - 1)
    none = np.uint64(0)
    count = 0
    for group in range(starts.shape[1] - 1):
        table[:] = none
        zeros = 0
        for k in range(starts.shape[0]):
            for i in range(starts[k, group], starts[k, group + 1]):
                value = values[i]
                place = value & mask
                while table[place] != none and table[place] != value:
                    place = (place + np.uint64(1)) & mask
                again = table[place] == value
                if value == none:  # it stands for an empty place
                    zeros += 1
                    again = zeros > 1
                if again and count < found.size:
                    found[count] = value
                    count += 1
                table[place] = value
    return count
