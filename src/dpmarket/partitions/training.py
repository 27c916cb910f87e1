"""Train a campaign's model on records in many files, divided by person: debit, read, mark, noise, release.

The steps in the ledger are those of every training (:func:`dpmarket.campaign.spending.spend`); here is only
where records and promises lie.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign.features import geometry_of_market
from dpmarket.campaign.folders import round_in_folder
from dpmarket.campaign.limits import lifetime_limits, refuse_over_lifetime
from dpmarket.campaign.market_file import Market, read_market
from dpmarket.campaign.place import opened_existing, place_of
from dpmarket.campaign.released import Released
from dpmarket.campaign.spending import estimator_of, model_of, raised_penalty, refuse_nobody, spend
from dpmarket.campaign.training import TrainingResult, released_before
from dpmarket.errors import FileProblem, InvalidInput, LedgerRefusal
from dpmarket.files import ColumnProblem, refuse_existing, refuse_same, refuse_unwritable, write_bytes
from dpmarket.learning.remote import fit_remotely
from dpmarket.ledger import Connection, Round, reading, rounds
from dpmarket.ledger.manifests import Manifest
from dpmarket.ledger.rounds import SELLER
from dpmarket.numerics import exact_sum
from dpmarket.partitions.engines import as_engine
from dpmarket.partitions.fitting import PASSES, PartitionRecords, row_settings
from dpmarket.partitions.hashed import places_of_people
from dpmarket.partitions.looking import Runner, folder_beside, partition_paths
from dpmarket.partitions.owned import Absent, Owned, OwnedRows, keep_owned, shape_of_market
from dpmarket.partitions.promises import (
    PROMISED,
    Promises,
    SpentOrder,
    Spread,
    keep_withdrawn,
    spread,
    write_spent,
)
from dpmarket.privacy import Weights
from dpmarket.privacy.noise import SecureNoise
from dpmarket.privacy.weights import Shares
from dpmarket.progress import StageProgress


@dataclass(frozen=True)
class CampaignTraining:
    """What training on partitions came to.

    Attributes
    ----------
    result
        As for one file.
    passes
        How often all records were looked at; 0 where the model had been released before.
    """

    result: TrainingResult
    passes: int


def train_campaign(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    data: Sequence[str | os.PathLike[str]] | str,
    output: str | os.PathLike[str],
    *,
    engine: Any = None,
    overwrite: bool = False,
    ledger: str | None = None,
    progress: StageProgress = lambda what, share: None,
) -> CampaignTraining:
    """Train on the records of all sellers in a folder of quotes, once, and write the model.

    Parameters
    ----------
    market_path
        The market file, with the rules that sellers were quoted by.
    quotes
        The folder that :func:`~dpmarket.partitions.quote_campaign` wrote.
    data
        Files divided by person, as :func:`~dpmarket.partitions.repartition` writes them, all of them; or one
        file of any name.
    output
        Where the model goes. A folder beside it keeps rows while the training lasts; workers must see it.
    engine
        What runs the tasks: an engine, a Dask client, or None for threads.
    overwrite, ledger, progress
        As for :func:`~dpmarket.campaign.train_file`.

    Raises
    ------
    FileProblem
        ``details`` name every problem of every partition by file, line and column. Nothing was spent.
    LedgerRefusal
        As :func:`~dpmarket.campaign.train_file`.
    InvalidInput
        The market asks for statistics or for a model of more than two labels.

    Notes
    -----
    Guaranteed as by :func:`~dpmarket.campaign.train_file`; the model is that of training in memory with the
    same noise (see :func:`~dpmarket.partitions.fit_partitions`).
    """
    market = read_market(market_path)
    _refuse_unfit(market)
    place = place_of(market_path, market, ledger)
    sources = partition_paths(data) if isinstance(data, str) else [Path(path) for path in data]
    refuse_same(output, market_path, *place.files, *sources)
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    places = places_of_people(sources)
    runner = Runner(as_engine(engine), progress, expected=PASSES)
    with opened_existing(place) as book:
        with reading(book) as connection:
            found, manifest = round_in_folder(connection, quotes)
            kept = released_before(connection, [found], market)
            if kept is not None:
                result = _released_long_ago(connection, found, kept)
            else:
                left = rounds.who_withdrew(connection, found.number)
        if kept is None:
            with folder_beside(Path(output)) as work:
                purchase = _Partitioned(market, (found, manifest), left, (sources, places), work, runner)
                spending = spend(book, [found], lambda connection: purchase, progress)
            result = TrainingResult(is_new=True, **vars(spending))
    write_bytes(output, result.model.to_json().encode(), overwrite=overwrite)
    return CampaignTraining(result, runner.passes)


class _Partitioned:
    """A purchase from people whose promises and records lie in partitions."""

    def __init__(
        self,
        market: Market,
        quoted: tuple[Round, Manifest],
        left: Sequence[str],
        records: tuple[Sequence[Path], Sequence[tuple[int, int]]],
        work: Path,
        runner: Runner,
    ) -> None:
        self._market = market
        self._round, self._manifest = quoted
        self._records = records
        self._work = work.absolute()
        self._runner = runner
        self._left = set(left)
        self._spent: Manifest | None = None
        keep_withdrawn(self._work / "withdrawn", left)
        self._promises = self._spread()
        self.total_promise = math.fsum(value for part in self._promises for value in part.total)
        self.withdrawn = sum(part.left for part in self._promises)
        self.clipped: dict[str, int] = {}
        self.raised_l2: float | None = None

    def refuse(self, connection: Connection) -> None:
        if not self.total_promise > 0.0:
            refuse_nobody()
        if set(rounds.who_withdrew(connection, self._round.number)) != self._left:
            raise LedgerRefusal("sellers have been withdrawing meanwhile: nothing was spent; try again.")
        for part in self._promises if lifetime_limits(connection) else ():
            table = pl.read_ipc(part.out)
            promised = np.asarray(table.get_column(PROMISED).to_numpy())
            refuse_over_lifetime(connection, table.select(SELLER), promised)

    def read(self) -> None:
        sources, places = self._records
        self._estimator = estimator_of(self._market, self._market.training.l2, SecureNoise())
        how = row_settings(self._estimator, len(sources), shape_of_market(self._market))
        asked = [
            Owned(
                str(source.absolute()),
                place,
                str(self._work / f"rows-{k}"),
                self._market,
                tuple(part.piece(place[0]) for part in self._promises),
                how,
            )
            for k, (source, place) in enumerate(zip(sources, places, strict=True))
        ]
        found = self._runner.map("reading", keep_owned, asked)
        problems = [part.problems for part in found if part.problems]
        absent = _absent(self._market, self._manifest, [part.absent for part in found])
        if problems or absent:
            said = [sentence for part in problems for sentence in part]
            raise FileProblem(
                f"cannot use {len(problems)} of {len(found)} partitions, and {len(absent)} partitions of "
                "quotes have sellers without a row; nothing was written.",
                [*said, *absent],
            )
        self._kept = [part.kept for part in found if part.kept is not None]
        self.clipped = _together(found)

    def release(self, noise: SecureNoise) -> Released:
        records = PartitionRecords(self._runner, self._kept)
        l2 = self._market.training.l2
        if self.withdrawn and l2 is not None:
            self.raised_l2 = self._raised(records, l2)
        estimator = estimator_of(self._market, l2 if self.raised_l2 is None else self.raised_l2, noise)
        shares = fit_remotely(estimator, records, shape_of_market(self._market))
        self._spent = self._written(shares, estimator)
        return model_of(self._market, estimator, records.promises().size)  # people, not rows

    def spent(self) -> Mapping[int, tuple[FloatArray, FloatArray] | Manifest]:
        assert self._spent is not None
        return {self._round.number: self._spent}

    def _spread(self) -> list[Promises]:
        count = self._records[1][0][1]
        asked = [
            Spread(
                self._manifest,
                k,
                str(self._work / "withdrawn"),
                count,
                str(self._work / f"promises-{k}.arrow"),
            )
            for k in range(len(self._manifest.names))
        ]
        found = self._runner.aside(spread, asked)
        problems = [part.problem for part in found if part.problem is not None]
        if problems:
            raise FileProblem("cannot use the quotes; nothing was spent.", problems)
        return found

    def _raised(self, records: PartitionRecords, l2: float) -> float | None:
        """Return the least penalty without slack, where withdrawals left too little for the market file's."""
        total = records.usable_total(self._market.training.numerical_epsilon)
        if l2 >= geometry_of_market(self._market).least_l2(total):
            return None
        return raised_penalty(self._market, records.promises())

    def _written(self, shares: Shares, estimator: Any) -> Manifest:
        """Write what was spent beside the quotes."""
        folder = Path(self._manifest.folder) / "spent"
        folder.mkdir(mode=0o700, exist_ok=True)
        constants = Weights(
            np.zeros(1),
            estimator.noise_rate_,
            estimator.l2_,
            estimator.row_bound_,
            estimator.rows_per_person_,
            estimator.numerical_epsilon,
            estimator.euclidean_bound_,
        )
        orders = [
            SpentOrder(part.out, shares, constants, estimator.numerical_epsilon_, str(folder / name))
            for part, name in zip(self._promises, self._manifest.names, strict=True)
        ]
        found = self._runner.aside(write_spent, orders)
        rows, digests = zip(*found, strict=True)
        return Manifest(str(folder), self._manifest.names, rows, digests)


