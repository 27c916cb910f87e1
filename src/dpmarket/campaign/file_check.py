"""Dry runs: files checked against the rules as quote and train would, with nothing entered."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from dpmarket.campaign.file_campaign import quote_file, sellers_in
from dpmarket.campaign.file_records import FileRecords, digests_of
from dpmarket.campaign.file_reports import normal_ids
from dpmarket.campaign.place import Place, place_of
from dpmarket.campaign.training import Sellers, market_key
from dpmarket.files import column_names, read_table


def check_files(
    rules_path: str | os.PathLike[str],
    files: Sequence[str | os.PathLike[str]],
    *,
    database: str | None = None,
) -> list[tuple[str, str]]:
    """Check reports and data against the rules; return a name and a sentence for each.

    A file with the column of costs is checked as ``quote`` would, any other one as ``train`` would: for the
    sellers of the campaign if somebody was quoted, else for everybody in the file.

    Raises
    ------
    DpmarketError
        What the commands themselves would refuse.
    """
    place = place_of(rules_path, database)
    return [(os.fspath(file), _checked(place, rules_path, file, database)) for file in files]


def _checked(
    place: Place, rules_path: str | os.PathLike[str], file: str | os.PathLike[str], database: str | None
) -> str:
    if place.rules.sellers.cost_column in column_names(file):
        done = quote_file(rules_path, file, None, confirmed=True, database=database)
        bought = int((done.epsilons > 0.0).sum())
        return f"reports of {done.epsilons.size:,} sellers; {bought:,} of them would be bought from"
    column, key = place.rules.sellers.id_column, bytes(32)
    ids, _ = normal_ids(read_table(file, [column], [column]), column)
    digests = list(dict.fromkeys(one for one in digests_of(key, ids) if one))
    quoted = set(digests)
    if place.is_there:
        with place.open() as market:
            selling, everybody = sellers_in(market, place.rules)
            if everybody:
                key, digests, quoted = market_key(market), selling, everybody
    number = len(digests)
    sellers = Sellers([0] * number, digests, [None] * number, np.ones(number), [1] * number, [""] * number)
    source = FileRecords(place.rules, file, key, quoted)
    records = source.read(sellers)
    clipped = sum(source.clipped.values())
    return f"{records.owners.size:,} rows of {number:,} sellers; {clipped:,} values outside their bounds"
