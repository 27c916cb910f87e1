"""Turn data sets that libraries ship into public data."""

from __future__ import annotations

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
