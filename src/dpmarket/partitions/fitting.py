"""Fit a model to rows in many files, divided by person: the same model as if they were one table.

One pass reads and checks all files and keeps their rows as arrays; then one pass for each step of Newton's
method, of which each partition returns the gradient and the Hessian. Noise is drawn in the driver alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.ids import id_problems, tidy_ids
from dpmarket.campaign.records import label_numbers
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import find, numbers_of, read_table
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.pairs import add_pairs
from dpmarket.learning.remote import check_fit_for_remote, fit_remotely
from dpmarket.learning.rows import Rows
from dpmarket.partitions.engines import as_engine
from dpmarket.partitions.hashed import misplaced, places_of_people
from dpmarket.partitions.looking import Runner, folder_beside, partition_paths, refuse_unusable
from dpmarket.partitions.rows import (
    Kept,
    Look,
    RowSettings,
    keep_rows,
    look,
    look_closely,
    promises_in,
    sample_rows,
    weigh,
)
from dpmarket.privacy.weights import Shares
from dpmarket.progress import StageProgress

PASSES = 8
"""As many passes are expected; a line search, which well-scaled rows do not need, would take more."""
_SAMPLE = 8192


@dataclass(frozen=True)
class PartitionFit:
    """What a fit to partitions came to.

    Attributes
    ----------
    model
        The fitted estimator, without what it would have for each person.
    records
        How many rows there were.
    passes
        How often all rows were looked at.
    """

    model: PrivateLogisticRegression
    records: int
    passes: int


def fit_partitions(
    estimator: PrivateLogisticRegression,
    paths: Sequence[str | os.PathLike[str]] | str,
    work: str | os.PathLike[str],
    *,
    features: Sequence[str],
    id_column: str = "id",
    label_column: str = "label",
    epsilon_column: str = "epsilon",
    engine: Any = None,
    progress: StageProgress = lambda what, share: None,
) -> PartitionFit:
    """Fit an estimator to the rows of many files, and release one model.

    Parameters
    ----------
    estimator
        With two declared classes; it is fitted in place.
    paths
        Files divided by person, as :func:`~dpmarket.partitions.repartition` writes them, all of them; or one
        file of any name.
    work
        A folder that does not exist, in which rows are kept while the fit lasts; it is removed in the end.
        Workers must see it and the files.
    features
        The columns of the features; rows have norm at most 1, or the estimator clips them.
    id_column, label_column, epsilon_column
        The person, the label, and what the person was promised: the same in all rows of one person.
    engine
        What runs the tasks: an engine, a Dask client, or None for threads.
    progress
        Called with what is being done.

    Returns
    -------
    PartitionFit

    Raises
    ------
    FileProblem
        ``details`` name every problem of every partition, by file, line and column, never a value. No noise
        was drawn.
    InvalidInput
        More than two classes, a delta, rows longer than 1, or nobody promised more than what is set aside.
    Infeasible
        As in memory; or the penalty is so small that weights are not in proportion to promises.
    EngineLost
        Workers died again and again.

    Notes
    -----
    Guaranteed:

    * Penalty, noise rate, grid and what releasing costs are the same floats as those of
      :meth:`~dpmarket.learning.PrivateLogisticRegression.fit` on all rows together, in any order.
    * With the same noise the released grid point is the same, too, for every partitioning, order and engine:
      all of them are proved to lie within the plan's accuracy of the exact minimiser. Only where that lies
      so close to a border between grid cells could they differ; the probability of it is below
      ``numerical_epsilon``.
    * Noise is drawn here, after everything was checked, and never by a worker.

    Examples
    --------
    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> from dpmarket.partitions import repartition
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-0.7, 0.7, 500)
    >>> rows = {"id": np.arange(500).astype(str), "x": x, "label": (x > 0).astype(int), "epsilon": 0.5}
    >>> with TemporaryDirectory() as place:
    ...     pl.DataFrame(rows).write_parquet(f"{place}/all.parquet")
    ...     parts = repartition(f"{place}/all.parquet", f"{place}/parts", 3)
    ...     model = PrivateLogisticRegression(classes=(0, 1))
    ...     done = fit_partitions(model, f"{place}/parts/*.parquet", f"{place}/work", features=["x"])
    >>> done.records, done.passes <= 8, done.model.certifiable_
    (500, True, True)
    """
    check_fit_for_remote(estimator)
    sources = partition_paths(paths) if isinstance(paths, str) else [Path(path) for path in paths]
    target = Path(work)
    refuse_unusable(sources, target)
    places = places_of_people(sources)
    runner = Runner(as_engine(engine), progress, expected=PASSES)
    with folder_beside(target) as folder:
        how = row_settings(estimator, len(sources))
        asked = [
            _Table(
                str(source.absolute()),
                place,
                str(folder.absolute() / f"rows-{k}"),
                (id_column, label_column, epsilon_column),
                tuple(features),
                tuple(_plain(label) for label in estimator.classes or ()),
                int(estimator.rows_per_person),
                how,
            )
            for k, (source, place) in enumerate(zip(sources, places, strict=True))
        ]
        kept = kept_or_refused(runner.map("reading", _keep_table, asked))
        records = PartitionRecords(runner, kept)
        fit_remotely(estimator, records, estimator.noise_shape)
    return PartitionFit(estimator, records.records, runner.passes)


def row_settings(estimator: PrivateLogisticRegression, parts: int, shape: Any = None) -> RowSettings:
    """Return what the rows of all partitions have in common."""
    return RowSettings(
        shape=estimator.noise_shape if shape is None else shape,
        clip=bool(estimator.clip),
        reserve=float(estimator.numerical_epsilon),
        sample=-(-_SAMPLE // parts),
    )


def kept_or_refused(found: Sequence[Kept | tuple[str, ...]]) -> list[Kept]:
    """Return what was kept of every partition, or refuse with all problems of all of them."""
    problems = [sentence for part in found if isinstance(part, tuple) for sentence in part]
    if problems:
        bad = sum(1 for part in found if isinstance(part, tuple))
        raise FileProblem(f"cannot use {bad} of {len(found)} partitions; nothing was written.", problems)
    return [part for part in found if isinstance(part, Kept)]


class PartitionRecords:
    """Rows that lie in partitions, looked at in passes."""

    def __init__(self, runner: Runner, kept: Sequence[Kept]) -> None:
        self._runner = runner
        self._kept = kept
        self.records = sum(part.records for part in kept)
        self.features = kept[0].features
        self.parts = len(kept)
        self._total = 1.0

    def usable_total(self, reserve: float) -> float:
        """Return the sum over people of what is left of promises, rounded once."""
        return math.fsum(value for part in self._kept for value in part.usable)

    def promises(self) -> FloatArray:
        """Return everybody's promise, in the order of the partitions."""
        return np.concatenate([promises_in(part.folder) for part in self._kept])

    def weight_total(self, shares: Shares) -> float:
        """Return the sum of people's weights, rounded once."""
        found = self._runner.aside(weigh, [(part.folder, shares) for part in self._kept])
        self._total = math.fsum(value for part in found for value in part)
        return self._total

    def sample(self, count: int, shares: Shares, *, constant: bool) -> Rows:
        """Return the rows that partitions gave for the start, with their weights."""
        some = [part.sample for part in self._kept if part.sample is not None]
        return sample_rows(some, shares, self._total, constant=constant)

    def looks(self, shares: Shares, unit: float, *, constant: bool) -> _Looks:
        """Return what looks at all rows."""
        return _Looks(self._runner, self._kept, shares, unit, constant)


