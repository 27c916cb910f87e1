"""Quote all partitions of reports as one market: the same quotes as if they were one file.

Three passes: look for problems and add up; gather the sellers who decide; write. Nothing appears before all
partitions are written.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.files import to_json
from dpmarket.files.atomic import PRIVATE
from dpmarket.mechanisms import OfflineMechanism, OnlineMechanism
from dpmarket.partitions.deciding import Census, Market, Ranges, decide_from_all, decide_from_windows
from dpmarket.partitions.looking import (
    SCRATCH,
    Looked,
    Runner,
    looking_at,
    partition_paths,
    put_in_place,
)
from dpmarket.partitions.passes import (
    Ask,
    Money,
    Order,
    Place,
    Scanned,
    Written,
    costs_of,
    keep_decision,
    within,
    write,
)
from dpmarket.partitions.path import TooClose
from dpmarket.partitions.premiums import MOST_SINGLE
from dpmarket.partitions.sums import merged, total_of
from dpmarket.partitions.windows import Gathered
from dpmarket.progress import StageProgress

MOST_GATHERED = 1 << 21
"""Up to so many sellers are gathered one by one where windows do not decide, whatever memory is free."""
_BYTES = 100  # that deciding as in memory takes for each seller
_FEW = 1 << 15
SCHEMA = "dpmarket.partitions/1"
Mechanism = OfflineMechanism | OnlineMechanism


@dataclass(frozen=True)
class PartitionQuotes:
    """What quoting of partitions came to. Confidential as quotes are.

    Attributes
    ----------
    folder
        With one file of quotes for each partition, ``manifest.json``, and lists of hashes by which a seller's
        partition is found.
    sellers, n_bought, n_capped
        How many reported, how many have a promise, how many are at the weight cap.
    total_promise, cutoff
        Of the best allocation, the same floats as in memory. These and ``n_capped`` are None for quotes by a
        curve, and for those that are given once more.
    promised, total_payment
        Sums of promises and of payments, each rounded once.
    minor_units
        Payments in minor units; 0 where no money was given.
    gathered
        How many sellers the driver looked at one by one.
    passes
        How often all reports were read.
    names, rows, digests
        Of each file of quotes: its name, how many sellers it has, the SHA-256 of its bytes.
    on_top
        Of sellers who had an open promise in the campaign: how many they are, the sum of what they are
        promised on top, and what they are paid for it in minor units.
    """

    folder: Path
    sellers: int
    n_bought: int
    n_capped: int | None
    total_promise: float | None
    cutoff: float | None
    promised: float
    total_payment: float
    minor_units: int
    gathered: int
    passes: int
    names: tuple[str, ...]
    rows: tuple[int, ...]
    digests: tuple[str, ...]
    on_top: tuple[int, float, int] = (0, 0.0, 0)


def quote_partitions(
    paths: Sequence[str | os.PathLike[str]] | str,
    out: str | os.PathLike[str],
    mechanism: OfflineMechanism,
    *,
    engine: Any = None,
    id_column: str = "id",
    cost_column: str = "cost",
    most_gathered: int | None = None,
    progress: StageProgress = lambda what, share: None,
) -> PartitionQuotes:
    """Quote the sellers of many files as one market.

    Parameters
    ----------
    paths
        .csv or .parquet files, or a pattern for their names. Every seller stands in one of them, once.
    out
        A folder that does not exist yet. Workers must see the files and this folder's parent.
    mechanism
        An :class:`~dpmarket.mechanisms.OfflineMechanism`.
    engine
        What runs the tasks: an engine, a Dask client, or None for threads.
    id_column, cost_column
        Of the reports.
    most_gathered
        The driver takes exact sums of all and the few sellers around the cutoff and where the weight cap
        begins to hold. Where these do not decide, it takes everybody's cost, up to so many, and decides as in
        memory. None: two million, or as many as half of the free memory holds if that is more.
    progress
        Called with what is being done.

    Returns
    -------
    PartitionQuotes
        Files have the columns of ids, ``epsilon`` and ``payment``, in the order of the reports.

    Raises
    ------
    FileProblem
        ``details`` name every problem of every partition, by file, line and column, never a value. Nothing
        was written.
    TooClose
        More sellers than ``most_gathered`` in a market that windows do not decide: one whose best
        allocations are several and almost equal, or a limit such as a concentration of 0.
    Infeasible, NotConverged
        As :meth:`~dpmarket.mechanisms.OfflineMechanism.run`.
    EngineLost
        Workers died again and again.

    Notes
    -----
    However sellers are divided into partitions, ordered in them, and on whatever engine: quotes are the same
    to the last bit. Total promise and counts are the same as
    :func:`~dpmarket.allocation.allocate` gives; cutoff and promises may differ in the last bit. Payments are
    those of memory to 1e-12 where many are bought from, and always to the tolerance of both, 2e-10.

    A worker keeps what it has read from pass to pass, in memory alone, as much as its engine says: 512 MB in
    threads, 64 MB on a cluster.

    Examples
    --------
    >>> import polars as pl
    >>> from tempfile import TemporaryDirectory
    >>> from dpmarket import BuyerObjective, Uniform
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> with TemporaryDirectory() as place:
    ...     for name, costs in (("north", [1.5, 2.0]), ("south", [4.9])):
    ...         table = pl.DataFrame({"id": [f"{name}-{k}" for k in range(len(costs))], "cost": costs})
    ...         table.write_parquet(f"{place}/{name}.parquet")
    ...     quotes = quote_partitions(f"{place}/*.parquet", f"{place}/quotes", mechanism)
    ...     north = pl.read_parquet(f"{place}/quotes/north.parquet")
    >>> quotes.sellers, quotes.total_promise == mechanism.run([1.5, 2.0, 4.9]).total_promise
    (3, True)
    >>> north.columns
    ['id', 'epsilon', 'payment']
    """
    if not isinstance(mechanism, OfflineMechanism):
        raise InvalidInput("expected an OfflineMechanism: others decide seller by seller, or need no market.")
    sources = sources_of(paths)
    if most_gathered is not None:
        checks.at_least("most_gathered", most_gathered, 0)
    columns = id_column, cost_column
    with looking_at(
        sources, out, mechanism.dist, engine=engine, columns=columns, progress=progress
    ) as looked:
        result = write_quotes(looked, mechanism, None, most_gathered)
        put_in_place(looked.work, looked.target)
    return result


def sources_of(paths: Sequence[str | os.PathLike[str]] | str) -> list[Path]:
    """Return the files that are named, one by one or by a pattern."""
    return partition_paths(paths) if isinstance(paths, str) else [Path(path) for path in paths]


def write_quotes(
    looked: Looked,
    mechanism: OfflineMechanism,
    money: Money | None = None,
    most_gathered: int | None = None,
) -> PartitionQuotes:
    """Decide, and write all quotes into the folder of the work, which then holds nothing else.

    Parameters
    ----------
    looked
        The partitions, all of which have sellers that stay.
    mechanism, most_gathered
        As for :func:`quote_partitions`.
    money
        How payments become money: quotes are then written as ``dpmarket quote`` writes them, payments in
        minor units rounded up.
    """
    runner, places, scanned = looked.runner, looked.places, looked.scanned
    market = _decide(runner, places, scanned, mechanism, most_gathered)
    decision = looked.work / "decision"
    keep_decision(decision, market.decision)
    orders = [
        Order(place, part.check, part.plain, str(decision.absolute()), money)
        for place, part in zip(places, scanned, strict=True)
    ]
    written = runner.map("writing", write, orders)
    decision.unlink()
    shutil.rmtree(looked.work / SCRATCH, ignore_errors=True)
    result = replace(
        result_of(looked, [Path(place.quotes).name for place in places], written),
        n_capped=market.n_capped,
        total_promise=market.total_promise,
        cutoff=market.cutoff,
        gathered=market.gathered,
    )
    write_manifest(looked.work, result, looked.id_column, mechanism)
    return result


def _decide(
    runner: Runner,
    places: Sequence[Place],
    scanned: Sequence[Scanned],
    mechanism: OfflineMechanism,
    most_gathered: int | None,
) -> Market:
    """Decide by windows, or by everybody where they are few, or where windows do not decide."""
    sellers = sum(part.rows for part in scanned)
    if most_gathered is None:
        most_gathered = max(MOST_GATHERED, free_memory() // (2 * _BYTES))
    if sellers > min(_FEW, most_gathered):
        try:
            return _decide_by_windows(runner, places, scanned, mechanism)
        except TooClose:
            if sellers > most_gathered:
                raise
    costs = np.sort(np.concatenate(runner.map("gathering", costs_of, places)))
    return decide_from_all(costs, mechanism)


def free_memory() -> int:
    """Return how many bytes a program may still take before others suffer; 0: not known."""
    whole = [line.split() for line in _lines("/proc/meminfo")]
    free = [int(words[1]) * 1024 for words in whole if words[:1] == ["MemAvailable:"]]
    for group in _control_groups():
        limit, used = (_lines(f"{group}/memory.{name}") for name in ("max", "current"))
        if limit and used and limit[0].isdigit():
            free.append(max(int(limit[0]) - int(used[0]), 0))
    return min(free, default=0)


def _control_groups() -> list[Path]:
    """Return the folders of this process's control group and of all that it lies in: each has its limit."""
    named = [line.removeprefix("0::/") for line in _lines("/proc/self/cgroup") if line.startswith("0::/")]
    own = Path(named[0]) if named and ".." not in Path(named[0]).parts else Path()
    return [Path("/sys/fs/cgroup") / group for group in (own, *own.parents)]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _decide_by_windows(
    runner: Runner, places: Sequence[Place], scanned: Sequence[Scanned], mechanism: OfflineMechanism
) -> Market:
    sellers = sum(part.rows for part in scanned)
    lists = [part.distinct for part in scanned if part.distinct is not None]
    distinct = np.unique(np.concatenate(lists)) if len(lists) == len(scanned) else None
    census = Census(
        sellers=sellers,
        finite=merged(part.finite for part in scanned if part.finite is not None),
        zeros=sum(part.zeros for part in scanned),
        cheapest=min(part.cheapest for part in scanned),
        distinct=distinct if distinct is not None and distinct.size <= MOST_SINGLE else None,
    )

    def gather(ranges: Ranges) -> list[Gathered]:
        return runner.map("gathering", within, [Ask(place, tuple(ranges)) for place in places])

    return decide_from_windows(census, mechanism, gather)


