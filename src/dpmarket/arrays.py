"""Names for the array types of the project, and the way results are made read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Forbid writing to ``array`` and return it.

    Only for arrays that the caller has just made: the memory is not copied, so other holders of it
    lose the right to write as well.
    """
    array.flags.writeable = False
    return array


def read_only_view(array: FloatArray) -> FloatArray:
    """Return a view that cannot be written to.

    Kernels are compiled per kind of argument, and read-only is a kind: with views there is only one.
    """
    view = array.view()
    view.flags.writeable = False
    return view
