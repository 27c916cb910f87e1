"""Find where others enter or leave as one seller's report moves: there the seller's epsilon has a kink.

The integrals ask for it only where a piece shows that it is not smooth: most of these kinks are too weak to
matter, and those that do are then the ends of two smooth pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from dpmarket.compiling import compiled
from dpmarket.payments.kernels.alone import Alone
from dpmarket.payments.kernels.brackets import Bracket, guess, narrowed
from dpmarket.payments.kernels.points import point_at
from dpmarket.payments.kernels.quadrature import NODES
from dpmarket.payments.kernels.several import Several
from dpmarket.payments.kernels.tables import value_at

# Steps after which a search for a kink stops, and how close to an end of a piece none is worth a cut.
_STEPS = 30
_CLOSE = 1e-7
MOST = 4
"""The most places at which a piece is cut at once."""
# A cutoff this close, in proportion, to a cost at an end of a piece is where the piece was cut.
_AT_CUT = 1e-12


def cuts_within(case: Any, own: float, table: Any, seen: Any, ends: tuple[float, float], cuts: Any) -> int:
    """Write the reports at which to cut a piece: where it has kinks, or in its middle; return how many.

    Parameters
    ----------
    case, own, table
        As the integrals have them.
    seen
        Cutoff and edge (:class:`~dpmarket.payments.kernels.resolve.Point`) at the piece's left end, at the
        nodes and at its right end, a row each.
    ends
        The piece's.
    cuts
        Room for ``MOST`` reports, in increasing order.
    """
    raise NotImplementedError


@overload(cuts_within, strict=False, inline="always")
def _cuts_within(case: Any, own: Any, table: Any, seen: Any, ends: Any, cuts: Any) -> Any:
    if case.instance_class in {Alone, Several}:
        return lambda case, own, table, seen, ends, cuts: cuts_at_kinks(case, own, table, seen, ends, cuts)
    return lambda case, own, table, seen, ends, cuts: cut_in_middle(ends, cuts)


@compiled()
def cut_in_middle(ends: tuple[float, float], cuts: Any) -> int:
    """Write the middle."""
    cuts[0] = 0.5 * (ends[0] + ends[1])
    return 1


@compiled()
def cuts_at_kinks(case: Any, own: float, table: Any, seen: Any, ends: tuple[float, float], cuts: Any) -> int:
    """Write where to cut a piece, by the costs that cutoff or edge pass in it.

    Where they pass costs between more neighbouring nodes than there may be cuts, it is cut where most are.
    """
    left, right = ends
    psi = case.problem.psi
    changes = np.empty((16, 2), dtype=np.int64)
    strongest = number = 0
    for column in range(2):
        before = passed(psi, seen[0, column], seen[1, column])
        for j in range(16):
            after = passed(psi, seen[j + 1, column], seen[min(j + 1, 15), column])
            changes[j, column] = after - before
            strongest = max(strongest, abs(after - before))
            number += after != before
            before = after
    count = 0
    margin = _CLOSE * (right - left)
    for j in range(16):
        for column in range(2):
            change = changes[j, column]
            if change == 0 or (number > MOST and abs(change) < strongest):
                continue
            cut = kink_between(case, own, table, seen[:, column], ends, (j, column))
            if max(left, cuts[count - 1] if count > 0 else left) + margin < cut < right - margin:
                cuts[count] = cut
                count += 1
            if count == MOST:
                return count
    return count if count > 0 else cut_in_middle(ends, cuts)


@compiled()
def kink_between(
    case: Any, own: float, table: Any, seen: Any, ends: tuple[float, float], where: Any
) -> float:
    """Return where the middle one of the costs passed between two neighbouring places is passed.

    ``where``: the number of the first of the two, and 0 for the cutoff, 1 for the edge.
    """
    left, right = ends
    j, column = where
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    low = left if j == 0 else middle + half * NODES[j - 1]
    high = right if j == 15 else middle + half * NODES[j]
    psi = case.problem.psi
    number = passed(psi, seen[j], seen[max(j, 1)]) + passed(psi, seen[j + 1], seen[min(j + 1, 15)])
    cost = psi[number // 2]
    bracket = Bracket(low, high, seen[j] - cost, seen[j + 1] - cost, 0)
    return crossing(case, own, table, bracket, (cost, column))


@compiled()
def passed(psi: Any, value: float, towards: float) -> int:
    """Return how many costs lie below a value at the end of a piece, seen from just inside it.

    Rounding decides on which side of the cost at which a piece was cut the value lies.
    """
    step = _AT_CUT * abs(value)
    if towards > value:
        value = min(value + step, towards)
    elif towards < value:
        value = max(value - step, towards)
    low, high = 0, psi.size
    while low < high:
        middle = (low + high) // 2
        if psi[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def crossing(case: Any, own: float, table: Any, bracket: Any, aim: Any) -> float:
    """Return the report within a bracket at which cutoff or edge pass a cost; NaN: not found.

    ``aim``: the cost, and 0 for the cutoff, 1 for the edge.
    """
    cost, column = aim
    if not bracket.f_low * bracket.f_high < 0.0:
        return np.nan
    z: float = bracket.low
    for _ in range(_STEPS):
        before, z = z, guess(bracket)
        point = point_at(case, own, value_at(table, z))
        f = (point.edge if column == 1 else point.cutoff) - cost
        if not abs(f) > 4e-16 * abs(cost) or abs(z - before) <= 1e-14 * abs(z):
            return z
        bracket = narrowed(bracket, z, f)
    return z
