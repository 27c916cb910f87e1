"""What one worker does with one partition of reports, in each of the three passes over them.

Items and results are small, and tasks may be run twice: they write a temporary file and rename it.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.ids import id_problems, tidy_ids
from dpmarket.campaign.quotes import Quotes
from dpmarket.costs import CostDistribution, distribution_from_dict, virtual_costs
from dpmarket.errors import FileProblem
from dpmarket.files import atomic_path, find, numbers_of, read_table, write_parquet_to
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger.digests import sums_of_reports
from dpmarket.ledger.manifests import hashes_and_look
from dpmarket.ledger.rounds import PAYMENT as UNITS
from dpmarket.ledger.rounds import SELLER
from dpmarket.mechanisms.outcome import minor_amounts
from dpmarket.partitions import kernels
from dpmarket.partitions.decisions import Decision
from dpmarket.partitions.ids import grouped_hashes, repeated_among, rows_with, write_hashes
from dpmarket.partitions.kept import Read, keep, kept, let_go
from dpmarket.partitions.kept import forget as forget_read
from dpmarket.partitions.lookup import Spans, marked, write_people
from dpmarket.partitions.pieces import Piece, for_a_while
from dpmarket.partitions.premiums import MOST_SINGLE
from dpmarket.partitions.sums import BucketSums, whole_sum
from dpmarket.partitions.windows import Gathered

EPSILON, PAYMENT = "epsilon", "payment"


@dataclass(frozen=True)
class Place:
    """One partition: its file and columns, the distribution of costs, and where lists and quotes go.

    ``keys``: under which reports are hashed for a round's identity; None: they are not. ``people``: number,
    parts and file, where ids are written by person; None: they are not. ``marks``: who is left out, or waits.
    ``keep``: how many bytes a worker may keep of what it has read, if it lasts from pass to pass.
    """

    source: str
    id_column: str
    cost_column: str
    distribution: str
    hashes: str
    quotes: str
    keys: tuple[int, int, int] | None = None
    people: tuple[int, int, str] | None = None
    marks: tuple[Piece, ...] = ()
    keep: int = 0


@dataclass(frozen=True, eq=False)
class Scanned:
    """What the first pass tells of a partition.

    ``problems``: sentences without a value; all else is missing if there are any. ``check``: a sum over
    all ids and costs, by which a later pass sees that the file is still the same. ``plain``: whether its ids
    stay as they are written. ``below``, ``above``: how
    many costs lie outside of the distribution. ``sums``: of the hashes of all reports. ``people``: where the
    ids are, by person.
    """

    problems: tuple[str, ...]
    rows: int = 0
    finite: BucketSums | None = None
    zeros: int = 0
    cheapest: float = np.inf
    distinct: FloatArray | None = None
    check: int = 0
    plain: bool = True
    below: int = 0
    above: int = 0
    sums: tuple[int, int] = (0, 0)
    people: Spans | None = None


@dataclass(frozen=True)
class Ask:
    """A partition, and the ranges of virtual costs in which single sellers are asked for."""

    place: Place
    ranges: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Order:
    """A partition, what the first pass told of it, and the file that holds what was decided.

    ``room``: who comes after others who are paid more than this in sum, in minor units, is not quoted, and
    listed in the file ``full``; None: everybody is quoted.
    """

    place: Place
    check: int
    plain: bool
    decision: str
    money: Money | None = None
    room: int | None = None
    full: str = ""


@dataclass(frozen=True)
class Money:
    """How payments become money: minor units to one unit, the currency's name, and the round's identity."""

    minor_units: int
    currency: str
    round: str


@dataclass(frozen=True, eq=False)
class Written:
    """What became of a partition: exact sums of promises and payments, and its digest.

    Without a row there is no file. ``on_top``: how many had an open promise, and the sums of what they are
    promised now, and paid in minor units. ``full``: how many were not quoted.
    """

    rows: int
    bought: int
    promised: int
    paid: int
    minor_units: int
    digest: str
    on_top: tuple[int, float, int] = (0, 0.0, 0)
    full: int = 0


def scan(place: Place) -> Scanned:
    """First pass: look for problems, add up virtual costs, list the hashes of the ids."""
    try:
        table, costs, problems = _read(place)
    except FileProblem as problem:
        return Scanned((str(problem),))
    read = Read(table, costs, _check(table.get_column(place.id_column), costs))
    table, plain, more = _with_good_ids(place, table)
    problems += more
    if problems:
        return Scanned(tuple(f"{place.source}: {sentence}" for sentence in problems))
    if place.keep:
        keep(place.hashes, read, place.keep)
    found = _summed(place, costs)
    if place.keys is not None:
        found = replace(found, sums=sums_of_reports(place.keys, table, place.id_column, costs))
    if place.people is not None:
        number, count, out = place.people
        people = write_people(table.get_column(place.id_column), number, count, out)
        found = replace(found, people=people)
    return replace(found, check=read.check, plain=plain)


def count_again(asked: tuple[Place, Scanned]) -> Scanned:
    """Add up the virtual costs of who stays in a partition, after others were left out; they may be all."""
    place, before = asked
    costs = costs_as_written(place)
    if costs.size == 0:
        return Scanned(())
    again = _summed(place, costs)
    return replace(again, check=before.check, plain=before.plain, sums=before.sums)


def _summed(place: Place, costs: FloatArray) -> Scanned:
    dist = distribution_of(place.distribution)
    psi = virtual_costs(costs, dist)
    finite = psi if float(psi.max()) < np.inf else psi[psi < np.inf]
    return Scanned(
        problems=(),
        rows=costs.size,
        finite=BucketSums.of(finite),
        zeros=int(np.count_nonzero(finite == 0.0)),
        cheapest=float(costs.min()),
        distinct=_few(costs),
        below=int(np.count_nonzero(costs < dist.support[0])),
        above=int(np.count_nonzero(costs > dist.support[1])),
    )


def _with_good_ids(place: Place, table: pl.DataFrame) -> tuple[pl.DataFrame, bool, list[str]]:
    """Return a table with tidy ids, whether they were, and what is wrong with them; good ones are listed."""
    hashes, plain = hashes_and_look(table, place.id_column)
    if not plain:
        table = tidy_ids(table, place.id_column)
        hashes, _ = hashes_and_look(table, place.id_column)
    problems, known = [], grouped_hashes(hashes)
    if not plain or repeated_among([known]).size:  # with different hashes no two ids can be equal
        problems = id_problems(table, place.id_column)
    if not problems:
        write_hashes(place.hashes, known)
    return table, plain, [problem.sentence(table, place.source) for problem in problems]


def costs_of(place: Place) -> FloatArray:
    """Second pass, where all sellers are few: their costs, sorted."""
    return np.sort(costs_as_written(place))


def within(ask: Ask) -> Gathered:
    """Second pass, where they are many: who lies in some ranges of virtual costs."""
    costs = costs_as_written(ask.place)
    psi = virtual_costs(costs, distribution_of(ask.place.distribution))
    rows = np.empty(psi.size + 1, dtype=np.int64)
    inside = rows[: kernels.within_ranges(psi, np.array(ask.ranges), rows)]
    values, which, counts = np.unique(psi[inside], return_inverse=True, return_counts=True)
    dearest = np.full(values.size, -np.inf)
    np.maximum.at(dearest, which, costs[inside])
    return Gathered(values, counts.astype(np.int64), dearest)


def write(order: Order) -> Written:
    """Third pass: quote everybody, and write the quotes.

    Raises
    ------
    FileProblem
        The reports have changed since the first pass.
    """
    place = order.place
    table, costs, _ = _as_first_read(place, order.check, let_go(place.hashes))
    if not order.plain:
        table = tidy_ids(table, place.id_column)
    waits = np.zeros(costs.size, dtype=bool)
    if place.marks:
        stay, waits = marked(place.marks, costs.size)
        table, costs = table[stay], costs[stay]
    quoted = decision_in(order.decision).quote(costs)
    ids, amounts = table.get_column(place.id_column), np.zeros(costs.size, dtype=np.int64)
    if order.money is not None:
        amounts = minor_amounts(quoted.payments, quoted.errors, order.money.minor_units)
    most = _with_room(order, ids, amounts)
    ids, waits, amounts = ids[:most], waits[:most], amounts[:most]
    epsilons, payments = quoted.epsilons[:most], quoted.payments[:most]
    digest = ""
    if most:
        with atomic_path(place.quotes, mode=PRIVATE) as temporary:
            try:
                write_parquet_to(temporary, _quotes_table(order, ids, epsilons, payments, amounts))
            except pl.exceptions.PolarsError:
                raise FileProblem(f"cannot write {place.quotes}: is the disk full?") from None
            with temporary.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Written(
        rows=most,
        bought=int(np.count_nonzero(epsilons)),
        promised=whole_sum(epsilons),
        paid=whole_sum(payments),
        minor_units=int(amounts.sum()),
        digest=digest,
        on_top=(int(waits.sum()), math.fsum(epsilons[waits]), int(amounts[waits].sum())),
        full=costs.size - most,
    )


def _with_room(order: Order, ids: pl.Series, amounts: IntArray) -> int:
    """Return how many are quoted before the budget is full; the others are listed."""
    if order.room is None:
        return amounts.size
    most = int(np.searchsorted(np.cumsum(amounts) - amounts, order.room, side="right"))
    if most < amounts.size:
        with for_a_while(order.full) as file:
            pl.DataFrame({SELLER: ids[most:]}).write_ipc(file)
    return most


def _quotes_table(
    order: Order, ids: pl.Series, epsilons: FloatArray, payments: FloatArray, amounts: IntArray
) -> pl.DataFrame:
    own, money = order.place.id_column, order.money
    if money is None:
        return pl.DataFrame({own: ids, EPSILON: epsilons, PAYMENT: payments})
    table = pl.DataFrame({SELLER: ids, EPSILON: epsilons, UNITS: amounts})
    return Quotes(table, money.minor_units, money.currency, money.round).as_written(own)


@dataclass(frozen=True)
class Repeated:
    """A partition, what the first pass told of it, and some numbers: hashes of ids, or rows."""

    place: Place
    check: int
    numbers: tuple[int, ...]

    def table(self) -> pl.DataFrame:
        """Return the partition as the first pass read it; refuses one that has changed."""
        return _as_first_read(self.place, self.check, kept(self.place.hashes)).table


def rows_of(asked: Repeated) -> list[tuple[int, bytes]]:
    """Return the rows of a partition whose id has one of some hashes, with digests of these ids."""
    id_column = asked.place.id_column
    return rows_with(tidy_ids(asked.table(), id_column), id_column, asked.numbers)


def sentence_of(asked: Repeated) -> str:
    """Return the sentence about rows whose id stands in another partition, too."""
    place, rows, table = asked.place, asked.numbers, asked.table()
    offends = np.zeros(table.height, dtype=bool)
    offends[list(rows)] = True
    words = "a seller id that another partition has already"
    return f"{place.source}: {find(place.id_column, words, offends)[0].sentence(table, place.source)}"


def keep_decision(path: Path, decision: Decision) -> None:
    """Write what was decided where workers find it."""
    with for_a_while(path) as file:
        pickle.dump(decision, file, protocol=5)


@lru_cache(maxsize=2)
def decision_in(path: str) -> Decision:
    """Read what this very run decided."""
    # Not a stranger's file: the driver wrote it a moment ago into a folder that only its owner may write.
    return cast(Decision, pickle.loads(Path(path).read_bytes()))  # nosec B301


def forget(folder: str) -> None:
    """Keep nothing in memory of a run whose work was in a folder."""
    forget_read(folder)
    decision_in.cache_clear()


@lru_cache(maxsize=8)
def distribution_of(text: str) -> CostDistribution:
    """Make the distribution of its plain data."""
    return distribution_from_dict(json.loads(text))


def _read(place: Place) -> tuple[pl.DataFrame, FloatArray, list[str]]:
    id_column, cost_column = place.id_column, place.cost_column
    table = read_table(place.source, [id_column, cost_column], [id_column], [cost_column])
    costs, problems = numbers_of(table, cost_column)
    problems += find(cost_column, "a cost below 0", costs < 0.0)
    return table, costs + 0.0, [problem.sentence(table, place.source) for problem in problems]


def _as_first_read(place: Place, check: int, read: Read | None) -> Read:
    """Return a partition as the first pass read it, kept or read again; refuse one that has changed since."""
    if read is not None and read.check == check:
        return read
    table = _read_again(place, [place.id_column, place.cost_column])
    costs, problems = numbers_of(table, place.cost_column)
    costs = costs + 0.0
    if problems or _check(table.get_column(place.id_column), costs) != check:
        raise _changed(place)
    return Read(table, costs, check)


def _read_again(place: Place, columns: list[str]) -> pl.DataFrame:
    """Read columns of a partition once more: what strangers could put into a file was looked for before."""
    texts = [name for name in columns if name == place.id_column]
    if place.source.lower().endswith(".parquet"):
        try:
            table = pl.read_parquet(place.source, columns=columns)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise _changed(place) from None
        if all(table.get_column(name).dtype == pl.String for name in texts):
            return table.select(columns)
    return read_table(place.source, columns, texts, [place.cost_column])


def _changed(place: Place) -> FileProblem:
    return FileProblem(f"cannot use {place.source}: it has changed while it was read; quote again.")


def costs_as_written(place: Place) -> FloatArray:
    """Return the costs of who is not left out, in the order of the file."""
    read = kept(place.hashes)
    if read is None:
        costs = numbers_of(_read_again(place, [place.cost_column]), place.cost_column)[0] + 0.0
    else:
        costs = read.costs
    return costs[marked(place.marks, costs.size)[0]] if place.marks else costs


def _check(ids: pl.Series, costs: FloatArray) -> int:
    """Return a sum that tells whether the same people report the same costs, in the same order."""
    if not costs.size:
        return 0
    # The same in every process that has the same polars, as all workers of an engine have.
    hashes = ids.hash(0).to_numpy()
    return int(kernels.mixed_sum(hashes, costs.view(np.uint64)))


def _few(costs: FloatArray) -> FloatArray | None:
    """Return the different costs, if they are few; a look at some tells when they are not."""
    if np.unique(costs[: 4 * MOST_SINGLE]).size > MOST_SINGLE:
        return None
    values = np.unique(costs)
    return values if values.size <= MOST_SINGLE else None
