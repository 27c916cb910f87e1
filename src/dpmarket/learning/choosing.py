r"""Choose the shape of the noise from what is declared about columns, and nothing else.

In units of a row before scaling, the noise has the mean square :math:`B R^2 / (\sum \epsilon)^2`, with B of
:func:`~dpmarket.privacy.shapes.noise_power` and R the largest length that a row can have in the norm: for K
groups of categories, each with at most one active level, and m numbers of Euclidean length at most r,

.. math:: \sqrt{r^2 + K}, \qquad r + K, \qquad \sqrt{m}\, r + K

in the Euclidean norm, in the mixed one and in the sum of absolute values. The smallest wins; the Euclidean
norm is left only for one that is clearly better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.privacy import NoiseShape, noise_power

_CLEARLY = 0.9
_ROOM = 1.0 - 2.0**-30


@dataclass(frozen=True)
class Scaling:
    """How encoded rows are scaled.

    Attributes
    ----------
    shape
        The norm in which rows are at most 1 long; None for the Euclidean norm.
    factor
        What every row is multiplied by: one divided by the largest length that a row can have, less a little,
        so that rounding decides nothing.
    """

    shape: NoiseShape | None
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
    candidates = {
        "euclidean": (euclidean, None),
        "mixed": (length + groups, m),
        "sum": (math.sqrt(m) * length + groups, 0),
    }
    noise = {
        name: math.sqrt(noise_power(n + 1, joint)) * largest for name, (largest, joint) in candidates.items()
    }
    best = min(noise, key=lambda name: noise[name])
    if best == "euclidean" or noise[best] > _CLEARLY * noise["euclidean"]:
        return Scaling(None, _ROOM / euclidean)
    largest = candidates[best][0]
    separate = np.ones(n, dtype=np.bool_) if best == "sum" else ~np.array(numbers, dtype=np.bool_)
    return Scaling(NoiseShape(separate, min(1.0, euclidean / largest)), _ROOM / largest)
