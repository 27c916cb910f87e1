"""Turn a learner, as a black box, into a lower bound on what it really gives away of each audited person.

For each person: pairs of neighbouring data sets (:mod:`dpmarket.audit.neighbours`), many models trained on
both sides, a rule that guesses the side from the model (:mod:`dpmarket.audit.distinguishing`). A part of the
models chooses the pair and the rule (:mod:`dpmarket.audit.choosing`): three in eight of 16,000, less of
more, more of less. The others, trained afresh on that pair alone, each on the side that a coin says, test it.
Where outputs far out tell the sides apart, a second rule about them is tested beside the first. The
false-alarm rate is divided among people and rules (Bonferroni).
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from secrets import randbits
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.audit.books import Books, books_of
from dpmarket.audit.choosing import Look, best_look, finalists
from dpmarket.audit.distinguishing import epsilon_bound
from dpmarket.audit.findings import PrivacyFindings, audited_people
from dpmarket.audit.neighbours import N_FEATURES, Neighbours, best_lean, neighbours_of
from dpmarket.errors import InvalidInput
from dpmarket.learning import Learner
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release
from dpmarket.progress import Progress

_CHUNK = 250
_FEW = 50
_GLANCE = 500  # models a side that show a breach in a few of a hundred
_WORTH_PROCESSES = 4_000
_FEWEST, _MOST = 16_000, 128_000
_SHELTER = 1e7
_SELDOM = 0.1  # the share of the false-alarm rate for a rule about what is seldom told
_Task = tuple[Learner, FloatArray, IntArray, FloatArray, int]


def fits_for(promise: float) -> int:
    r"""Return how many models show three quarters of a promise that is just kept.

    What n models show is uncertain by about :math:`1 / \sqrt n`, whatever the promise: half of it
    needs four times as many.

    Parameters
    ----------
    promise
        The promise (epsilon) to the audited person.

    Returns
    -------
    int
        Between 16,000 and 128,000.

    Examples
    --------
    >>> fits_for(2.0), fits_for(1.0), fits_for(0.5), fits_for(0.01)
    (16000, 32000, 128000, 128000)
    """
    return int(np.clip(32_000.0 / max(promise, 1e-9) ** 2, _FEWEST, _MOST))


def promises_around(promise: float) -> FloatArray:
    """Return promises with which one person's can be audited best: the person's, first, and two others'.

    The others' are so large that their records decide the model, and nothing shelters the person's.

    Parameters
    ----------
    promise
        The promise (epsilon) to the audited person, > 0.

    Returns
    -------
    FloatArray
        Three promises; the person's position is 0.

    Raises
    ------
    InvalidInput
        For a promise that is not above 0.

    Examples
    --------
    >>> promises_around(0.5).tolist()
    [0.5, 10000000.0, 10000000.0]
    """
    return np.array([checks.positive("promise", promise), _SHELTER, _SHELTER])


def audit_privacy_sampled(
    learner: Learner,
    promises: object,
    *,
    people: object = None,
    fits: int | None = None,
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
        Models trained for each audited person, at least 400; None: as many as :func:`fits_for` says of the
        person's promise. More show more: with few, only a gross breach can be told from chance.
    false_alarm
        The probability, over everything audited here, of a lower bound above a promise that is kept.
    executor
        Where to train, for instance a process pool; the learner must then be picklable. None: by processes on
        all cores, if models say that their noise cannot be repeated (``certifiable_``); else here.
    progress
        Called with the models trained and all of them.

    Returns
    -------
    PrivacyFindings
        ``found`` are lower bounds, 0 where nothing could be shown.

    Raises
    ------
    InvalidInput
        Arguments that are not these, a learner whose output is not finite numbers, or one that draws the same
        noise in different processes.

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
    totals = [
        fits_for(float(promised[person])) if fits is None else checks.whole("fits", fits, minimum=400)
        for person in chosen
    ]
    alarm = checks.strictly_between("false_alarm", false_alarm, 0.0, 1.0)
    books, repeats = _nominal(learner, promised)
    with _processes(learner, executor, sum(totals), repeats=repeats) as place:
        trained = _Trainer(learner, promised, place, progress, sum(totals))
        found = [
            _bounded(trained, books, person, total, alarm / chosen.size)
            for person, total in zip(chosen.tolist(), totals, strict=True)
        ]
    bounds = np.array([bound for bound, _ in found])
    theirs = promised[chosen]
    return PrivacyFindings(
        method="sampled",
        people=read_only(chosen),
        promises=read_only(theirs),
        found=read_only(bounds),
        broken=int((bounds > theirs).sum()),
        false_alarm=alarm,
        details={"fits": sum(totals), "guesses": [guess for _, guess in found]},
    )


def _nominal(learner: Learner, promises: FloatArray) -> tuple[Books, bool]:
    """Return how the learner says it weighs records, or would if it were ours; whether its noise repeats."""
    pair = neighbours_of(0, promises.size)[0]
    model: Any = learner.fit(pair.features, pair.labels, promises)
    repeats = not getattr(model, "certifiable_", False)
    try:
        books = books_of(model)
    except InvalidInput:
        books = None  # books that make no sense: what they are worth is for other audits to say
    if books is not None and isinstance(books.release, Release):
        norm, loss = books.release.norm, books.release.loss
        if norm.is_euclidean and loss == logistic_loss():  # what pairs and likelihood ratios are designed for
            return books, repeats
    release = Release(logistic_loss(), NoiseNorm.euclidean(N_FEATURES), 2.0 / float(promises.sum()))
    return Books(release, *release.weights(promises)), repeats


@contextmanager
def _processes(
    learner: Learner, executor: Executor | None, fits: int, *, repeats: bool
) -> Iterator[Executor | None]:
    """Give the executor, or a pool on all cores if that is safe and worth its start, or None."""
    cores = os.cpu_count() or 1
    if executor is not None or repeats or cores == 1 or fits < _WORTH_PROCESSES:
        yield executor
        return
    try:
        pickle.dumps(learner)
    except (AttributeError, TypeError, pickle.PicklingError):
        yield None
        return
    with ProcessPoolExecutor(cores) as pool:
        yield pool


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
        kept: list[FloatArray] = []
        for size, part in zip(sizes, parts, strict=True):
            kept.append(part)
            self._done += size
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)
        _refuse_repeated(kept)
        return np.concatenate(kept)

    def both(self, pair: Neighbours, first: int, second: int) -> tuple[FloatArray, FloatArray]:
        """Return what so many models of each data set released."""
        return (
            self.outputs(pair.features, pair.labels, first),
            self.outputs(pair.replaced_features, pair.replaced_labels, second),
        )


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


def _refuse_repeated(parts: Sequence[FloatArray]) -> None:
    """Refuse models that are the same in two places: no bound holds without independent noise."""
    starts = [part[:20].tobytes() for part in parts if len(part) >= 20]
    varied = any(np.ptp(part[:20], axis=0).any() for part in parts)
    if varied and len(set(starts)) < len(starts):
        raise InvalidInput("expected noise that is drawn afresh in every process; the learner repeats it.")


def _bounded(
    trained: _Trainer, books: Books, person: int, fits: int, alpha: float
) -> tuple[float, dict[str, Any]]:
    """Choose a pair and a guess on some of the models, and test it on the others."""
    pairs = neighbours_of(person, trained.promises.size, best_lean(books, person))
    each = max(fits // (16 * len(pairs)), min(fits // (4 * len(pairs)), _FEW))
    again = fits // 16
    # With few models a second look at several pairs would leave too little to test on.
    glance = max(again // 4, min(again, _GLANCE)) if each > _FEW else 0
    losers = sum(pair.against_nothing for pair in pairs)
    tests = fits - 2 * (len(pairs) * each + again + losers * glance)
    goal = (books, tests, alpha)

    looks = [Look(pair, *trained.both(pair, each, each)) for pair in pairs]
    if glance:
        looks = [look.longer(*trained.both(look.pair, glance, glance)) for look in finalists(looks, *goal)]
    best = best_look(looks, *goal)
    if again > glance:
        best = best.longer(*trained.both(best.pair, again - glance, again - glance))
    guess, _ = best.guess(*goal)
    seldom = best.seldom()
    rules = (
        [(guess, alpha)] if seldom is None else [(guess, (1.0 - _SELDOM) * alpha), (seldom, _SELDOM * alpha)]
    )
    heads = randbits(tests).bit_count()
    tested = trained.both(best.pair, heads, tests - heads)
    counts = [rule.count(*tested) for rule, _ in rules]
    bounds = [epsilon_bound(*count, level) for count, (_, level) in zip(counts, rules, strict=True)]
    k = int(np.argmax(bounds))
    right, made = counts[k]
    return bounds[k], {"neighbours": best.pair.name, "tested": tests, "guesses": made, "right": right}
