"""Names for the array types of the project, and the way results are made read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Forbid writing to an array that the caller has just made (it is not copied), and return it."""
    array.flags.writeable = False
    return array


def read_only_view(array: FloatArray) -> FloatArray:
    """Return a view that cannot be written to: kernels are compiled once per kind, and read-only is one."""
    view = array.view()
    view.flags.writeable = False
    return view
