"""Fits over the partitions of a Dask data frame: estimators by sums over parts, statistics likewise."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import RegressorMixin  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.distributed.cluster import Parts, partitions_of
from dpmarket.distributed.samples import PartedColumn
from dpmarket.distributed.sums import PartedRecords
from dpmarket.errors import InvalidInput
from dpmarket.learning.people import Holding
from dpmarket.learning.records import Records
from dpmarket.learning.validation import validated
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.statistics.several import SeveralStatistics
from dpmarket.statistics.statistic import Statistic

Fitted = TypeVar("Fitted")
_FITTED = ("classes_", "n_features_in_", "feature_names_in_")


class _Named(NamedTuple):
    """An account that knows people by their names, for statistics that know them by their positions."""

    account: PrivacyAccount
    names: tuple[Any, ...]

    def charge(self, people: Sequence[Any], *amounts: Any, **more: Any) -> None:
        self.account.charge([self.names[place] for place in people], *amounts, **more)

    def left(self, people: Sequence[Any]) -> FloatArray:
        return self.account.left([self.names[place] for place in people])


class Owned(NamedTuple):
    """Records of one part, with an epsilon for each of its people, in the order of their first records."""

    frame: Any
    owners: IntArray
    epsilons: FloatArray
    names: list[Any] | None


def fit(
    estimator: Fitted, ddf: Any, columns: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    target: str | None = None, *, epsilons: str | None = None, people: str | None = None,
    account: PrivacyAccount | None = None,
) -> Fitted:  # fmt: skip
    """Fit an estimator or release a statistic on a Dask data frame; no record leaves its worker.

    Parameters
    ----------
    estimator
        An estimator of :mod:`dpmarket.learning`, with declared ``classes`` if it is a classifier, or a
        statistic, or several.
    ddf
        A Dask data frame. Row labels do not matter.
    columns, target
        The features, and the column that a model predicts; of a statistic its column, or the columns of a
        vector; of several statistics a mapping from each name to its column or columns.
    epsilons
        The column with the privacy budget of each record's owner; None: the estimator's own ``epsilon``.
    people
        The column with each record's owner, where somebody has several; all records of a person are in one
        partition (``dpmarket repartition``) and have the same epsilon.
    account
        Charged before noise is drawn, by people's names, or by their positions without ``people``.

    Returns
    -------
    Fitted
        The estimator or statistic itself, as its own ``fit`` leaves it; people in the order of their first
        records.

    Notes
    -----
    What is refused is refused before noise is drawn. Weights, noise and grid are those of the same records in
    memory, and the released integers are the same but for the rounding of a value that lies within the
    proved accuracy of the middle between two.
    """
    frames = partitions_of(ddf)
    limit = getattr(estimator, "rows_per_person", 1) if getattr(estimator, "delta", None) is None else 2**53
    if isinstance(estimator, SeveralStatistics):
        limit = min(one.rows_per_person for one in estimator.statistics.values())
    reserve: Any = estimator.numerical_epsilon if getattr(estimator, "delta", 0.0) is None else 0.0  # type: ignore[attr-defined]
    names = {"epsilons": epsilons, "people": people, "common": getattr(estimator, "epsilon", None)}
    owned = frames.map(_owned, **names, limit=int(limit), reserve=float(reserve))
    budgets: list[FloatArray] = owned.get(attrgetter("epsilons"))
    sizes = [own.size for own in budgets]
    if not sum(sizes):
        raise InvalidInput("expected at least one record, found none in all partitions.")
    promised, holding = np.concatenate(budgets), Holding(None, sum(sizes), None)
    if people is not None:
        every = tuple(chain.from_iterable(owned.get(attrgetter("names"))))
        if len(set(every)) < len(every):
            raise InvalidInput(
                "expected all records of a person in one partition; some people have records in two: "
                "shuffle by that column first."
            )
        holding = Holding(None, len(every), every)
    if isinstance(estimator, Statistic | SeveralStatistics):
        charged = account if account is None or people is None else _Named(account, holding.names())
        is_one = isinstance(estimator, Statistic)
        asked: Any = {"": columns} if is_one else columns
        records: Any = {
            name: PartedColumn(owned.map(_column, wanted=one), sizes) for name, one in asked.items()
        }
        estimator.fit(records[""] if is_one else records, epsilons=promised, account=charged)
        estimator.people_ = holding.people
        return estimator
    if target is None:
        raise InvalidInput("expected target: the column that the model predicts.")
    features = list(columns)
    tables = owned.map(
        lambda own: (
            _named(features, own.frame), _named(target, own.frame).to_numpy(), own.owners, own.epsilons,
        )
    )  # fmt: skip
    train_parts(estimator, tables, promised, holding, account)
    return estimator


def _owned(
    frame: Any, epsilons: str | None, people: str | None, common: float | None, limit: int, reserve: float
) -> Owned:
    """Return a partition's rows with their owners, in the order in which these first appear."""
    for name in (epsilons, people):
        if name is not None and name not in frame.columns:
            raise InvalidInput(f"expected a column {name!r}; the data frame has none.")
    if epsilons is None and common is None:
        raise InvalidInput("expected a column of epsilons, or an epsilon of the estimator; got neither.")
    given = np.full(len(frame), common) if epsilons is None else frame[epsilons].to_numpy(dtype=np.float64)
    budgets = checks.non_negative_vector("epsilons", given) if len(frame) else np.zeros(0)
    if people is None:
        return Owned(frame, np.arange(len(frame)), budgets, None)
    owners, names = frame[people].factorize()
    if (owners < 0).any():
        raise InvalidInput("expected every record to have an owner; some have none.")
    own = np.zeros(len(names))
    own[owners] = budgets
    if not np.array_equal(own[owners], budgets):
        raise InvalidInput("expected one epsilon for each person; somebody's records have different ones.")
    if len(names) and int(np.bincount(owners)[own > reserve].max(initial=0)) > limit:
        raise InvalidInput(f"expected at most rows_per_person = {limit} records of one person, found more.")
    return Owned(frame, owners, own, list(names))


