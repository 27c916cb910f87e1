"""Turn labels of two classes into +1 and -1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput


def read_classes(declared: Sequence[Any] | None, y: Any) -> np.ndarray[Any, Any]:
    """Return the two classes, negative first: the declared ones, or those found in ``y``, sorted.

    Raises
    ------
    InvalidInput
        If there are not exactly two. The message has no label.
    """
    if declared is not None:
        try:
            labels = np.asarray(declared)
        except ValueError:
            raise InvalidInput("expected classes to be two labels, or None.") from None
        if isinstance(declared, str | bytes) or labels.ndim != 1:
            raise InvalidInput("expected classes to be two labels, or None.")
        if len(labels) != 2 or labels[0] == labels[1] or any(label != label for label in labels.tolist()):
            raise InvalidInput(f"expected classes to be two different labels, got {len(labels)}.")
        return labels
    try:
        check_classification_targets(y)
        found = np.unique(y)
    except (ValueError, TypeError):
        raise InvalidInput(
            "Unknown label type: expected labels of two classes, all texts or all whole numbers."
        ) from None
    if len(found) > 2:
        raise InvalidInput(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}."
        )
    if len(found) < 2:
        raise InvalidInput(
            f"expected labels of two classes, found {len(found)} class. If the other is possible, declare "
            "both: classes=(negative, positive)."
        )
    return found


def signs_of(classes: np.ndarray[Any, Any], y: Any) -> FloatArray:
    """Return +1.0 for the second class and -1.0 for the first.

    Raises
    ------
    InvalidInput
        If a label is neither. The message has no label.
    """
    positive = np.asarray(y == classes[1])
    known = positive | np.asarray(y == classes[0])
    if positive.shape != np.shape(y) or not bool(known.all()):
        count = int((~known).sum()) if known.shape == np.shape(y) else len(y)
        raise InvalidInput(f"expected every label to be one of the two classes, found {count} that are not.")
    return np.where(positive, 1.0, -1.0)
