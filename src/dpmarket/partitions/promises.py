"""Bring promises to where their people's records lie, and write what was spent beside the quotes.

Quotes lie in the partitions in which reports came, records in partitions by person. Each partition of quotes
is written once more by the hash of the person, so that a worker finds the promises of its own people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.errors import FileProblem
from dpmarket.files import atomic_path, positions_in, table_to_bytes
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger.manifests import Manifest
from dpmarket.ledger.releases import spent_bytes
from dpmarket.ledger.rounds import EPSILON, SELLER
from dpmarket.numerics import exact_parts
from dpmarket.partitions.pieces import Piece, parts_of, read_pieces, write_pieces
from dpmarket.privacy import Weights
from dpmarket.privacy.weights import Shares

PROMISED, PLACE, ROW = "promised", "place", "row"


@dataclass(frozen=True)
class Spread:
    """One partition of a round's quotes, and where its promises go, divided by person.

    Attributes
    ----------
    manifest
        Of the quotes.
    number
        Which of its partitions.
    withdrawn
        A file with the sellers who have withdrawn.
    count
        How many partitions of records there are.
    out
        The file of pieces.
    """

    manifest: Manifest
    number: int
    withdrawn: str
    count: int
    out: str


@dataclass(frozen=True)
class Promises:
    """Where the promises of one partition of quotes are.

    Attributes
    ----------
    out, starts
        The file of pieces, and where those of each partition of records begin.
    total
        Floats whose exact sum is that of the promises.
    left
        How many sellers have withdrawn.
    problem
        Why the quotes cannot be used; None if they can.
    """

    out: str
    starts: tuple[int, ...] = ()
    total: tuple[float, ...] = ()
    left: int = 0
    problem: str | None = None

    def piece(self, number: int) -> Piece:
        """Return where the people of a partition of records are."""
        return self.out, self.starts[number], self.starts[number + 1]


def keep_withdrawn(path: Path, sellers: Sequence[str]) -> None:
    """Write who has withdrawn where workers find it."""
    table = pl.DataFrame({SELLER: list(sellers)}, schema={SELLER: pl.String})
    with atomic_path(path, mode=PRIVATE) as temporary:
        temporary.write_bytes(table_to_bytes(table))


def spread(asked: Spread) -> Promises:
    """Write one partition's promises by the partition of records in which their people lie."""
    try:
        quotes = asked.manifest.tables([asked.number])
    except FileProblem as problem:
        return Promises(asked.out, problem=str(problem))
    sellers = quotes.to_series(0).alias(SELLER)
    promised = np.array(quotes.get_column(EPSILON).to_numpy())
    withdrawn = pl.read_parquet(asked.withdrawn)
    gone = positions_in(withdrawn, SELLER, sellers.to_frame(), SELLER)
    gone = gone[gone >= 0]
    promised[gone] = 0.0
    table = pl.DataFrame(
        {
            SELLER: sellers,
            PROMISED: promised,
            PLACE: np.full(promised.size, asked.number, dtype=np.int32),
            ROW: np.arange(promised.size, dtype=np.int32),
        }
    )
    starts = write_pieces(table, parts_of(table, SELLER, asked.count), asked.count, asked.out)
    return Promises(asked.out, starts, tuple(exact_parts(promised)), int(gone.size))


@dataclass(frozen=True)
class SpentOrder:
    """One partition of quotes, how promises became weights, and where what was spent goes.

    Attributes
    ----------
    promises
        The promises.
    shares
        How they became weights.
    constants
        Weights with the model's public constants.
    numerical_epsilon
        What releasing cost everybody with a weight.
    out
        The file that is written.
    """

    promises: str
    shares: Shares
    constants: Weights
    numerical_epsilon: float
    out: str


def write_spent(order: SpentOrder) -> tuple[int, str]:
    """Write what was spent on the sellers of a partition, in its order; return their number and a digest."""
    table = pl.read_ipc(order.promises)
    promised = np.empty(table.height)
    promised[table.get_column(ROW).to_numpy()] = table.get_column(PROMISED).to_numpy()
    spent, weights = spent_on(promised, order)
    data = spent_bytes(spent, weights)
    with atomic_path(order.out, mode=PRIVATE) as temporary:
        temporary.write_bytes(data)
    return promised.size, hashlib.sha256(data).hexdigest()


def spent_on(promised: FloatArray, order: SpentOrder) -> tuple[FloatArray, FloatArray]:
    """Return what a model spent on people with these promises, and their weights: as a fit in memory does."""
    known = order.constants
    weights = order.shares.weights(promised)
    here = Weights(
        weights,
        known.noise_rate,
        known.l2,
        known.row_bound,
        known.rows_per_person,
        known.numerical_epsilon,
        known.euclidean_bound,
    )
    spent = np.where(weights > 0.0, here.privacy_losses() + order.numerical_epsilon, 0.0)
    return np.minimum(spent, promised), weights


def people_in(pieces: Sequence[Piece]) -> pl.DataFrame:
    """Return the people of a partition of records: seller, promised, and the place and row of their quote."""
    return read_pieces(pieces)
