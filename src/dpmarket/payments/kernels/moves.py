"""Keep the sums over all sellers but one while sellers cross the boundaries of the interior.

The sellers [0, a) are at the cap, [a, b) between, the rest out. One of them, the mover, has left their place
in the sorted costs and reports something else; the sums are over the others. Costs are held relative to the
dearest seller whom the base solution buys from, so that nothing cancels when they lie close together far from
zero. Sellers with equal costs cross a boundary together: ties are as fast as single sellers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.walk import Rules
from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled
from dpmarket.numerics import carried

# Typed, because numba would compile functions anew for each value of a plain constant that they are given.
_FIRST: Any = np.int64(0)
SINGLE: Any = np.int64(1)
OUT: Any = np.int64(0)
INTERIOR: Any = np.int64(1)
CAPPED: Any = np.int64(2)
"""Where a seller stands: not bought from, between, or at the cap."""


class Problem(NamedTuple):
    """The buyer's problem.

    ``psi``: the cheapest of the finite virtual costs, sorted; ``sellers``: how many finite ones there are in
    all; ``total``: the sum of all of them; ``rules``: the walk's; ``epsilon_rate``: the total promise is this
    divided by the rate t of a point on the path.
    """

    psi: FloatArray
    sellers: int
    total: float
    rules: Rules
    epsilon_rate: float


class Anchor(NamedTuple):
    """A point of the path of the base problem, from which moved problems are solved.

    ``capped`` sellers are at the cap, the dearest of whom costs ``last_capped`` (minus infinity: nobody is),
    ``bought`` are bought from, the dearest at ``reference``. Relative to that: the sum over the capped, mean
    and squared deviations of those between. ``spread`` is where on the path it is.
    """

    capped: int
    bought: int
    last_capped: float
    reference: float
    capped_sum: float
    mean: float
    spread_sum: float
    spread: float


class Mover(NamedTuple):
    """Whose report moves: the cost ``own`` becomes ``x``, both relative to the anchor's reference."""

    own: float
    x: float


class Others(NamedTuple):
    """Everybody but the mover: ``held`` at the cap with sum S_c, ``n`` between with mean and deviations."""

    a: int
    b: int
    held: int
    n: int
    S_c: float
    M: float
    V: float


class Sums(NamedTuple):
    """The same sums with the mover, and the weight that is left for those between."""

    held: int
    n: int
    S_c: float
    M: float
    V: float
    rest: float


@compiled()
def sums_between(psi: Any, capped: int, bought: int) -> Any:
    """Return reference, sum over the capped, mean and squared deviations of the interior; relative."""
    reference = psi[bought - 1]
    capped_sum = carry = 0.0
    for j in range(capped):
        capped_sum, carry = carried(capped_sum, carry, psi[j] - reference)
    inner = carry = 0.0
    for j in range(capped, bought):
        inner, carry = carried(inner, carry, psi[j] - reference)
    n = bought - capped
    mean = inner / n if n > 0 else 0.0
    spread_sum = carry = 0.0
    for j in range(capped, bought):
        spread_sum, carry = carried(spread_sum, carry, (psi[j] - reference - mean) ** 2)
    return reference, capped_sum, mean, spread_sum


def anchor_at(psi: FloatArray, capped: int, bought: int, spread: float) -> Anchor:
    """Return the anchor where these many are capped and bought from."""
    last_capped = float(psi[capped - 1]) if capped else -np.inf
    reference, capped_sum, mean, spread_sum = sums_between(psi, capped, bought)
    return Anchor(capped, bought, last_capped, reference, capped_sum, mean, spread_sum, spread)


@compiled(forceinline=True)
def others_at(anchor: Any, own: float) -> Any:
    """Return the sums at an anchor without the seller whose cost is ``own``, relative to its reference."""
    others = Others(
        anchor.capped,
        anchor.bought,
        anchor.capped,
        anchor.bought - anchor.capped,
        anchor.capped_sum,
        anchor.mean,
        anchor.spread_sum,
    )
    if own <= anchor.last_capped - anchor.reference:
        return Others(others.a, others.b, others.held - 1, others.n, others.S_c - own, others.M, others.V)
    if own <= 0.0:
        n, M, V = without(others, own, SINGLE)
        return Others(others.a, others.b, others.held, n, others.S_c, M, V)
    return others


