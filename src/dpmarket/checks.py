"""Turn what a caller passed in into checked values, or refuse it with one wording.

Used at the public boundary only; inside, the types are trusted. A message says what was expected, what was
found, how many offend and where the first one is. Scalars (public parameters) are quoted; elements of arrays
never are, because they may be somebody's reported cost or record.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sized
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput

_LARGEST = sys.float_info.max


def real(name: str, value: object) -> float:
    """Return ``value`` as a float that is a number, infinities allowed."""
    return _scalar(name, value, "a number")


def finite(name: str, value: object) -> float:
    """Return ``value`` as a finite float."""
    return _within(name, value, "a finite number", -math.inf, math.inf)


def positive(name: str, value: object) -> float:
    """Return ``value`` as a finite float above 0."""
    return _within(name, value, "finite and > 0", 0.0, math.inf)


def non_negative(name: str, value: object) -> float:
    """Return ``value`` as a finite float of at least 0."""
    return _within(name, value, "finite and >= 0", -math.ulp(0.0), math.inf)


def at_least(name: str, value: object, bound: float) -> float:
    """Return ``value`` as a finite float of at least ``bound``."""
    return _within(name, value, f"finite and >= {bound!r}", math.nextafter(bound, -math.inf), math.inf)


def strictly_between(name: str, value: object, low: float, high: float) -> float:
    """Return ``value`` as a float with ``low < value < high``."""
    return _within(name, value, f"strictly between {low!r} and {high!r}", low, high)


def whole(name: str, value: object, minimum: int = 0) -> int:
    """Return ``value`` as an int of at least ``minimum``; floats, even whole ones, are refused."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidInput(
            f"expected {name} to be a whole number >= {minimum}, got {_kind(value)}."
        ) from None
    if not minimum <= number <= 2**53:
        shown = number if abs(number) < 2**64 else "one with more than 64 bits"
        raise InvalidInput(f"expected {name} to be a whole number from {minimum} to 2^53, got {shown}.")
    return number


def numbers(name: str, values: object) -> FloatArray:
    """Return ``values``, a scalar or an array of any shape, as a float64 array without NaN."""
    return _elements(name, values, "a number, not NaN", -math.inf, math.inf)


def finite_numbers(name: str, values: object) -> FloatArray:
    """Return ``values``, a scalar or an array of any shape, as finite float64."""
    return _elements(name, values, "finite", -_LARGEST, _LARGEST)


def probabilities(name: str, values: object) -> FloatArray:
    """Return ``values``, a scalar or an array of any shape, as a float64 array within [0, 1]."""
    return _elements(name, values, "between 0 and 1", 0.0, 1.0)


def non_negative_numbers(name: str, values: object) -> FloatArray:
    """Return ``values``, a scalar or an array of any shape, as finite float64 of at least 0."""
    return _elements(name, values, "finite and >= 0", 0.0, _LARGEST)


def vector(name: str, values: object) -> FloatArray:
    """Return ``values`` as a non-empty float64 vector of numbers without NaN (infinities allowed)."""
    return numbers(name, _vector(name, values))


def finite_vector(name: str, values: object) -> FloatArray:
    """Return ``values`` as a non-empty float64 vector of finite numbers."""
    return finite_numbers(name, _vector(name, values))


def non_negative_vector(name: str, values: object) -> FloatArray:
    """Return ``values`` as a non-empty float64 vector of finite numbers of at least 0."""
    return non_negative_numbers(name, _vector(name, values))


def same_length(name: str, values: Sized, other_name: str, others: Sized) -> None:
    """Refuse two sequences that do not have the same length."""
    if len(values) != len(others):
        raise InvalidInput(
            f"expected {name} and {other_name} to have the same length, got {len(values)} and {len(others)}."
        )


def _within(name: str, value: object, expected: str, low: float, high: float) -> float:
    number = _scalar(name, value, expected)
    if not low < number < high:
        raise InvalidInput(f"expected {name} to be {expected}, got {number!r}.")
    return number


def _scalar(name: str, value: object, expected: str) -> float:
    if isinstance(value, bool | np.bool_ | str | bytes | complex) or value is None:
        raise InvalidInput(f"expected {name} to be {expected}, got {_kind(value)}.")
    try:
        if np.ndim(value) != 0:  # type: ignore[arg-type]
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"expected {name} to be {expected}, got {_kind(value)}.") from None
    if math.isnan(number):
        raise InvalidInput(f"expected {name} to be {expected}, got NaN.")
    return number


def _elements(name: str, values: object, expected: str, low: float, high: float) -> FloatArray:
    array = _float_array(name, values)
    # NaN goes through min and max, so two passes that write nothing find every offender.
    if array.size and not (array.min() >= low and array.max() <= high):
        _refuse_elements(name, expected, array, ~((array >= low) & (array <= high)))
    return array


def _float_array(name: str, values: object) -> FloatArray:
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InvalidInput(f"expected {name} without missing values, got a masked array with some masked.")
    try:
        array: np.ndarray[Any, Any] = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"expected {name} to be numbers, got a ragged sequence.") from None
    if array.dtype.kind not in "fiu":
        if array.size == 0:
            return np.zeros(array.shape)
        raise InvalidInput(f"expected {name} to be numbers, got elements of type {array.dtype}.")
    return array.astype(np.float64, copy=False)


def _vector(name: str, values: object) -> FloatArray:
    array = _float_array(name, values)
    if array.ndim != 1:
        raise InvalidInput(f"expected {name} to be a vector, got an array of shape {array.shape}.")
    if array.size == 0:
        raise InvalidInput(f"expected {name} to have at least one element, got none.")
    return array


def _refuse_elements(
    name: str, expected: str, array: FloatArray, offends: np.ndarray[Any, np.dtype[np.bool_]]
) -> None:
    if array.ndim == 0:
        raise InvalidInput(f"expected {name} to be {expected}, got a value that is not.")
    bad = array[offends]
    kinds = {
        "NaN": np.isnan(bad).sum(),
        "infinite": np.isinf(bad).sum(),
        "negative": ((bad < 0.0) & ~np.isinf(bad)).sum(),
        "too large": ((bad > 0.0) & ~np.isinf(bad)).sum(),
    }
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    raise InvalidInput(
        f"expected every element of {name} to be {expected}, found {bad.size} of {array.size} "
        f"that are not ({found}), the first at position {int(offends.argmax())}."
    )


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"{value!r} ({type(value).__name__})" if len(repr(value)) <= 40 else type(value).__name__