def _named(columns: Any, frame: Any) -> Any:
    """Return one column of a data frame, or several, or refuse a column that is missing."""
    wanted = columns if isinstance(columns, str) else list(columns)
    missing = [
        name for name in ([wanted] if isinstance(wanted, str) else wanted) if name not in frame.columns
    ]
    if missing:
        raise InvalidInput(f"expected a column {missing[0]!r}; the data frame has none.")
    return frame[wanted]


def _column(own: Owned, wanted: Any) -> tuple[Any, IntArray]:
    return _named(wanted, own.frame).to_numpy(), own.owners


def train_parts(
    estimator: Any, tables: Parts, promised: FloatArray, holding: Holding, account: PrivacyAccount | None
) -> None:
    """Fit an estimator on parts of (features, labels, owners, epsilons of the part's people)."""
    fitted = estimator._unfitted()
    fitted._check_settings()
    if getattr(estimator, "classes", ()) is None:
        raise InvalidInput("expected declared classes: labels of many partitions are not looked at first.")
    bare = copy.copy(fitted)
    bare.noise_source = None  # workers read records, and draw nothing
    read = tables.map(_read, estimator=bare)
    found = read.get(lambda one: None if one is None else one[1:])
    loss, facts = next((one for one in found if one is not None), (None, dict[str, Any]()))
    if loss is None:
        raise InvalidInput("expected at least one record of somebody with an epsilon above 0.")
    for name, value in facts.items():
        setattr(fitted, name, value)
    filled = [k for k, one in enumerate(found) if one is not None]
    parts = Parts(read.client, [read.futures[k] for k in filled]).map(itemgetter(0))
    records = PartedRecords(parts, filled, tables.get(lambda own: int(own[3].size)), facts["n_features_in_"])
    fitted._fit_records(records, loss, promised, holding, account)
    estimator.__dict__ = fitted.__dict__


def _read(own: tuple[Any, Any, IntArray, FloatArray], estimator: Any) -> Any:
    """Check and read the records of people who take part; None if there are none."""
    x, y, owners, epsilons = own
    reserve = float(estimator.numerical_epsilon) if estimator.delta is None else 0.0
    kept = np.flatnonzero((epsilons > reserve)[owners])
    if not kept.size:
        return None
    chosen = x.iloc[kept] if hasattr(x, "iloc") else x[kept]
    fitted = copy.copy(estimator)
    x, y = validated(
        fitted, chosen, y[kept], accept_sparse="csr", y_numeric=isinstance(estimator, RegressorMixin)
    )
    loss, labels = fitted._read_labels(y)
    facts = {name: getattr(fitted, name) for name in _FITTED if hasattr(fitted, name)}
    return Records(x, labels, kept, Holding(owners, epsilons.size, None)), loss, facts