@dataclass(frozen=True, eq=False)
class _Looks:
    runner: Runner
    kept: Sequence[Kept]
    shares: Shares
    unit: float
    constant: bool

    def gradient_and_hessian(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = self.runner.map("training", look, self._asked(w))
        pairs, hessian = np.zeros((2, w.size)), np.zeros((w.size, w.size))
        for part, square in found:  # in the order of the partitions
            pairs = add_pairs(pairs, part)
            hessian += square
        return pairs, hessian

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        pairs = np.zeros((2, w.size))
        for part in self.runner.map("proving", look_closely, self._asked(w, rest)):
            pairs = add_pairs(pairs, part)
        return pairs

    def _asked(self, w: FloatArray, rest: FloatArray | None = None) -> list[Look]:
        return [Look(part.folder, self.shares, self.unit, self.constant, w, rest) for part in self.kept]


@dataclass(frozen=True)
class _Table:
    source: str
    place: tuple[int, int]
    folder: str
    columns: tuple[str, str, str]
    features: tuple[str, ...]
    classes: tuple[Any, ...]
    rows_each: int
    how: RowSettings


def _keep_table(asked: _Table) -> Kept | tuple[str, ...]:
    """Read and check a partition, and keep its rows; or return what is wrong with it."""
    person, label, epsilon = asked.columns
    numbers = [*asked.features, epsilon]
    if is_empty(asked.source, asked.place):
        return _nothing(asked)
    try:
        table = read_table(asked.source, [person, label, *numbers], [person, label], numbers)
    except FileProblem as problem:
        return (str(problem),)
    table = tidy_ids(table, person)
    problems = [*id_problems(table, person, asked.rows_each), *misplaced(table, person, asked.place)]
    values = np.empty((table.height, len(asked.features)))
    for position, name in enumerate(asked.features):
        values[:, position], more = numbers_of(table, name)
        problems += more
    places, wrong = label_numbers(asked.classes, table, label, np.arange(table.height))
    promises, more = numbers_of(table, epsilon)
    problems += [*wrong, *more, *find(epsilon, "an epsilon below 0", promises < 0.0)]
    owners, promised = _people(table, person, promises)
    words = "another epsilon than an earlier row of the same person"
    problems += find(epsilon, words, promises != promised[owners]) if not more else []
    if problems:
        said = (problem.sentence(table, asked.source) for problem in problems)
        return tuple(f"{asked.source}: {sentence}" for sentence in said)
    try:
        return keep_rows(asked.folder, values, np.where(places == 1, 1.0, -1.0), owners, promised, asked.how)
    except InvalidInput as problem:
        return (f"{asked.source}: {problem}",)


def _people(table: pl.DataFrame, person: str, promises: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return each row's owner, numbered as they come, and what each owner's first row promises."""
    _, first, owners = np.unique(
        table.get_column(person).fill_null("").rank("dense").to_numpy(),
        return_index=True,
        return_inverse=True,
    )
    return owners.astype(np.int64), promises[first]


def is_empty(source: str, place: tuple[int, int]) -> bool:
    """Whether a partition by person has nobody in it, which happens where there are few people."""
    try:
        return place[1] > 1 and pl.scan_parquet(source).select(pl.len()).collect().item() == 0
    except (pl.exceptions.PolarsError, OSError):
        return False


def _nothing(asked: _Table) -> Kept:
    none = np.zeros((0, len(asked.features)))
    return keep_rows(asked.folder, none, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0), asked.how)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
