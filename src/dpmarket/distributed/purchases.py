"""Campaigns over many files on a cluster: quotes, and training on records that stay on the workers."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign import file_parts
from dpmarket.campaign.file_campaign import Training, hand_out
from dpmarket.campaign.file_quotes import Quoting
from dpmarket.campaign.file_reports import absent_rows, people_in_file
from dpmarket.campaign.partitions import CHANNEL, people_of
from dpmarket.campaign.place import Place, Source, place_of
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Result, Sellers
from dpmarket.distributed.cluster import Parts, connected
from dpmarket.distributed.fitting import train_parts
from dpmarket.distributed.samples import PartedColumn
from dpmarket.distributed.sums import split_by
from dpmarket.errors import FileProblem
from dpmarket.learning.people import Holding
from dpmarket.progress import StageProgress, silent


def quote_files(
    rules: Source | Place, pattern: Source, folder: Source, where: str, *, confirmed: bool = False,
    progress: StageProgress = silent,
) -> Quoting:  # fmt: skip
    """Quote every seller of many Parquet files, and write a file of quotes for each into a new folder.

    The files, such as ``reports/*.parquet``, and the folder are such as the workers can reach. The folder
    stays the campaign's; the same reports have the same quotes again. Else as
    :func:`~dpmarket.campaign.file_quotes.quote_file`; a lifetime limit is refused.
    """
    place, sources = place_of(rules), file_parts.many_files(pattern)
    file_parts.refuse_rules(place.rules)
    with connected(where) as client:
        parts = Parts(client, list(sources))
        return file_parts.quote_parts(place, sources, parts, folder, confirmed=confirmed, progress=progress)


def train_files(
    rules: Source | Place, pattern: Source, output: Source, where: str, *, overwrite: bool = False,
    progress: StageProgress = silent,
) -> Training:  # fmt: skip
    """Spend a campaign over many files once, on records that stay on the workers.

    All rows of a person are in one file: ``dpmarket repartition``. Else as
    :func:`~dpmarket.campaign.file_campaign.train_file`.
    """
    place, sources = place_of(rules), file_parts.many_files(pattern)
    place.refuse_output(output, overwrite=overwrite)
    with place.campaign() as (market, found), connected(where) as client:
        with market.look() as c:
            quoted = people_of(c, found).drop_nulls("epsilon")
        files = FarFiles(place.rules, Parts(client, list(sources)), set(quoted.get_column("name")))
        return hand_out(
            place, market, found, quoted, files.read, files.release(), output=output, channel=CHANNEL,
            clipped=files.clipped, overwrite=overwrite, progress=progress,
        )  # fmt: skip


class FarFiles:
    """Records in many Parquet files, read by workers."""

    def __init__(self, rules: Rules, paths: Parts, quoted: set[str]) -> None:
        self._rules, self._paths, self._quoted = rules, paths, quoted
        self.clipped: dict[str, int] = {}
        self.columns: dict[str, PartedColumn] = {}

    def read(self, sellers: Sellers) -> FarFiles:
        """Let workers read the rows of these sellers, or refuse the files."""
        id_column = self._rules.sellers.id_column
        listed: list[pl.Series] = self._paths.get(people_in_file, column=id_column)
        together = pl.concat(listed)
        strangers = together.len() - together.is_in(list(self._quoted)).sum()
        if strangers:
            raise FileProblem(
                f"cannot use these files: they have rows of {strangers:,} people without a quote."
            )
        if together.n_unique() < together.len():
            raise FileProblem(
                "some people have rows in two files: 'dpmarket repartition' puts them into one."
            )
        places = {name: place for place, name in enumerate(sellers.get_column("name"))}
        own = [[one for one in part.to_list() if one in places] for part in listed]
        self._order = np.array([places[one] for part in own for one in part], dtype=np.int64)
        if self._order.size < len(places):
            raise absent_rows("these files", len(places) - self._order.size)
        self._records = self._paths.map(file_parts.records_in, own, rules=self._rules)
        self._sizes = [len(part) for part in own]
        for clipped in self._records.get(attrgetter("clipped")):
            for name, number in clipped.items():
                self.clipped[name] = self.clipped.get(name, 0) + number
        for name in self._rules.statistics:
            column = self._records.map(lambda own, name: (own.columns[name], own.owners), name=name)
            self.columns[name] = PartedColumn(column, self._sizes)
        return self

    def train(self, estimator: Any, encoder: Any, epsilons: FloatArray) -> None:
        """Fit an estimator on the encoded records."""
        own, names = split_by(epsilons, self._sizes), list(self._rules.features)
        tables = self._records.map(file_parts.encoded, own, encoder=encoder, names=names)
        train_parts(estimator, tables, epsilons, Holding(None, epsilons.size, None), None)

    def release(self) -> Any:
        """Return the release of these rules, which takes epsilons in the order of the files' people."""
        release = release_for(self._rules)

        def ordered(records: FarFiles, epsilons: FloatArray, before_noise: Callable[[], None]) -> Result:
            result = release(records, epsilons[records._order], before_noise)
            back = np.argsort(records._order)
            return Result(result.document, result.epsilons[back], result.weights[back])

        return ordered
