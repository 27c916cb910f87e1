"""Public data sets of scikit-learn, with :func:`~dpmarket.datasets.standard_bounds` over the whole set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.datasets.public_data import PublicData, standard_bounds


def breast_cancer() -> PublicData:
    """Return the Wisconsin diagnostic breast cancer set: 569 records, 30 features; benign, or malignant.

    Examples
    --------
    >>> data = breast_cancer()
    >>> len(data), data.n_features, data.classes
    (569, 30, ('malignant', 'benign'))
    """
    loader = "load_breast_cancer (UCI machine learning repository)"
    return _bundled("breast cancer", loader, ("malignant", "benign"), lambda target: target == 1)


def diabetes() -> PublicData:
    """Return 442 patients with diabetes, 10 features; the disease went on faster than the median, or not."""
    loader, classes = "load_diabetes (Efron 2004)", ("slower", "faster")
    return _bundled("diabetes", loader, classes, lambda target: target > np.median(target), scaled=False)


def odd_digits() -> PublicData:
    """Return 1797 written digits, 61 features (the pixels that are not always empty); odd, or even."""
    loader = "load_digits (Alpaydin, Kaynak 1998)"
    return _bundled("odd digits", loader, ("even", "odd"), lambda target: target % 2 == 1)


def wine() -> PublicData:
    """Return 178 Italian wines, 13 features; of the second cultivar, or of another one."""
    return _bundled("wine", "load_wine (Forina 1991)", ("other", "second"), lambda target: target == 1)


def _bundled(
    name: str, loader: str, classes: tuple[str, str], positive: Callable[[FloatArray], Any], **settings: bool
) -> PublicData:
    from sklearn import datasets  # type: ignore[import-untyped]

    bunch = getattr(datasets, loader.split()[0])(**settings)
    used = bunch.data.std(axis=0) > 0.0
    features = bunch.data[:, used]
    data = PublicData(
        features=features,
        labels=np.where(positive(bunch.target), classes[1], classes[0]),
        classes=classes,
        low=features.min(axis=0),
        high=features.max(axis=0),
        name=name,
        source=f"scikit-learn, {loader}",
        feature_names=tuple(map(str, np.asarray(bunch.feature_names)[used])),
    )
    low, high = standard_bounds(data)
    return replace(data, low=low, high=high)
