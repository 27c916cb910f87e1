"""Turn weights into the largest exact log density ratio of each audited person, and hold it against promises.

White box: the weights and the noise rate are known, and for one and two coefficients the density of the
output is known in closed form (:mod:`dpmarket.privacy.exact_density`). The search of
:mod:`dpmarket.privacy.worst_case`, for shaped noise of :mod:`dpmarket.privacy.shaped_worst_case`, knows no
bound; it maximises the ratio over outputs and records. What it finds is attained, so that a value above the
promise is a proof that the promise is broken.
"""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import IntArray, read_only
from dpmarket.audit.findings import PrivacyFindings, audited_people
from dpmarket.errors import InvalidInput
from dpmarket.privacy import (
    SoftmaxWeights,
    Weights,
    find_shaped_worst_case,
    find_softmax_worst_case,
    find_worst_case,
)
from dpmarket.progress import Progress

_ROUNDING = 1e-9


def audit_privacy_exact(
    weights: Weights | SoftmaxWeights,
    promises: object,
    *,
    people: object = None,
    n_features: int = 2,
    progress: Progress | None = None,
) -> PrivacyFindings:
    """Search, for each audited person, for neighbouring data on which the exact output gives away most.

    Parameters
    ----------
    weights
        The weights and the public constants of the training, of two classes or of more, with Euclidean noise
        or, of two classes, with shaped noise, whose independent columns show most.
    promises
        The promise to each person (epsilon), shape (people,), at least two people.
    people
        Positions of the people to audit; None: up to three with the smallest, middle and largest promise.
    n_features
        1 or 2, coefficients in all. Two are enough to come close to the bound. With more than two classes 2,
        of each class; with shaped noise 2, directions on as many columns as rows of both bounds need.
    progress
        Called with the people done and all of them.

    Returns
    -------
    PrivacyFindings
        A promise is broken if the ratio exceeds it by more than a billionth, the rounding of the density.

    Raises
    ------
    InvalidInput
        Arguments that are not these.

    Examples
    --------
    >>> from dpmarket.privacy import weights_for
    >>> findings = audit_privacy_exact(weights_for([0.3, 1.0, 2.0], l2=0.1), [0.3, 1.0, 2.0], people=[1])
    >>> findings.passed, bool(0.8 < findings.found[0] <= 1.0)
    (True, True)
    """
    if not isinstance(weights, Weights | SoftmaxWeights):
        raise InvalidInput(f"expected Weights or SoftmaxWeights, got {type(weights).__name__}.")
    promised = checks.non_negative_vector("promises", promises)
    checks.same_length("promises", promised, "weights.loss_weights", weights.loss_weights)
    chosen: IntArray = audited_people(promised, people)
    found = np.zeros(chosen.size)
    for k, person in enumerate(chosen.tolist()):
        found[k] = _largest_ratio(weights, person, n_features)
        if progress is not None:
            progress(k + 1, chosen.size)
    theirs = promised[chosen]
    return PrivacyFindings(
        method="exact",
        people=read_only(chosen),
        promises=read_only(theirs),
        found=read_only(found),
        broken=int((found > theirs + _ROUNDING * (1.0 + theirs)).sum()),
        false_alarm=0.0,
        details={"n_features": n_features, "noise_rate": weights.noise_rate, "l2": weights.l2},
    )


def _largest_ratio(weights: Weights | SoftmaxWeights, person: int, n_features: int) -> float:
    if isinstance(weights, SoftmaxWeights):
        if n_features != 2:
            raise InvalidInput(f"expected n_features = 2 with more than two classes, got {n_features!r}.")
        return find_softmax_worst_case(
            weights.loss_weights,
            person,
            weights.noise_rate,
            weights.l2,
            weights.n_classes,
            weights.row_bound,
        ).log_ratio
    if weights.euclidean_bound is not None:
        if n_features != 2:
            raise InvalidInput(f"expected n_features = 2 with shaped noise, got {n_features!r}.")
        return find_shaped_worst_case(
            weights.loss_weights,
            person,
            weights.noise_rate,
            weights.l2,
            weights.row_bound,
            weights.euclidean_bound,
            rows_per_person=weights.rows_per_person,
        ).log_ratio
    return find_worst_case(
        weights.loss_weights,
        person,
        weights.noise_rate,
        weights.l2,
        weights.row_bound,
        weights.rows_per_person,
        n_features=n_features,
    ).log_ratio