def result_of(looked: Looked, names: Sequence[str], written: Sequence[Written]) -> PartitionQuotes:
    """Return what was written to files of these names, without what only an allocation for all tells."""
    return PartitionQuotes(
        folder=looked.target,
        sellers=sum(part.rows for part in written),
        n_bought=sum(part.bought for part in written),
        n_capped=None,
        total_promise=None,
        cutoff=None,
        promised=total_of(part.promised for part in written),
        total_payment=total_of(part.paid for part in written),
        minor_units=sum(part.minor_units for part in written),
        gathered=0,
        passes=looked.runner.passes,
        names=tuple(names),
        rows=tuple(part.rows for part in written),
        digests=tuple(part.digest for part in written),
        on_top=on_top_of(written),
    )


def on_top_of(written: Sequence[Written]) -> tuple[int, float, int]:
    """Return how many have an open promise already, what they are promised now in sum, and paid."""
    people, promised, paid = zip(*(part.on_top for part in written), strict=True)
    return sum(people), math.fsum(promised), sum(paid)


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Return by what was decided, as plain data."""
    if isinstance(mechanism, OfflineMechanism):
        return mechanism.to_dict()
    curve = mechanism.curve
    return {
        "mechanism": mechanism.name,
        "distribution": mechanism.dist.to_dict(),
        "objective": curve.objective.to_dict(),
        "curve": curve.to_dict(),
        "budget": None,
    }


def write_manifest(work: Path, result: PartitionQuotes, id_column: str, mechanism: Mechanism) -> None:
    """Write what is in a folder of quotes."""
    each = zip(result.names, result.rows, result.digests, strict=True)
    manifest = {
        "schema": SCHEMA,
        **described(mechanism),
        "id_column": id_column,
        "sellers": result.sellers,
        "n_bought": result.n_bought,
        "n_capped": result.n_capped,
        "total_promise": result.total_promise,
        "cutoff": result.cutoff,
        "promised": result.promised,
        "total_payment": result.total_payment,
        "payment_minor_units": result.minor_units,
        "partitions": [{"name": name, "rows": rows, "sha256": digest} for name, rows, digest in each],
    }
    path = work / "manifest.json"
    path.write_text(to_json(manifest))
    path.chmod(PRIVATE)
