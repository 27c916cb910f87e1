"""Validation as scikit-learn does it, and labels of classes as numbers; no message quotes a value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import validate_data  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput

# First lines that are known to name shapes, types, counts and column names only.
_SAFE = re.compile(
    r"(Input \w+ contains (NaN|infinity)|Input contains (NaN|infinity)|Found array with|"
    r"Found input variables|"
    r"Expected 2D array, got (scalar|1D) array instead|Found array with dim|Sparse data was passed|"
    r"This \w+ estimator|\w+ requires y|.*requires y to be passed|y should be a 1d array|"
    r"The feature names should match|Unknown label type|"
    r"float\(\) argument must be|Cannot center|X has \d+ features|Expected sequence or array-like|"
    r"For a sparse output|Buffer has wrong|Only sparse matrices with 32-bit|Input y contains)"
)

_WHY_NOT = {
    "sample_weight": (
        "expected no sample_weight: how much a record counts follows from its owner's epsilon; any other "
        "weight would cost its owner more."
    ),
    "class_weight": (
        "expected no class_weight: a weight that depends on labels depends on the records, and no "
        "guarantee would hold. Move the threshold of decision_function instead: that costs no privacy."
    ),
    "random_state": (
        "expected no random_state: noise that somebody can repeat protects nobody. For tests, pass "
        "noise_source=SeededNoise(seed)."
    ),
}


def refuse_arguments(where: str, arguments: Mapping[str, Any]) -> None:
    """Refuse all of these arguments, with a reason where there is one, by a TypeError as Python would."""
    for name in arguments:
        raise TypeError(_WHY_NOT.get(name, f"{where}() got an unexpected keyword argument {name!r}"))


def without_values(error: Exception) -> Exception:
    """Return an exception that says the same, as far as that can be said without a value."""
    first = str(error).split("\n")[0]
    if first.startswith("The feature names should match"):
        return InvalidInput(str(error))  # goes on with names of columns only
    if first.startswith(("could not convert string to float", "dtype='numeric' is not compatible")):
        return InvalidInput("expected X to hold numbers only, found text.")
    if first.startswith("Complex data not supported"):
        return InvalidInput("expected real numbers. Complex data not supported.")
    if _SAFE.match(first):
        hint = " Reshape your data." if first.startswith("Expected 2D array") else ""
        kind = TypeError if isinstance(error, TypeError) else InvalidInput
        return kind(first.rstrip(":") + hint)
    return InvalidInput(
        f"expected X and y as scikit-learn accepts them; its {type(error).__name__} may quote records and is "
        "not repeated."
    )


def validated(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, with messages that quote no value of a record."""
    if any(isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array) for array in arrays):
        raise InvalidInput("expected X and y without masked elements, which would count as they are.")
    try:
        found = validate_data(estimator, *arrays, **options)
        made = (_numbers(found[0]), *found[1:]) if isinstance(found, tuple) else _numbers(found)
    except (ValueError, TypeError, OverflowError) as error:
        safe = without_values(error)
    else:
        if options.get("y_numeric") and made[1].dtype.kind not in "fiub":
            raise InvalidInput("expected y to hold numbers only, found something else.")
        return made
    raise safe from None


def _numbers(x: Any) -> Any:
    """Return features as numbers: frames with a column of another kind come out as arrays of objects."""
    return x if x.dtype.kind in "fiub" else x.astype(np.float64)


def read_classes(declared: Sequence[Any] | None, y: Any) -> np.ndarray[Any, Any]:
    """Return the classes, of two the negative first: the declared ones, or those found in ``y``, sorted."""
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
    """Return the number of every label's class, from 0, as floats; refuse others without quoting one."""
    numbers = np.full(np.shape(y), -1.0)
    for number, label in enumerate(classes):
        numbers[np.broadcast_to(np.asarray(y == label), numbers.shape)] = number
    unknown = int((numbers < 0.0).sum())
    if unknown:
        raise InvalidInput(f"expected every label to be one of the classes, found {unknown} that are not.")
    return numbers
