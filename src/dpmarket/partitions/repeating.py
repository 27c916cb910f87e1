"""Promise the quotes of many partitions once more, as they were decided, but to who left or must not sell."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from dpmarket.campaign.drafting import NOBODY_AGAIN
from dpmarket.campaign.quotes import Quotes
from dpmarket.errors import LedgerRefusal
from dpmarket.files import atomic_path, parquet_bytes, positions_in
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger.manifests import Manifest, hashes_of
from dpmarket.ledger.rounds import SELLER, amounts_of, as_known
from dpmarket.partitions.ids import grouped_hashes, write_hashes
from dpmarket.partitions.looking import SCRATCH, Looked
from dpmarket.partitions.lookup import marked
from dpmarket.partitions.passes import Money, Written
from dpmarket.partitions.pieces import Piece
from dpmarket.partitions.quoting import Mechanism, PartitionQuotes, result_of, write_manifest
from dpmarket.partitions.sums import whole_sum


@dataclass(frozen=True)
class Repeat:
    """One partition of quotes, and where they go once more.

    Attributes
    ----------
    manifest, number
        The quotes, and which of their partitions.
    withdrawn
        A file with who has withdrawn; None where all had, and all are asked again.
    marks
        Who is left out, or has an open promise.
    money
        Of the new round.
    id_column, quotes, hashes
        The column of ids, and the files that are written.
    """

    manifest: Manifest
    number: int
    withdrawn: str | None
    marks: tuple[Piece, ...]
    money: Money
    id_column: str
    quotes: str
    hashes: str


def repeat(order: Repeat) -> Written:
    """Write the quotes of who is promised the same once more; nothing if nobody is."""
    quotes = as_known(order.manifest.tables([order.number]))
    stays, waits = marked(order.marks, quotes.height)
    on_top = waits
    if order.withdrawn is not None:
        gone = positions_in(quotes, SELLER, pl.read_parquet(order.withdrawn), SELLER) >= 0
        stays = stays[~gone[stays]]
        on_top = np.ones(stays.size, dtype=bool)  # of what was spent
    quotes = quotes[stays]
    epsilons, amounts = amounts_of(quotes)
    on_top = on_top & (epsilons > 0.0)
    digest = ""
    if quotes.height:
        told = Quotes(quotes, order.money.minor_units, order.money.currency, order.money.round)
        data = parquet_bytes(told.as_written(order.id_column))
        digest = hashlib.sha256(data).hexdigest()
        write_hashes(order.hashes, grouped_hashes(hashes_of(quotes, SELLER)))
        with atomic_path(order.quotes, mode=PRIVATE) as temporary:
            temporary.write_bytes(data)
    return Written(
        rows=quotes.height,
        bought=int(np.count_nonzero(epsilons)),
        promised=whole_sum(epsilons),
        paid=whole_sum(amounts / order.money.minor_units),
        minor_units=int(amounts.sum()),
        digest=digest,
        on_top=(int(on_top.sum()), math.fsum(epsilons[on_top]), int(amounts[on_top].sum())),
    )


@dataclass(frozen=True)
class Taken:
    """Quotes that are promised once more: where they are, who is left out, a file with who has withdrawn."""

    manifest: Manifest
    marks: Sequence[tuple[Piece, ...]]
    withdrawn: str | None


def repeat_quotes(looked: Looked, taken: Taken, mechanism: Mechanism, money: Money) -> PartitionQuotes:
    """Write all quotes of a round once more into the folder of the work, which then holds nothing else.

    Raises
    ------
    LedgerRefusal
        Nobody is left.
    """
    manifest = taken.manifest
    work = looked.work.absolute()
    for place in looked.places:
        Path(place.hashes).unlink()  # of the reports: quotes may lie in fewer partitions
    orders = [
        Repeat(
            manifest,
            number,
            taken.withdrawn,
            taken.marks[number],
            money,
            looked.id_column,
            str(work / name),
            str(work / "hashes" / f"{Path(name).stem}.npy"),
        )
        for number, name in enumerate(manifest.names)
    ]
    written = looked.runner.aside(repeat, orders)
    there = [(name, part) for name, part in zip(manifest.names, written, strict=True) if part.rows]
    if not there:
        raise LedgerRefusal(NOBODY_AGAIN)
    parts = [part for _, part in there]
    shutil.rmtree(looked.work / SCRATCH, ignore_errors=True)
    result = result_of(looked, [name for name, _ in there], parts)
    write_manifest(looked.work, result, looked.id_column, mechanism)
    return result
