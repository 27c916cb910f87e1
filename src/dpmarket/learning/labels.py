"""Labels of classes as numbers from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput


def read_classes(declared: Sequence[Any] | None, y: Any) -> np.ndarray[Any, Any]:
    """Return the classes, of two the negative first: the declared ones, or those found in ``y``, sorted.

    Fewer than two are refused, in a message without a label.
    """
    if declared is not None:
        try:
            labels = np.asarray(declared)
        except ValueError:
            raise InvalidInput("expected classes to be two or more labels, or None.") from None
        if isinstance(declared, str | bytes) or labels.ndim != 1:
            raise InvalidInput("expected classes to be two or more labels, or None.")
        values = labels.tolist()
        if len(values) < 2 or len(set(values)) < len(values) or any(label != label for label in values):
            raise InvalidInput(f"expected classes to be two or more different labels, got {len(labels)}.")
        return labels
    try:
        check_classification_targets(y)
        found = np.unique(y)
    except (ValueError, TypeError):
        raise InvalidInput(
            "Unknown label type: expected labels of classes, all texts or all whole numbers."
        ) from None
    if len(found) < 2:
        raise InvalidInput(
            f"expected labels of two classes or more, found {len(found)} class. If others are possible, "
            "declare all: classes=(negative, positive)."
        )
    return found


def numbers_of(classes: np.ndarray[Any, Any], y: Any) -> FloatArray:
    """Return the number of every label's class, from 0, as floats.

    Raises
    ------
    InvalidInput
        If a label is none of the classes. The message has no label.
    """
    numbers = np.full(np.shape(y), -1.0)
    for number, label in enumerate(classes):
        numbers[np.broadcast_to(np.asarray(y == label), numbers.shape)] = number
    unknown = int((numbers < 0.0).sum())
    if unknown:
        raise InvalidInput(f"expected every label to be one of the classes, found {unknown} that are not.")
    return numbers
