"""Turn a learner, as a black box, into a lower bound on what it really gives away of each audited person.

For each person: pairs of neighbouring data sets, many models trained on both sides, an event that tells the
sides apart (both in :mod:`dpmarket.audit.distinguishing`). One half of the models
chooses the pair and the event; the other half, trained afresh on that pair alone, bounds it. So every
audited person is one try, and the false-alarm rate is divided among them (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.audit.distinguishing import N_FEATURES, Neighbours, choose_event, epsilon_bound, neighbours_of
from dpmarket.audit.findings import PrivacyFindings, audited_people
from dpmarket.errors import InvalidInput
from dpmarket.learning import Learner
from dpmarket.progress import Progress

_CHUNK = 250
_Task = tuple[Learner, FloatArray, IntArray, FloatArray, int]


def audit_privacy_sampled(
    learner: Learner,
    promises: object,
    people: object = None,
    fits: int = 8_000,
    false_alarm: float = 1e-3,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> PrivacyFindings:
    """Bound each audited person's epsilon from below, by training on neighbouring data many times.

    Parameters
    ----------
    learner
        Anything with ``fit(X, y, epsilons)``. What it releases is read from ``coef_`` and ``intercept_`` or,
        where it has none, from the probabilities that it predicts.
    promises
        The promise to each person (epsilon), one record each, shape (people,), at least 3 people.
    people
        Positions of the people to audit; None: up to three with the smallest, middle and largest promise.
    fits
        Models trained for each audited person, at least 400. More show more: with few, only a gross breach of
        a large promise can be told from chance.
    false_alarm
        The probability, over everything audited here, of a lower bound above a promise that is kept.
    executor
        Where to train, for instance a process pool; the learner must then be picklable.
    progress
        Called with the models trained and all of them.

    Returns
    -------
    PrivacyFindings
        ``found`` are lower bounds, 0 where nothing could be shown.

    Raises
    ------
    InvalidInput
        Arguments that are not these, or a learner whose output is not finite numbers.

    Notes
    -----
    Guaranteed: If the noise of different fits is independent and every promise is kept, the probability of
    ``passed`` being false is at most ``false_alarm``.

    Examples
    --------
    A learner that adds too little noise is caught.

    >>> class Careless:
    ...     rng = np.random.default_rng(0)
    ...     def fit(self, X, y, epsilons):
    ...         self.coef_ = y @ X + self.rng.normal(scale=0.1, size=X.shape[1])
    ...         return self
    >>> findings = audit_privacy_sampled(Careless(), [0.1, 0.5, 1.0], people=[0], fits=400)
    >>> findings.passed, bool(findings.found[0] > 1.0)
    (False, True)
    """
    if not callable(getattr(learner, "fit", None)):
        raise InvalidInput(f"expected a learner with a method fit, got {type(learner).__name__}.")
    promised = checks.non_negative_vector("promises", promises)
    if promised.size < 3:
        raise InvalidInput(f"expected promises to at least 3 people, got {promised.size}.")
    chosen = audited_people(promised, people)
    total = checks.whole("fits", fits, minimum=400)
    alarm = checks.strictly_between("false_alarm", false_alarm, 0.0, 1.0)
    trained = _Trainer(learner, promised, executor, progress, total * chosen.size)
    found = [_bounded(trained, person, total, alarm / chosen.size) for person in chosen.tolist()]
    bounds = np.array([bound for bound, _ in found])
    theirs = promised[chosen]
    return PrivacyFindings(
        method="sampled",
        people=read_only(chosen),
        promises=read_only(theirs),
        found=read_only(bounds),
        broken=int((bounds > theirs).sum()),
        false_alarm=alarm,
        details={"fits_per_person": total, "events": [event for _, event in found]},
    )


class _Trainer:
    """Trains models in chunks, here or elsewhere, and counts them."""

    def __init__(
        self,
        learner: Learner,
        promises: FloatArray,
        executor: Executor | None,
        progress: Progress | None,
        total: int,
    ) -> None:
        self.learner, self.promises = learner, promises
        self._executor, self._progress, self._total, self._done = executor, progress, total, 0

    def outputs(self, x: FloatArray, y: IntArray, count: int) -> FloatArray:
        """Return what ``count`` models trained on these records released, shape (count, coefficients)."""
        sizes = [min(_CHUNK, count - start) for start in range(0, count, _CHUNK)]
        tasks: Sequence[_Task] = [(self.learner, x, y, self.promises, size) for size in sizes]
        parts: Iterable[FloatArray] = (
            map(_train, tasks) if self._executor is None else self._executor.map(_train, tasks)
        )
        kept = []
        for size, part in zip(sizes, parts, strict=True):
            kept.append(part)
            self._done += size
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)
        return np.concatenate(kept)


def _train(task: _Task) -> FloatArray:
    learner, x, y, promises, count = task
    outputs = np.array([_released(learner.fit(x, y, promises)) for _ in range(count)])
    if outputs.dtype.kind != "f" or not np.isfinite(outputs).all():
        raise InvalidInput("expected finite coefficients or probabilities from the learner, got others.")
    return outputs


def _released(model: Any) -> FloatArray:
    """Return a model's coefficients or, if it has none, its log odds at the origin and at unit rows."""
    if hasattr(model, "coef_"):
        constant = np.ravel(np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64))
        return np.concatenate([np.ravel(np.asarray(model.coef_, dtype=np.float64)), constant])
    points = np.vstack([np.eye(N_FEATURES), np.zeros(N_FEATURES), -np.eye(N_FEATURES)])
    odds = np.clip(np.asarray(model.predict_proba(points), dtype=np.float64)[:, 1], 1e-15, 1.0 - 1e-15)
    return np.log(odds) - np.log1p(-odds)


def _bounded(trained: _Trainer, person: int, fits: int, alpha: float) -> tuple[float, dict[str, Any]]:
    """Choose a pair and an event on one half of the models, bound it on the other."""
    pairs = neighbours_of(person, trained.promises.size)
    each = fits // (4 * len(pairs))
    best, chosen = -math.inf, None
    for pair in pairs:
        first = trained.outputs(pair.features, pair.labels, each)
        second = trained.outputs(pair.replaced_features, pair.replaced_labels, each)
        event, value = choose_event(first, second, _directions(pair, first.shape[1]), alpha)
        if value > best:
            best, chosen = value, (pair, event)
    assert chosen is not None
    pair, event = chosen
    samples = (fits - 2 * len(pairs) * each) // 2
    counts = (
        event.count(trained.outputs(pair.features, pair.labels, samples)),
        event.count(trained.outputs(pair.replaced_features, pair.replaced_labels, samples)),
    )
    likely, rare = counts if event.first_is_likelier else counts[::-1]
    details = {
        "neighbours": pair.name,
        "samples_of_each": samples,
        "in_event": likely,
        "in_event_of_neighbour": rare,
    }
    return epsilon_bound(likely, rare, samples, alpha), details


def _directions(pair: Neighbours, n: int) -> list[FloatArray]:
    """Return the changed record before and after, and their difference, as directions of coefficients."""
    own = pair.features[pair.person] * (2.0 * pair.labels[pair.person] - 1.0)
    other = pair.replaced_features[pair.person] * (2.0 * pair.replaced_labels[pair.person] - 1.0)
    found = []
    for direction in (own, other, own - other):
        full = np.zeros(n)
        full[: min(n, N_FEATURES)] = direction[: min(n, N_FEATURES)]
        found.append(full)
    return found
