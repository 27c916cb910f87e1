"""Turn records, labels and promises as a caller gives them into checked rows of norm at most 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.messages import without_values
from dpmarket.learning.row_bounds import refuse_long_rows
from dpmarket.learning.rows import Rows


def checked_rows(X: Any) -> FloatArray:
    """Return features as a dense float64 matrix of finite numbers.

    Raises
    ------
    InvalidInput
        For anything else; the message has no value of a record.
    """
    try:
        return np.ascontiguousarray(check_array(X, dtype=np.float64))
    except (ValueError, TypeError, OverflowError) as error:
        safe = without_values(error)
    raise safe from None


def checked_records(X: Any, y: Any, promised: FloatArray) -> FloatArray:
    """Return features as :func:`checked_rows` does, of as many records as there are labels and promises.

    Raises
    ------
    InvalidInput
        Also if a record with a promise above 0 has a row longer than 1. Whether it would take part later does
        not matter, so that no random choice shows in a refusal.
    """
    x = checked_rows(X)
    if np.ndim(y) != 1 or len(y) != len(x) or len(promised) != len(x):
        raise InvalidInput(
            f"expected one label and one epsilon per record, {len(x)}, got shape {np.shape(y)} and "
            f"{len(promised)}."
        )
    refuse_long_rows(Rows(x, np.ones(len(x)), promised))
    return x