def _refuse_unfit(market: Market) -> None:
    if market.label is None:
        raise InvalidInput("expected a market that trains a model: statistics are released from one file.")
    if len(market.label.values) != 2:
        raise InvalidInput("expected two labels: models of more are trained on one file, in memory.")


def _released_long_ago(connection: Connection, found: Round, model: Released) -> TrainingResult:
    total = exact_sum(rounds.amounts_of(rounds.kept_quotes(connection, found.number))[0])
    left = rounds.count_withdrawn(connection, found.number)
    return TrainingResult(model, is_new=False, total_promise=total, withdrawn=left, clipped={})


def _absent(market: Market, manifest: Manifest, found: Sequence[Absent]) -> list[str]:
    """Return a sentence for every partition of quotes that has people without a row in the data."""
    words = (
        "a seller who has no row in the data (add it, or let them withdraw: dpmarket withdraw --absent-from)"
    )
    said = []
    for number, name in enumerate(manifest.names):
        count = sum(part.counts.get(number, 0) for part in found)
        if count:
            rows = sorted(row for part in found for row in part.rows.get(number, ()))[:3]
            problem = ColumnProblem(market.sellers.id_column, words, count, tuple(rows))
            source = str(Path(manifest.folder) / name)
            said.append(f"{source}: {problem.sentence(pl.DataFrame(), source)}")
    return said


def _together(found: Sequence[OwnedRows]) -> dict[str, int]:
    clipped: dict[str, int] = {}
    for part in found:
        for name, count in part.clipped.items():
            clipped[name] = clipped.get(name, 0) + count
    return clipped
