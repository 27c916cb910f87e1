"""Read a file of reported costs, check it, and tell who in it may be quoted, without a look at any cost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.ids import id_problems, spelling_problems, tidy_ids
from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.errors import FileProblem
from dpmarket.files import find, numbers_of, positions_in, read_table, refuse
from dpmarket.ledger import CampaignEntry, Connection, charges, delta_charges
from dpmarket.ledger.rounds import SELLER, campaigns_of

FULL, LIFETIME, EXCLUDED = "full", "lifetime", "excluded"
"""Why somebody was not quoted: no room in the budget, no epsilon left, on the list of who must not sell."""


@dataclass(frozen=True, eq=False)
class Reports:
    """Who reported what. Confidential.

    Attributes
    ----------
    sellers
        One column, seller.
    costs
        Their reports, money per unit of epsilon, in the same order.
    """

    sellers: pl.DataFrame
    costs: FloatArray

    def only(self, rows: IntArray) -> Reports:
        """Return some of the rows."""
        return Reports(self.sellers[rows.tolist()], self.costs[rows])


def read_reports(market: Market, source: str | os.PathLike[str]) -> Reports:
    """Read a file of reports and refuse it with all that is wrong.

    Raises
    ------
    FileProblem
        ``details`` name lines and columns, never a value.
    """
    with reading_reports(market, source) as found:
        return found


@contextlib.contextmanager
def reading_reports(market: Market, source: str | os.PathLike[str]) -> Iterator[Reports]:
    """Give a file of reports to a block while its ids are still being checked.

    Ten million ids take as long to check as prices take to decide. The end of the block refuses what is wrong
    with the ids, in place of whatever the block itself raises: nothing may be entered or told inside.

    Raises
    ------
    FileProblem
        ``details`` name lines and columns, never a value.
    """
    id_column, cost_column = market.sellers.id_column, market.sellers.cost_column
    table = read_table(source, [id_column, cost_column], [id_column], [cost_column])
    with ThreadPoolExecutor(1) as thread:
        tidied = thread.submit(tidy_ids, table, id_column)
        ids = thread.submit(lambda: id_problems(tidied.result(), id_column))
        costs, problems = numbers_of(table, cost_column)
        problems += find(cost_column, "a cost below 0", costs < 0.0)
        table = tidied.result()
        if problems:
            refuse(table, source, problems + ids.result())
        try:
            yield Reports(pl.DataFrame({SELLER: table.get_column(id_column)}), costs)
        except Exception:
            refuse(table, source, ids.result())
            raise
        refuse(table, source, ids.result())


def outside_distribution(market: Market, costs: FloatArray) -> tuple[int, int]:
    """Return how many costs lie below and above the support of the market's distribution."""
    low, high = to_distribution(market.costs.distribution).support
    return int(np.count_nonzero(costs < low)), int(np.count_nonzero(costs > high))


def lifetime_limit(market: Market, connection: Connection | None) -> float | None:
    """Return what a person may give in a lifetime: the least limit of any campaign in the ledger, or None."""
    limits = [market.sellers.lifetime_epsilon]
    if connection is not None:
        rules = [campaign.rules or {} for campaign in campaigns_of(connection)]
        limits += [one.get("sellers", {}).get("lifetime_epsilon") for one in rules]
    return min((limit for limit in limits if limit is not None), default=None)


def lifetime_delta_limit(market: Market, connection: Connection | None) -> float | None:
    """Return what the deltas of a person's promises may add up to: the least limit of any campaign, or None.

    A campaign with a limit of epsilon and none of delta allows no delta: its people were told of none.
    """
    limits = [delta_limit_in(market.sellers.model_dump())]
    if connection is not None:
        rules = [campaign.rules or {} for campaign in campaigns_of(connection)]
        limits += [delta_limit_in(one.get("sellers", {})) for one in rules]
    return min((limit for limit in limits if limit is not None), default=None)


def beyond_delta(
    market: Market,
    sellers: pl.DataFrame,
    connection: Connection | None,
    campaign: CampaignEntry | None,
    excluded: IntArray,
) -> IntArray:
    """Return the rows of who must not be promised anything with the market's delta, but for those excluded.

    Over a lifetime deltas add up to the ledger's limit at most, and within one campaign to a tenth of a
    person among those expected.
    """
    delta = market.objective.delta
    if delta is None:
        return np.zeros(0, dtype=np.int64)
    limit = lifetime_delta_limit(market, connection)
    over = np.zeros(sellers.height, dtype=bool)
    if limit is not None:
        given = np.zeros(sellers.height) if connection is None else delta_charges(connection, sellers)
        over |= given + delta > limit
    if connection is not None and campaign is not None:
        here = delta_charges(connection, sellers, campaign.id)
        # What was given before is rounded up: a first promise at the bound itself is one of those allowed.
        over |= (here > 0.0) & (here + delta > 1.0 / (10.0 * (market.sellers.expected or 1)))
    return np.setdiff1d(np.flatnonzero(over), excluded)


def delta_limit_in(sellers: Mapping[str, Any]) -> float | None:
    """Return the limit of deltas in the rules' table of sellers: 0 if only epsilon has one."""
    limit = sellers.get("lifetime_delta")
    return 0.0 if limit is None and sellers.get("lifetime_epsilon") is not None else limit


def not_invited(
    market: Market,
    market_path: str | os.PathLike[str],
    sellers: pl.DataFrame,
    connection: Connection | None,
    limit: float | None,
    ceiling: float | None,
) -> tuple[IntArray, IntArray]:
    """Return the rows of who must not be quoted: excluded by id, and without enough epsilon left.

    Parameters
    ----------
    market, market_path
        The market, and the file that its list of who must not sell lies beside.
    sellers
        Who might be quoted, column seller.
    connection
        Into the ledger; None if there is none yet, so that nobody has given anything.
    limit
        What a person may give in a lifetime; None if there is no limit.
    ceiling
        What the campaign can ask of anybody; needed only if there is a limit.

    Raises
    ------
    FileProblem
        The list of who must not sell cannot be read.
    """
    nobody = np.zeros(0, dtype=np.int64)
    excluded = over = nobody
    listed = who_must_not_sell(market, market_path)
    if listed is not None:
        places = positions_in(listed, SELLER, sellers, SELLER)
        excluded = np.unique(places[places >= 0])
    if limit is not None and ceiling is not None:
        given = np.zeros(sellers.height) if connection is None else charges(connection, sellers)
        over = np.flatnonzero(given + ceiling > limit)
    return excluded, np.setdiff1d(over, excluded)


def who_must_not_sell(market: Market, market_path: str | os.PathLike[str]) -> pl.DataFrame | None:
    """Return the list of who must not sell, column seller; None where the market has none.

    Raises
    ------
    FileProblem
        It cannot be read, or names nobody.
    """
    if market.sellers.excluded is None:
        return None
    source, id_column = Path(market_path).parent / market.sellers.excluded, market.sellers.id_column
    table = tidy_ids(read_table(source, [id_column], [id_column]), id_column)
    # An id that matches nobody because of a blank would let somebody sell who must not.
    refuse(table, source, spelling_problems(table, id_column))
    sellers = table.get_column(id_column).drop_nulls().unique(maintain_order=True)
    if len(sellers) == 0:
        raise FileProblem(f"cannot use {source}: it names nobody.")
    return pl.DataFrame({SELLER: sellers})
