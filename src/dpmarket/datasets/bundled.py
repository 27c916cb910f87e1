"""Turn data sets that libraries ship into public data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.datasets.bounds import standard_bounds
from dpmarket.datasets.public_data import PublicData


def breast_cancer() -> PublicData:
    """Return the Wisconsin diagnostic breast cancer set: 569 records, 30 features.

    The positive class is a benign tumour. Bounds are those of
    :func:`~dpmarket.datasets.bounds.standard_bounds` over the whole set, which is public: a few extreme
    tumours would otherwise leave most of a feature's range empty.

    Returns
    -------
    PublicData
        One record per person.

    Examples
    --------
    >>> data = breast_cancer()
    >>> len(data), data.n_features, data.classes
    (569, 30, ('malignant', 'benign'))
    """
    from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]

    bunch = load_breast_cancer()
    data = PublicData(
        features=bunch.data,
        labels=bunch.target_names[bunch.target],
        classes=("malignant", "benign"),
        low=bunch.data.min(axis=0),
        high=bunch.data.max(axis=0),
        name="breast cancer",
        source="scikit-learn, load_breast_cancer (UCI machine learning repository)",
        feature_names=tuple(str(name) for name in bunch.feature_names),
    )
    return data.with_bounds(*standard_bounds(data))


def diabetes() -> PublicData:
    """Return 442 patients with diabetes, 10 features; the disease went on faster than the median, or not.

    Returns
    -------
    PublicData
        One record per person, with bounds as for :func:`breast_cancer`.

    Examples
    --------
    >>> data = diabetes()
    >>> len(data), data.n_features, data.classes
    (442, 10, ('slower', 'faster'))
    """
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    faster = bunch.target > np.median(bunch.target)
    return _bundled(
        bunch.data,
        bunch.feature_names,
        faster,
        ("slower", "faster"),
        "diabetes",
        "load_diabetes (Efron 2004)",
    )


def odd_digits() -> PublicData:
    """Return 1797 written digits, 61 features (the pixels that are not always empty); odd, or even.

    Returns
    -------
    PublicData
        One record per image, with bounds as for :func:`breast_cancer`.

    Examples
    --------
    >>> data = odd_digits()
    >>> len(data), data.n_features, data.classes
    (1797, 61, ('even', 'odd'))
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    used = bunch.data.std(axis=0) > 0.0
    names = [name for name, kept in zip(bunch.feature_names, used, strict=True) if kept]
    odd = bunch.target % 2 == 1
    return _bundled(
        bunch.data[:, used], names, odd, ("even", "odd"), "odd digits", "load_digits (Alpaydin, Kaynak 1998)"
    )


def wine() -> PublicData:
    """Return 178 Italian wines, 13 features; of the second cultivar, or of another one.

    Returns
    -------
    PublicData
        One record per wine, with bounds as for :func:`breast_cancer`.

    Examples
    --------
    >>> data = wine()
    >>> len(data), data.n_features, data.classes
    (178, 13, ('other', 'second'))
    """
    from sklearn.datasets import load_wine

    bunch = load_wine()
    second = bunch.target == 1
    return _bundled(
        bunch.data, bunch.feature_names, second, ("other", "second"), "wine", "load_wine (Forina 1991)"
    )


def _bundled(
    features: FloatArray,
    names: Sequence[str],
    positive: BoolArray,
    classes: tuple[str, str],
    name: str,
    loader: str,
) -> PublicData:
    data = PublicData(
        features=features,
        labels=np.where(positive, classes[1], classes[0]),
        classes=classes,
        low=features.min(axis=0),
        high=features.max(axis=0),
        name=name,
        source=f"scikit-learn, {loader}",
        feature_names=tuple(str(column) for column in names),
    )
    return data.with_bounds(*standard_bounds(data))
