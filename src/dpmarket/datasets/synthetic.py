"""Draw records with a linear boundary: the data of the paper's additional experiments."""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.datasets.public_data import PublicData
from dpmarket.errors import InvalidInput

_SPREAD = 3.0  # standard deviations of a feature that its public bounds cover on either side


def separable(
    records: int, features: int, rng: np.random.Generator, margin: float = 0.0, flips: float = 0.0
) -> PublicData:
    """Draw Gaussian records, labelled by a random linear boundary through the origin.

    Parameters
    ----------
    records, features
        How many, whole numbers: at least 2 records, one feature.
    rng
        Source of randomness, for the boundary, too.
    margin
        Least distance of a record from the boundary, >= 0, in standard deviations of one feature. Records
        are pushed away from the boundary along its normal, so that no record is redrawn.
    flips
        Probability, below one half, with which a label is turned round.

    Returns
    -------
    PublicData
        Classes -1 and 1, both present; bounds at three standard deviations.

    Notes
    -----
    Paper, "Additional Experiments": inputs from a zero-mean Gaussian, outputs by a linear separator through
    the origin. ``margin`` serves theorem ``thm: asymptotic``, which needs separable data.

    Examples
    --------
    >>> data = separable(100, 3, np.random.default_rng(0), margin=0.5)
    >>> len(data), data.n_features, data.classes
    (100, 3, (-1, 1))
    """
    records = checks.whole("records", records, minimum=2)
    features = checks.whole("features", features, minimum=1)
    margin = checks.non_negative("margin", margin)
    flips = checks.non_negative("flips", flips)
    if flips >= 0.5:
        raise InvalidInput(f"expected flips below 0.5, got {flips:g}.")
    normal = rng.standard_normal(features)
    normal /= np.linalg.norm(normal)
    x = rng.standard_normal((records, features))
    side = x @ normal
    signs = np.where(side > 0.0, 1, -1)
    signs[:2] = (1, -1)  # both classes, always
    along = np.where(np.arange(records) < 2, signs * np.abs(side), side)
    x += (along - side + signs * margin)[:, None] * normal
    labels = np.where(rng.random(records) < flips, -signs, signs)
    return PublicData(
        features=x,
        labels=labels,
        classes=(-1, 1),
        low=np.full(features, -_SPREAD),
        high=np.full(features, _SPREAD),
        name=f"separable {records} x {features}",
        source="dpmarket.datasets.separable",
    )
