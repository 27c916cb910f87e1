"""Lengths of encoded rows: the noise norm that suits declared columns, and the scale of rows in it.

A function of public declarations alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dpmarket.learning.columns import Column
from dpmarket.privacy.noise_norm import NoiseNorm

_CLEARLY = 0.9
_ROOM = 1.0 - 2.0**-30


@dataclass(frozen=True)
class RowScale:
    """The norm in which encoded rows are at most 1 long, and what every row is multiplied by."""

    norm: NoiseNorm
    factor: float  # 1 / the largest length that a row can have, less a little: rounding decides nothing


def row_scale(columns: Mapping[str, Column], radius: float) -> RowScale:
    r"""Return the norm with the least noise for these columns, and the scale of rows in it.

    In units of a row before scaling, the noise has the mean square :math:`B R^2 / (\sum \epsilon)^2`, with B
    of :class:`~dpmarket.privacy.noise_norm.NoiseNorm` and R the largest length of a row in the norm: for K
    groups of categories, each with at most one active level, and m numbers of Euclidean length at most r,
    :math:`\sqrt{r^2 + K}` in the Euclidean norm, :math:`r + K` in the mixed one and :math:`\sqrt{m}\, r + K`
    in the sum of absolute values. The Euclidean norm is left only for one that is clearly better.
    """
    numbers = [number for _, number in features_of(columns)]
    groups = sum(bool(column.levels) for column in columns.values())
    m, n = sum(numbers), len(numbers)
    length = min(radius, math.sqrt(m))  # what numbers in [-1, 1] can reach at most
    euclidean = math.sqrt(length * length + groups)
    levels = [not number for number in numbers]
    best = NoiseNorm.euclidean(n, constant=1.0), euclidean
    least = _CLEARLY * math.sqrt(best[0].power) * euclidean
    for separate, largest in ((levels, length + groups), ([True] * n, math.sqrt(m) * length + groups)):
        norm = NoiseNorm(separate, min(1.0, euclidean / largest), constant=1.0)
        if any(separate) and math.sqrt(norm.power) * largest < least:
            best, least = (norm, largest), math.sqrt(norm.power) * largest
    norm, largest = best
    return RowScale(NoiseNorm(norm.separate, norm.euclidean_bound), _ROOM / largest)


def features_of(columns: Mapping[str, Column]) -> list[tuple[str, bool]]:
    """Return the names of the encoded columns, and whether each is a number."""
    found = []
    for name, column in columns.items():
        if column.has_number:
            found.append((name, True))
        found.extend((f"{name}={level}", False) for level in column.levels)
    return found
