"""Records of a file campaign: a table with a column of ids, read after the debit."""

import numpy as np
import polars as pl

from dpmarket.campaign.file_reports import normal_ids, repeated_ids
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import Source
from dpmarket.campaign.rules.columns import Records, columns_by_type, fields_of, read_codes, records_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Sellers
from dpmarket.errors import FileProblem
from dpmarket.files import find, read_table, refuse


def read_records(
    rules: Rules, source: Source, key: bytes, quoted: set[bytes] | None, sellers: Sellers
) -> Records:
    """Return the rows of these sellers in a table, or refuse the file with all that is wrong with it.

    ``key`` is the market's key of digests, and ``quoted`` has the digests of everybody who was quoted: other
    people's records are refused, by line and column, never by value.
    """
    column, fields = rules.sellers.id_column, fields_of(rules)
    texts, numbers = columns_by_type(fields)
    table = read_table(source, [column, *texts, *numbers], [column, *texts], numbers)
    ids, problems = normal_ids(table, column)
    problems += repeated_ids(ids, column, rules.sellers.rows_per_person)
    digests = digests_of(key, ids)
    order = {digest: place for place, digest in enumerate(sellers.get_column("digest"))}
    owners = np.array([order.get(digest, -1) for digest in digests], dtype=np.int64)
    quoted = set(digests) if quoted is None else quoted
    strangers = np.array([bool(one) and one not in quoted for one in digests], dtype=bool)
    problems += find(column, "a seller without a quote", strangers)
    rows = np.flatnonzero(owners >= 0)
    codes, wrong = read_codes(fields, table, rows)
    refuse(table, source, problems + wrong)
    absent = len(order) - np.unique(owners[rows]).size
    if absent:
        raise absent_rows(str(source), absent)
    return records_of(fields, codes, owners[rows])


def absent_rows(where: str, sellers: int) -> FileProblem:
    """Return the refusal of records without those of some sellers."""
    return FileProblem(
        f"cannot use {where}: there is no row for {sellers:,} sellers who were quoted. Add their rows, or "
        "take them out: dpmarket withdraw --absent-from."
    )


def digests_of(key: bytes, ids: pl.Series) -> list[bytes]:
    """Return the digests of ids in the one form; of empty ones nothing."""
    found = iter(person_digests(key, ids.filter(ids != "").to_list()))
    return [next(found) if there else b"" for there in (ids != "").to_list()]