@compiled(forceinline=True)
def with_mover(others: Any, x: float, status: int, rules: Any) -> Any:
    """Return the sums with the mover, who reports ``x`` and stands where ``status`` says."""
    held, n, S_c, M, V = others.held, others.n, others.S_c, others.M, others.V
    if status == INTERIOR:
        n += 1
        M = others.M + (x - others.M) / n
        V = others.V + (x - others.M) * (x - M)
    elif status == CAPPED:
        held += 1
        S_c = others.S_c + x
    return Sums(held, n, S_c, M, V, rules.first_rest + (rules.first_capped - held) * rules.cap)


@compiled(forceinline=True)
def joined(others: Any, d: float, count: int) -> tuple[int, float, float]:
    """Return number, mean and deviations of those between with ``count`` more of cost ``d``."""
    n = others.n + count
    mean = others.M + count * (d - others.M) / n
    return n, mean, others.V + count * (d - others.M) * (d - mean)


@compiled(forceinline=True)
def without(others: Any, d: float, count: int) -> tuple[int, float, float]:
    """Return number, mean and deviations of those between with ``count`` fewer of cost ``d``."""
    n = others.n - count
    if n <= 0:
        return 0, 0.0, 0.0
    mean = others.M - count * (d - others.M) / n
    return n, mean, max(others.V - count * (d - others.M) * (d - mean), 0.0)


@compiled()
def run_end(psi: Any, j: int, limit: int) -> int:
    """Return the end, at most ``limit``, of the run of equal costs that begins at ``j``."""
    step = 1
    low = j
    while low + step < limit and psi[low + step] == psi[j]:
        low += step
        step *= 2
    high = min(low + step, limit)
    while low + 1 < high:
        middle = (low + high) // 2
        if psi[middle] == psi[j]:
            low = middle
        else:
            high = middle
    return low + 1


@compiled()
def run_start(psi: Any, j: int, limit: int) -> int:
    """Return the start, at least ``limit``, of the run of equal costs that ends with ``j``."""
    step = 1
    high = j
    while high - step >= limit and psi[high - step] == psi[j]:
        high -= step
        step *= 2
    low = max(high - step, limit - 1)
    while low + 1 < high:
        middle = (low + high) // 2
        if psi[middle] == psi[j]:
            high = middle
        else:
            low = middle
    return high


@compiled(forceinline=True)
def is_mover(psi: Any, j: int, reference: float, own: float) -> bool:
    """Tell whether seller ``j`` is the one that moved: the first of those with the same cost."""
    mover: bool = psi[j] - reference == own and (j == 0 or psi[j - 1] - reference != own)
    return mover


@compiled()
def entered(psi: Any, others: Any, reference: float, own: float) -> Any:
    """Return the others after the cheapest who were out have entered."""
    start, end = others.b, run_end(psi, others.b, psi.size)
    count = end - start - is_mover(psi, start, reference, own)
    n, M, V = others.n, others.M, others.V
    if count > 0:
        n, M, V = joined(others, psi[start] - reference, count)
    return Others(others.a, end, others.held, n, others.S_c, M, V)


@compiled()
def dropped(psi: Any, others: Any, reference: float, own: float) -> Any:
    """Return the others after the dearest of those between are out."""
    start = run_start(psi, others.b - 1, others.a)
    count = others.b - start - is_mover(psi, start, reference, own)
    n, M, V = others.n, others.M, others.V
    if count > 0:
        n, M, V = without(others, psi[start] - reference, count)
    return Others(others.a, start, others.held, n, others.S_c, M, V)


@compiled()
def released(psi: Any, others: Any, reference: float, own: float) -> Any:
    """Return the others after the dearest at the cap have left it."""
    start = run_start(psi, others.a - 1, _FIRST)
    count = others.a - start - is_mover(psi, start, reference, own)
    d = psi[start] - reference
    n, M, V = others.n, others.M, others.V
    if count > 0:
        n, M, V = joined(others, d, count)
    return Others(start, others.b, others.held - count, n, others.S_c - count * d, M, V)


@compiled()
def capped(psi: Any, others: Any, reference: float, own: float) -> Any:
    """Return the others after the cheapest of those between have come to the cap."""
    start, end = others.a, run_end(psi, others.a, others.b)
    count = end - start - is_mover(psi, start, reference, own)
    d = psi[start] - reference
    n, M, V = others.n, others.M, others.V
    if count > 0:
        n, M, V = without(others, d, count)
    return Others(end, others.b, others.held + count, n, others.S_c + count * d, M, V)
