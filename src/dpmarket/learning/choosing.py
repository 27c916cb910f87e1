r"""Choose the norm of the noise from what is declared about columns, and nothing else.

In units of a row before scaling, the noise has the mean square :math:`B R^2 / (\sum \epsilon)^2`, with B of
:class:`~dpmarket.privacy.noise_norm.NoiseNorm` and R the largest length of a row in the norm: for K
groups of categories, each with at most one active level, and m numbers of Euclidean length at most r,

.. math:: \sqrt{r^2 + K}, \qquad r + K, \qquad \sqrt{m}\, r + K

in the Euclidean norm, in the mixed one and in the sum of absolute values. The smallest wins; the Euclidean
norm is left only for one that is clearly better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmarket.privacy.noise_norm import NoiseNorm

_CLEARLY = 0.9
_ROOM = 1.0 - 2.0**-30


@dataclass(frozen=True)
class Scaling:
    """How encoded rows are scaled.

    Attributes
    ----------
    norm
        The norm in which rows are at most 1 long.
    factor
        What every row is multiplied by: one divided by the largest length that a row can have, less a little,
        so that rounding decides nothing.
    """

    norm: NoiseNorm
    factor: float


def choose_scaling(numbers: list[bool], groups: int, radius: float) -> Scaling:
    """Return the norm with the least noise for columns of these kinds, and the scale of rows in it.

    Parameters
    ----------
    numbers
        For every column whether it is a number; the others are zeros and ones.
    groups
        How many zeros and ones of a row can be one at the same time.
    radius
        The largest Euclidean length of a row's numbers.
    """
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
    return Scaling(NoiseNorm(norm.separate, norm.euclidean_bound), _ROOM / largest)
