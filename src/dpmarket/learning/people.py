"""People: one epsilon each, and the owner of each record, from what a caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing  # type: ignore[import-untyped]
from sklearn.utils.validation import _num_samples  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Holding:
    """The owners of records."""

    owners: IntArray | None  # position of each record's owner; None if record i is person i's
    n_people: int  # those without a record included
    people: tuple[Any, ...] | None  # names in the order of the epsilons; None if they are numbered

    def names(self) -> tuple[Any, ...]:
        """Return the people in the order of the budgets: their names, or numbers from 0."""
        return tuple(range(self.n_people)) if self.people is None else self.people

    def record_weights(self, person_weights: FloatArray) -> FloatArray:
        """Split each person's weight evenly over the person's records; the shares never exceed the whole."""
        if self.owners is None:
            return person_weights
        counts = np.bincount(self.owners, minlength=self.n_people)
        shares = person_weights / np.maximum(counts, 1)
        # Rounded down: as many shares as there are records must not add up to more than was accounted for.
        return np.asarray(np.where(counts > 1, np.nextafter(shares, 0.0), shares)[self.owners])


def read_budgets(
    epsilon: float | None, epsilons: Any, people: Any, n_records: int, rows_per_person: int,
    reserve: float = 0.0,
) -> tuple[FloatArray, Holding]:  # fmt: skip
    """Return the budgets, one per person, and who holds which record.

    Without ``people`` every record is another person's. With them, budgets are a mapping from owner to
    epsilon, or an array per person that ``people`` counts into; one as long as the records is refused: code
    that splits records into folds would split it. Records count only of people above ``reserve``.
    """
    if people is None:
        if isinstance(epsilons, Mapping):
            raise InvalidInput("expected people, each record's owner, when epsilons is a mapping; got None.")
        given = _common(epsilon, n_records) if epsilons is None else epsilons
        budgets = checks.non_negative_vector("epsilons", given)
        if len(budgets) != n_records:
            raise InvalidInput(f"expected one epsilon per record, {n_records}, got {len(budgets)}.")
        return budgets, Holding(None, n_records, None)
    owners = _owners(people, n_records)
    if isinstance(epsilons, Mapping):
        names = tuple(epsilons)
        budgets = checks.non_negative_vector("epsilons", list(epsilons.values()))
        if isinstance(people, np.ndarray) and any(str(name).endswith("\0") for name in names):
            raise InvalidInput("expected names that end in no NUL: numpy's texts cannot tell them apart.")
        holding = Holding(_positions(owners, names), len(names), names)
    elif epsilons is None:
        # Who takes part is public here: the owners themselves, in the order of their names.
        names = _distinct(owners)
        budgets = _common(epsilon, len(names))
        holding = Holding(_positions(owners, names), len(names), names)
    else:
        budgets = checks.non_negative_vector("epsilons", epsilons)
        if len(budgets) == n_records:
            raise InvalidInput(
                "expected epsilons per person when people is given, got as many as there are records. Leave "
                "people out if every record is another person's; otherwise pass a mapping from person to "
                "epsilon."
            )
        holding = Holding(_numbered(owners, len(budgets)), len(budgets), None)
    counts = np.bincount(holding.owners, minlength=holding.n_people)  # type: ignore[arg-type]
    beyond = int(((counts > rows_per_person) & (budgets > reserve)).sum())
    if beyond:
        raise InvalidInput(
            f"expected at most rows_per_person = {rows_per_person} records of one person, found {beyond} "
            "people with more. The bound must be public: do not raise it because of what these data hold."
        )
    return budgets, holding


def taking_part(
    X: Any, y: Any, budgets: FloatArray, holding: Holding, reserve: float
) -> tuple[Any, Any, IntArray]:
    """Drop records of people whose budget is at most ``reserve``, before anything of them can be refused."""
    found = budgets > reserve
    present = found if holding.owners is None else found[holding.owners]
    kept = np.flatnonzero(present)
    if not kept.size and found.any():
        raise InvalidInput("expected a record of somebody with an epsilon that is not too small, found none.")
    if kept.size in (0, present.size):
        return X, y, np.arange(present.size)
    return _safe_indexing(X, kept), _safe_indexing(y, kept), kept


def number_of_records(X: Any, y: Any) -> int | None:
    """Return how many records and labels there are; None if these numbers differ, or there are no numbers."""
    try:
        records, labels = _num_samples(X), _num_samples(y)
    except TypeError:
        return None
    return int(records) if records == labels else None


def named_columns(X: Any, epsilons: Any, people: Any) -> tuple[Any, Any, Any]:
    """Return records without the columns that ``epsilons`` and ``people`` name, and what is in these."""
    names = [name for name in (epsilons, people) if isinstance(name, str)]
    if not names:
        return X, epsilons, people
    columns = getattr(X, "columns", None)
    if columns is None or any(name not in columns for name in names):
        raise InvalidInput("expected epsilons or people by name to be columns of X, a data frame.")
    budgets = X[epsilons] if isinstance(epsilons, str) else epsilons
    owners = X[people] if isinstance(people, str) else people
    rest = X[[name for name in columns if name not in names]]
    if isinstance(epsilons, str) and people is not None:
        pairs = list(zip(_owners(owners, len(X)), budgets, strict=True))
        if len(dict(pairs)) < len(set(pairs)):
            raise InvalidInput("expected the same epsilon in all rows of a person; some differ.")
        return rest, dict(pairs), owners
    return rest, budgets, owners


def refuse_other_index(X: Any, epsilons: Any, people: Any, **more: Any) -> None:
    """Refuse budgets, owners and ``more`` with another pandas index than the records: rows go by position."""
    index = _index_of(epsilons)
    if people is not None and index is not None and not np.array_equal(index, np.arange(len(index))):
        raise InvalidInput(
            "expected epsilons per person as a mapping, got pandas with an index: pass epsilons.to_dict() if "
            "it names people, or epsilons.to_numpy() if people numbers them from 0 in this order."
        )
    own = _index_of(X)
    if own is None:
        return
    by_record = {"people": people} | more | ({"epsilons": epsilons} if people is None else {})
    for name, values in by_record.items():
        index = _index_of(values)
        if index is not None and not own.equals(index):
            raise InvalidInput(
                f"expected {name} with the index of X, got another: align it, or pass {name}.to_numpy() if "
                "the order is the same."
            )


def _index_of(values: Any) -> Any:
    return values.index if type(values).__module__.split(".")[0] == "pandas" else None


def _common(epsilon: float | None, count: int) -> FloatArray:
    if epsilon is None:
        raise InvalidInput("expected epsilons in fit, or a common epsilon in the constructor; got neither.")
    return np.full(count, checks.positive("epsilon", epsilon))


def _owners(people: Any, n_records: int) -> list[Any]:
    """Return each record's owner as it was given: an array would turn 1 and "1" into the same person."""
    shape = np.shape(people) if isinstance(people, np.ndarray) else None
    try:
        owners = people.tolist() if shape is not None else list(people)
    except TypeError:
        raise InvalidInput("expected people to be one owner per record.") from None
    if len(owners) != n_records or (shape is not None and len(shape) != 1):
        raise InvalidInput(
            f"expected people to be one owner per record, {n_records}, got shape {shape or (len(owners),)}."
        )
    for owner in owners:
        try:
            missing = owner is None or bool(owner != owner) or owner in (np.inf, -np.inf)
            hash(owner)
        except (TypeError, ValueError):
            raise InvalidInput(
                "expected people to be one owner per record, each a name or a number; some are neither."
            ) from None
        if missing:
            raise InvalidInput("expected every record to have an owner in people; some are missing.")
    return owners


def _distinct(owners: list[Any]) -> tuple[Any, ...]:
    names = dict.fromkeys(owners)
    try:
        return tuple(sorted(names))
    except TypeError:
        return tuple(names)


def _positions(owners: list[Any], names: tuple[Any, ...]) -> IntArray:
    place = {name: k for k, name in enumerate(names)}
    try:
        return np.array([place[owner] for owner in owners], dtype=np.int64)
    except KeyError:
        raise InvalidInput("expected an epsilon for every owner in people; some have none.") from None


def _numbered(owners: list[Any], count: int) -> IntArray:
    whole = all(isinstance(owner, int | np.integer) and not isinstance(owner, bool) for owner in owners)
    if not (whole and all(0 <= owner < count for owner in owners)):
        raise InvalidInput(
            f"expected people to number the {count} elements of epsilons from 0; for other names, pass a "
            "mapping."
        )
    return np.array(owners, dtype=np.int64)
