"""Turn a learner and its promises into one privacy audit: every way of looking that the learner allows.

Sampled models need nothing but ``fit``. A fitted model that opens its books (its weights and public
constants) is also held against the exact density, for up to two coefficients' worth of worst cases, and
its spending is recomputed for everybody. Both believe the books, which must therefore be the same whatever
the records are: they are compared between models of neighbouring records.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmarket import checks
from dpmarket.audit.accounting import audit_accounting
from dpmarket.audit.books import Books, books_of
from dpmarket.audit.findings import PrivacyFindings, verdict
from dpmarket.audit.neighbours import neighbours_of
from dpmarket.audit.privacy_exact import audit_privacy_exact, has_densities
from dpmarket.audit.privacy_sampled import audit_privacy_sampled
from dpmarket.display import html_table, short_repr
from dpmarket.learning import Learner
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.audit.privacy/1"


@dataclass(frozen=True)
class PrivacyAudit:
    """What every way of looking found.

    Attributes
    ----------
    sampled
        Lower bounds from sampled models, for the audited people.
    exact
        The largest exact log density ratios of the same people; None if the model keeps its books shut.
    accounting
        Everybody's spending, recomputed; None if the model keeps its books shut.
    books_agree
        Whether models of neighbouring records showed the same books. If not, weights or constants depend on
        records, no promise follows from them, and the audit fails.

    Examples
    --------
    A learner that looks at no record keeps every promise, and opens no books.

    >>> import numpy as np
    >>> class Guesses:
    ...     rng = np.random.default_rng(0)
    ...     def fit(self, X, y, epsilons):
    ...         self.coef_ = self.rng.normal(size=2)
    ...         return self
    >>> audit = audit_privacy(Guesses(), [0.5, 1.0, 4.0], people=[2], fits=400)
    >>> audit.passed, audit.sampled.broken, audit.exact is None
    (True, 0, True)
    """

    sampled: PrivacyFindings
    exact: PrivacyFindings | None
    accounting: PrivacyFindings | None
    books_agree: bool = True

    @property
    def findings(self) -> tuple[PrivacyFindings, ...]:
        """All findings that there are."""
        parts = (self.sampled, self.exact, self.accounting)
        return tuple(part for part in parts if part is not None)

    @property
    def passed(self) -> bool:
        """Whether no promise was seen broken, in any way of looking, and no record changed the books."""
        return self.books_agree and all(part.passed for part in self.findings)

    def people(self) -> list[tuple[int, float, float, float | None, float | None]]:
        """Return one row per audited person: position, promise, lower bound, exact ratio, spent."""
        rows = []
        for k, person in enumerate(self.sampled.people.tolist()):
            exact = None if self.exact is None else float(self.exact.found[k])
            spent = None if self.accounting is None else float(self.accounting.found[person])
            promise, bound = float(self.sampled.promises[k]), float(self.sampled.found[k])
            rows.append((person, promise, bound, exact, spent))
        return rows

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        rows = [("verdict", verdict(passed=self.passed))]
        for part in self.findings:
            rows.append((part.title, f"{part.broken:,} of {part.people.size:,} promises broken"))
        rows.append(("models trained", f"{self.sampled.details['fits']:,}"))
        rows.append(("false-alarm rate", f"{self.sampled.false_alarm:.1e}"))
        if self.exact is None:
            rows.append(("books", "shut: the model tells neither weights nor constants"))
        else:
            same = "the same for neighbours" if self.books_agree else "not the same for neighbours"
            rows.append(("books", same))
        return rows

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:4])

    def _repr_html_(self) -> str:
        return html_table("Audit of privacy", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per way of auditing and audited person: method, person, promise, found."""
        import polars as pl

        return pl.concat([findings.to_frame() for findings in self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        parts = {"sampled": self.sampled, "exact": self.exact, "accounting": self.accounting}
        plain = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        return {"schema": SCHEMA, "passed": self.passed, **plain, "books_agree": self.books_agree}


def audit_privacy(
    learner: Learner,
    promises: object,
    *,
    people: object = None,
    fits: int | None = None,
    false_alarm: float = 1e-3,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> PrivacyAudit:
    """Audit a learner's promises in every way that it allows.

    Parameters
    ----------
    learner
        Anything with ``fit(X, y, epsilons)``; see
        :func:`~dpmarket.audit.privacy_sampled.audit_privacy_sampled`. Learners that need two classes to occur
        see both.
    promises
        The promise to each person (epsilon), one record each, shape (people,), at least 3 people.
    people
        Positions of the people to audit by sampling and by the exact density; None: up to three. Spending is
        recomputed for everybody.
    fits
        Models trained for each audited person; None: as many as the promise needs, 16,000 to 128,000.
    false_alarm
        The probability that the sampled part calls a kept promise broken.
    executor
        Where to train; None: on all cores, if noise cannot be repeated there.
    progress
        Called with the models trained and all of them.

    Returns
    -------
    PrivacyAudit

    Raises
    ------
    InvalidInput
        Arguments that are not these, or a learner whose output is not finite numbers.

    Examples
    --------
    >>> from dpmarket.learning import PrivateLogisticRegression
    >>> learner = PrivateLogisticRegression(classes=(0, 1), fit_intercept=False)
    >>> audit = audit_privacy(learner, [0.5, 1.0, 4.0], people=[2], fits=400)
    >>> audit.passed, bool(audit.exact.found[0] <= 4.0), audit.accounting.broken
    (True, True, 0)
    """
    promised = checks.non_negative_vector("promises", promises)
    sampled = audit_privacy_sampled(
        learner,
        promised,
        people=people,
        fits=fits,
        false_alarm=false_alarm,
        executor=executor,
        progress=progress,
    )
    first = neighbours_of(0, promised.size)[0]
    model = learner.fit(first.features, first.labels, promised)
    books = books_of(model)
    if books is None:
        return PrivacyAudit(sampled, None, None)
    shown, agree = _shown(books), True  # before the next fit: a learner may return itself
    for person in sampled.people.tolist():
        for pair in neighbours_of(person, promised.size):
            before = learner.fit(pair.features, pair.labels, promised)
            agree = agree and _shown(books_of(before)) == shown
            after = learner.fit(pair.replaced_features, pair.replaced_labels, promised)
            agree = agree and _shown(books_of(after)) == shown
    # No ratio of densities is bounded where guarantees have a delta.
    exact = audit_privacy_exact(books, promised, people=sampled.people) if has_densities(books) else None
    return PrivacyAudit(sampled, exact, audit_accounting(books, promised), agree)


def _shown(books: Books | None) -> tuple[object, ...] | None:
    """Return what books say, to be compared: no two records may differ in it."""
    if books is None:
        return None
    return (
        books.release,
        books.loss_weights.tobytes(),
        books.noise_rate,
        books.numerical_epsilon,
        books.plan,
        books.weight_total,
    )
