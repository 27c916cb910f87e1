"""The privacy audit: every kind of evidence that a learner allows, by one path for every release.

*Sampled models* need nothing but ``fit``: many are trained on pairs of neighbouring data sets
(:mod:`dpmarket.audit.neighbours`). A part of them chooses the pair and a rule that guesses the side
(:mod:`dpmarket.audit.guesses`); the others, trained afresh on the side that a coin says, test the rule. The
false-alarm rate is divided among people and rules (Bonferroni).

The release and the weights that a model claims (:mod:`dpmarket.audit.claim`) are compared with the exact
density, where guarantees have no delta, and recomputed spending. Claims must not depend on the records.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import randbits
from typing import Any, ClassVar, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.audit.claim import Claim, audit_spending
from dpmarket.audit.density import Group, audit_density, has_density, log_ratio
from dpmarket.audit.findings import Audit, PrivacyFindings, audited_people, verdict
from dpmarket.audit.guesses import SHARES, Guess, Score, best_guesses, epsilon_bound
from dpmarket.audit.neighbours import N_FEATURES, Neighbours, best_lean, neighbours_of
from dpmarket.errors import InvalidInput
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release
from dpmarket.progress import Progress

SCHEMA = "dpmarket.audit.privacy/2"
_CHUNK = 250
_EACH, _AGAIN = 1_000, 4_000  # most models a side for choosing: of every pair, and more of the best
_WORTH_PROCESSES = 4_000
_FEWEST, _MOST = 16_000, 128_000
_LARGE = 1e7  # an epsilon with which a record decides the model


class Learner(Protocol):
    """All that the audit needs of a learner: ``fit`` on rows of norm at most 1, with an epsilon for each."""

    def fit(self, X: Any, y: Any, epsilons: Any) -> Any:
        """Train, and return a fitted model with ``coef_`` or ``predict_proba``."""


_Task = tuple[Learner, FloatArray, IntArray, FloatArray, int]
_Train = Callable[[FloatArray, IntArray, int], FloatArray]  # outputs of so many models of a data set


@dataclass(frozen=True, repr=False)
class PrivacyAudit(Audit):
    """What every kind of evidence shows.

    Attributes
    ----------
    sampled, density
        Lower bounds from sampled models, for the audited people; and their largest exact log density ratios,
        None without a claim or with a delta.
    spending
        Everybody's recomputed spending; None if the model makes no claim.
    claims_agree
        Whether models of neighbouring records made the same claim. If not, weights or constants depend on
        records, no guarantee follows from them, and the audit fails.
    """

    sampled: PrivacyFindings
    density: PrivacyFindings | None
    spending: PrivacyFindings | None
    claims_agree: bool = True
    title: ClassVar[str] = "Audit of privacy"

    @property
    def findings(self) -> tuple[PrivacyFindings, ...]:
        """All findings that there are."""
        parts = (self.sampled, self.density, self.spending)
        return tuple(part for part in parts if part is not None)

    @property
    def passed(self) -> bool:
        """Whether no evidence shows a budget exceeded, and no record changed the claim."""
        return self.claims_agree and all(part.passed for part in self.findings)

    def people(self) -> list[tuple[int, float, float, float | None, float | None]]:
        """Return one row per audited person: position, epsilon, lower bound, density ratio, spending."""
        people, epsilons, found = self.sampled.people, self.sampled.epsilons, self.sampled.found
        none = [None] * people.size
        exact = none if self.density is None else self.density.found.tolist()
        spent = none if self.spending is None else self.spending.found[people].tolist()
        return list(zip(people.tolist(), epsilons.tolist(), found.tolist(), exact, spent, strict=True))

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        rows = [("verdict", verdict(passed=self.passed))]
        for part in self.findings:
            rows.append((part.evidence, f"{part.broken:,} of {part.people.size:,} budgets exceeded"))
        rows.append(("models trained", f"{self.sampled.details['fits']:,}"))
        rows.append(("false-alarm rate", f"{self.sampled.false_alarm:.1e}"))
        claims = "the same for neighbours" if self.claims_agree else "not the same for neighbours"
        rows.append(("claims", "none" if self.spending is None else claims))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        parts = {part.method: part.to_dict() for part in self.findings}
        return {"schema": SCHEMA, "passed": self.passed, **parts, "claims_agree": self.claims_agree}


def audit_privacy(
    learner: Learner, epsilons: object, *, people: object = None, fits: int | None = None,
    delta: float | None = None, false_alarm: float = 1e-3, progress: Progress | None = None,
) -> PrivacyAudit:  # fmt: skip
    """Search for privacy budgets that a learner exceeds, by every kind of evidence that it allows.

    Parameters
    ----------
    learner
        Anything with ``fit(X, y, epsilons)``. What it releases is read from ``coef_`` and ``intercept_`` or,
        where it has none, from the probabilities that it predicts.
    epsilons, people
        The privacy budget of each person, one record each, shape (people,), at least 3 people; and the
        positions of the people to audit by samples and by the exact density. None: up to three with the
        smallest, middle and largest budget. Spending is recomputed for everybody. A single epsilon is audited
        where it shows most: beside two people with so large budgets that their records decide the model, and
        hide nothing of the audited person's.
    fits
        Models trained for each audited person, at least 400. None: 16,000 to 128,000, which show three
        quarters of an epsilon of 0.5 or more that is just respected. With few, only a gross violation can
        be distinguished from chance; half the epsilon needs four times as many.
    delta
        The delta of the guarantees; None: what the model states, or 0.
    false_alarm
        The probability, over all samples, of a lower bound above an epsilon that is respected.
    progress
        Called with the models trained and all of them.

    Returns
    -------
    PrivacyAudit

    Notes
    -----
    Training is done by processes on all cores if the learner can be pickled and models say that their noise
    cannot be repeated (``certifiable_``).

    Guaranteed: If the noise of different fits is independent and every guarantee holds, the probability of
    ``sampled.passed`` being false is at most ``false_alarm``.

    Examples
    --------
    A learner that adds too little noise is caught.

    >>> class Careless:
    ...     rng = np.random.default_rng(0)
    ...     def fit(self, X, y, epsilons):
    ...         self.coef_ = y @ X + self.rng.normal(scale=0.1, size=X.shape[1])
    ...         return self
    >>> audit = audit_privacy(Careless(), [0.1, 0.5, 1.0], people=[0], fits=400)
    >>> audit.passed, bool(audit.sampled.found[0] > 1.0), audit.spending is None
    (False, True, True)
    """
    if not callable(getattr(learner, "fit", None)):
        raise InvalidInput(f"expected a learner with a method fit, got {type(learner).__name__}.")
    if np.ndim(epsilons) == 0:  # type: ignore[arg-type]
        epsilons, people = np.array([checks.positive("epsilons", epsilons), _LARGE, _LARGE]), [0]
    budgets = checks.non_negative_vector("epsilons", epsilons)
    if budgets.size < 3:
        raise InvalidInput(f"expected epsilons of at least 3 people, got {budgets.size}.")
    chosen = audited_people(budgets, people)
    totals = [
        _fits_for(float(budgets[person])) if fits is None else checks.whole("fits", fits, minimum=400)
        for person in chosen
    ]
    alarm = checks.strictly_between("false_alarm", false_alarm, 0.0, 1.0)
    pair = neighbours_of(0, budgets.size)[0]
    model = learner.fit(*pair.before, budgets)
    claim = _claim_of(model)
    if delta is None:
        delta = 0.0 if claim is None else claim.delta
    small = checks.non_negative("delta", delta)
    assumed = _Assumed.of(model, claim, budgets)
    with _processes(learner, sum(totals), model) as place:
        train = _trainer(learner, budgets, place, progress, sum(totals))
        evidence = [
            _sampled_bound(train, assumed, person, total, alarm / chosen.size, small)
            for person, total in zip(chosen.tolist(), totals, strict=True)
        ]
    bounds, theirs = np.array([bound for bound, _ in evidence]), budgets[chosen]
    details = {"fits": sum(totals), "delta": small, "guesses": [guess for _, guess in evidence]}
    broken = int((bounds > theirs).sum())
    sampled = PrivacyFindings("sampled", chosen, theirs, bounds, broken, alarm, details)
    if claim is None:
        return PrivacyAudit(sampled, None, None)
    agree = all(_same_claims(learner, budgets, claim, person, assumed) for person in chosen.tolist())
    density = audit_density(claim, budgets, people=chosen) if has_density(claim) else None
    return PrivacyAudit(sampled, density, audit_spending(claim, budgets), agree)


def _claim_of(model: Any) -> Claim | None:
    """Return what a fitted model states; None if it states nothing."""
    stated = hasattr(model, "description_") and hasattr(model, "loss_weights_")
    return Claim.of(model.description_, model.loss_weights_) if stated else None


def _fits_for(epsilon: float) -> int:
    """Return how many models show three quarters of an epsilon: the error is about one over their root."""
    return int(np.clip(32_000.0 / max(epsilon, 1e-9) ** 2, _FEWEST, _MOST))


@dataclass(frozen=True)
class _Assumed:
    """The release that a learner is assumed to make, for choosing pairs and scores; no bound relies on it."""

    claim: Claim
    release: Release
    correction: float  # by which released coefficients are multiplied
    labels_only: bool

    @classmethod
    def of(cls, model: Any, claim: Claim | None, budgets: FloatArray) -> _Assumed:
        if claim is not None and isinstance(claim.release, Release):
            correction = float(getattr(model, "shrinkage_correction_", 1.0))
            return cls(claim, claim.release, correction, claim.release.private == "labels")
        release = Release(logistic_loss(), NoiseNorm.euclidean(N_FEATURES), 2.0 / float(budgets.sum()))
        return cls(Claim(release, *release.weights(budgets)), release, 1.0, labels_only=False)

    def pairs(self, person: int) -> list[Neighbours]:
        """Return the pairs of data sets between which this release guarantees privacy."""
        weights = self.claim.loss_weights
        pairs = neighbours_of(person, weights.size, best_lean(weights, self.release.l2, person))
        return [pair for pair in pairs if pair.labels_only or not self.labels_only]

    def ratio(self, pair: Neighbours, outputs: FloatArray) -> Score | None:
        """Return the log likelihood ratio, if outputs are the coefficients of such a release."""
        constant, k = self.release.norm.constant, self.release.loss.outputs
        features = k * N_FEATURES
        if outputs.shape[1] != features + k or (constant is None and outputs[:, features:].any()):
            return None

        def group(x: FloatArray, y: IntArray, people: IntArray) -> Group:
            rows = x if constant is None else np.column_stack([x, np.full(len(x), constant)])
            return Group(rows[people], y[people].astype(float), self.claim.loss_weights[people])

        own, others = np.array([pair.person]), np.delete(np.arange(len(pair.before[1])), pair.person)
        groups = group(*pair.before, own), group(*pair.after, own), group(*pair.before, others)

        def score(outputs: FloatArray) -> FloatArray:
            w = outputs[:, :features].reshape(-1, k, N_FEATURES)
            if constant is not None:
                w = np.concatenate([w, outputs[:, features:, None] / constant], axis=2)
            return log_ratio(self.release, self.claim.noise_rate, w / self.correction, *groups)

        return score


def _same_claims(learner: Learner, budgets: FloatArray, claim: Claim, person: int, assumed: _Assumed) -> bool:
    for pair in assumed.pairs(person):
        for x, y in (pair.before, pair.after):
            other = _claim_of(learner.fit(x, y, budgets))
            if other is None or other.stated != claim.stated:
                return False
    return True


def _sampled_bound(
    train: _Train, assumed: _Assumed, person: int, fits: int, alpha: float, delta: float
) -> tuple[float, dict[str, Any]]:
    """Choose a pair and its rules on some of the models, and test them on others."""
    pairs = assumed.pairs(person)
    each, again = min(fits // (8 * len(pairs)), _EACH), min(fits // 16, _AGAIN)
    tests = fits - 2 * (len(pairs) * each + again)

    def drawn(pair: Neighbours, first: int, second: int) -> tuple[FloatArray, FloatArray]:
        return train(*pair.before, first), train(*pair.after, second)

    def rules(pair: Neighbours, first: FloatArray, second: FloatArray) -> list[Guess]:
        ratio = assumed.ratio(pair, first)
        return best_guesses(pair, first, second, ratio, tests, alpha)

    looks = [(pair, *drawn(pair, each, each)) for pair in pairs]
    # What few models do far out says little about a pair.
    pair, *seen = max(looks, key=lambda look: max(rule.expected for rule in rules(*look)[:-1]))
    more = drawn(pair, again, again)
    chosen = rules(pair, *(np.concatenate(parts) for parts in zip(seen, more, strict=True)))
    heads = randbits(tests).bit_count()
    outputs = drawn(pair, heads, tests - heads)
    counts = [rule.count(*outputs) for rule in chosen]
    shares = zip(counts, SHARES[len(chosen)], strict=True)
    bounds = [epsilon_bound(*count, share * alpha, delta, tests) for count, share in shares]
    k = int(np.argmax(bounds))
    right, made = counts[k]
    return bounds[k], {"neighbours": pair.name, "tested": tests, "guesses": made, "right": right}


@contextmanager
def _processes(learner: Learner, fits: int, model: Any) -> Iterator[Executor | None]:
    """Give a pool on all cores if that is safe and worth its start, or None."""
    cores = os.cpu_count() or 1
    if not getattr(model, "certifiable_", False) or cores == 1 or fits < _WORTH_PROCESSES:
        yield None
        return
    try:
        pickle.dumps(learner)
    except (AttributeError, TypeError, pickle.PicklingError):
        yield None
        return
    with ProcessPoolExecutor(cores) as pool:
        yield pool


def _trainer(
    learner: Learner, budgets: FloatArray, executor: Executor | None, progress: Progress | None, total: int
) -> _Train:
    """Return a function that trains models in chunks, here or elsewhere, and counts them."""
    done = 0

    def train(x: FloatArray, y: IntArray, count: int) -> FloatArray:
        nonlocal done
        sizes = [min(_CHUNK, count - start) for start in range(0, count, _CHUNK)]
        tasks: Sequence[_Task] = [(learner, x, y, budgets, size) for size in sizes]
        parts: list[FloatArray] = []
        for part in (map if executor is None else executor.map)(_chunk, tasks):
            parts.append(part)
            done += len(part)
            if progress is not None:
                progress(min(done, total), total)
        # No bound holds without independent noise.
        starts = [part[:20].tobytes() for part in parts if len(part) >= 20]
        varied = any(np.ptp(part[:20], axis=0).any() for part in parts)
        if varied and len(set(starts)) < len(starts):
            raise InvalidInput("expected noise that is drawn afresh in every process; it is repeated.")
        return np.concatenate(parts)

    return train


def _chunk(task: _Task) -> FloatArray:
    learner, x, y, budgets, count = task
    outputs = np.array([_released(learner.fit(x, y, budgets)) for _ in range(count)])
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
