r"""The largest exact log density ratio of each audited person, found by search, against the budgets.

White box: weights and noise rate are known, and with two coefficients per output the density of the output
is known in closed form (:mod:`dpmarket.audit.worst_case`). The search knows no bound; it maximises the ratio
over outputs and records. What it finds is attained, so that a value above the budget is a proof that the
budget is exceeded.

Rows of length at most :math:`R_1` in two dimensions are rows of length 1 with the penalty
:math:`\Lambda / R_1^2` and the noise rate :math:`\eta R_1`, in units of :math:`W R_1`.
"""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import IntArray, read_only
from dpmarket.audit.books import Books
from dpmarket.audit.findings import PrivacyFindings, audited_people
from dpmarket.audit.worst_case import worst_of_one_output, worst_of_softmax
from dpmarket.errors import InvalidInput
from dpmarket.privacy.loss import SigmoidLoss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release
from dpmarket.progress import Progress

_ROUNDING = 1e-9


def audit_privacy_exact(
    books: Books,
    promises: object,
    *,
    people: object = None,
    progress: Progress | None = None,
) -> PrivacyFindings:
    """Search, for each audited person, for neighbouring data on which the exact output gives away most.

    Parameters
    ----------
    books
        The weights and the public constants of a training without delta whose records are private.
    promises
        The budget of each person (epsilon), shape (people,), at least two people.
    people
        Positions of the people to audit; None: up to three with the smallest, middle and largest budget.
    progress
        Called with the people done and all of them.

    Returns
    -------
    PrivacyFindings
        A budget is exceeded if the ratio is above it by more than a billionth, the rounding of the density.

    Raises
    ------
    InvalidInput
        Arguments that are not these.

    Examples
    --------
    >>> from dpmarket.privacy import logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=0.1)
    >>> books = Books(release, *release.weights([0.3, 1.0, 2.0]))
    >>> findings = audit_privacy_exact(books, [0.3, 1.0, 2.0], people=[1])
    >>> findings.passed, bool(0.8 < findings.found[0] <= 1.0)
    (True, True)
    """
    if not isinstance(books, Books):
        raise InvalidInput(f"expected Books, got {type(books).__name__}.")
    release = books.release
    if not has_densities(books) or not isinstance(release, Release):
        raise InvalidInput("expected books of a training without delta whose records are private.")
    promised = checks.non_negative_vector("promises", promises)
    checks.same_length("promises", promised, "books.loss_weights", books.loss_weights)
    chosen: IntArray = audited_people(promised, people)
    found = np.zeros(chosen.size)
    for k, person in enumerate(chosen.tolist()):
        found[k] = _largest_ratio(release, books, person)
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
        details={"noise_rate": books.noise_rate, "l2": release.l2},
    )


def has_densities(books: Books) -> bool:
    """Whether a ratio of densities bounds what these books charge for."""
    return isinstance(books.release, Release) and books.release.private == "records"


def _largest_ratio(release: Release, books: Books, person: int) -> float:
    own = float(books.loss_weights[person])
    others = float(books.loss_weights.sum()) - own
    if not own > 0.0:
        return 0.0
    norm, loss = release.norm, release.loss
    length = norm.row_bound
    plane = NoiseNorm.euclidean(2)
    if not norm.is_euclidean:
        plane = NoiseNorm([True, True], min(1.0, norm.row_bound_2 / length))
    small = Release(loss, plane, release.l2 / length**2)
    rate = books.noise_rate * length
    if isinstance(loss, SigmoidLoss):
        low, high = loss.labels
        labels = (low, high) if high - low <= 1.0 else (0.0,)
        return worst_of_one_output(small, rate, own, others, labels)
    return worst_of_softmax(small, rate, own, others)
