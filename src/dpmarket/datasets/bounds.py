"""Turn public records into bounds for other people's records of the same kind."""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.datasets.public_data import PublicData
from dpmarket.errors import InvalidInput

SPREAD = 2.0  # standard deviations on either side; benchmarks/penalty.py compares others


def standard_bounds(pilot: PublicData, spread: float = SPREAD) -> tuple[FloatArray, FloatArray]:
    """Return mean -+ ``spread`` standard deviations of every feature of a public pilot.

    Scaling with these bounds centres features and gives them a common spread, which makes better use of a
    row's length than the range from the smallest to the largest value does.

    Parameters
    ----------
    pilot
        Public records, none of which is trained on privately. A few hundred do.
    spread
        How many standard deviations, > 0. Values beyond are cut off.

    Returns
    -------
    low, high
        Shape (features,). A feature that is constant in the pilot gets bounds around that constant, as far
        apart as its declared bounds ask for: a category that is absent from the pilot is mapped to 0, not to
        the edge.

    Raises
    ------
    InvalidInput
        For records that are not public, and a spread that is not above 0.

    Examples
    --------
    >>> pilot = PublicData([[0.0], [2.0]], [0, 1], classes=(0, 1), low=[0.0], high=[9.0],
    ...                    name="two", source="made up")
    >>> low, high = standard_bounds(pilot, spread=3.0)
    >>> low.tolist(), high.tolist()
    ([-2.0], [4.0])
    """
    if not isinstance(pilot, PublicData):
        raise InvalidInput(f"expected PublicData, got {type(pilot).__name__}: bounds read from records leak.")
    spread = checks.positive("spread", spread)
    centre, scale = pilot.features.mean(axis=0), pilot.features.std(axis=0)
    low, high = centre - spread * scale, centre + spread * scale
    usable = (low < high) & np.isfinite(high - low)
    reach = np.maximum(np.abs(pilot.high - centre), np.abs(centre - pilot.low))
    return (
        read_only(np.where(usable, low, centre - reach)),
        read_only(np.where(usable, high, centre + reach)),
    )
