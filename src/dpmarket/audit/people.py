"""Turn promises into the few people whose privacy is audited."""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput


def audited_people(promises: FloatArray, people: object) -> IntArray:
    """Return positions: those given, checked; or the smallest, the middle and the largest promise above 0.

    Examples
    --------
    >>> audited_people(np.array([0.5, 0.0, 2.0, 1.0, 0.7]), None).tolist()
    [0, 4, 2]
    """
    if people is None:
        positive = np.flatnonzero(promises > 0.0)
        if not positive.size:
            raise InvalidInput("expected at least one promise above 0, found none.")
        ranked = positive[np.argsort(promises[positive], kind="stable")]
        places = dict.fromkeys([0, (ranked.size - 1) // 2, ranked.size - 1])
        return np.array([ranked[place] for place in places], dtype=np.int64)
    chosen = [checks.whole("people", person) for person in np.atleast_1d(np.asarray(people)).tolist()]
    if not chosen or max(chosen) >= promises.size or len(set(chosen)) < len(chosen):
        raise InvalidInput(
            f"expected people to be different positions below {promises.size}, at least one of them."
        )
    return np.array(chosen, dtype=np.int64)
