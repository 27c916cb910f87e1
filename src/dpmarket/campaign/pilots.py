"""Refuse reports to which the cost distribution was fitted, where that can be known.

Prices, payment weight and payments follow from the cost distribution. If that follows from the sellers' own
reports, each of them moves the rules by what they name, and lying pays. So a pilot's people must not sell.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.ids import tidy_ids
from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.campaign.reports import Reports
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import (
    is_standard_stream,
    numbers_of,
    positions_in,
    read_json,
    read_table,
    read_toml,
    repeated,
)
from dpmarket.ledger.rounds import SELLER

_WAY_OUT = "Fit it to people who will not sell: otherwise lying pays."


def refuse_own_reports(
    market_path: str | os.PathLike[str], market: Market, found: Reports, reports: str | os.PathLike[str]
) -> None:
    """Refuse reports that the market's cost distribution was fitted to.

    It can be known where the distribution is one that these very costs give, and where the file that
    ``dpmarket costs fit`` wrote names its pilot and the pilot still lies beside it: if it is the file of
    reports, holds the same costs, or has people in common with it by their ids.

    Parameters
    ----------
    market_path
        The market file.
    market
        As read from it.
    found
        The reports.
    reports
        The file that they were read from.

    Raises
    ------
    FileProblem
        Says which of it was found; no id and no cost.
    """
    costs = found.costs
    if _is_made_of(market, costs):
        raise FileProblem(f"the cost distribution was fitted to these very reports. {_WAY_OUT}")
    pilot, column = pilot_of(market_path)
    if pilot is None:
        return
    if not is_standard_stream(reports) and _is_same(pilot, reports):
        raise FileProblem(f"the reports are the pilot that the cost distribution was fitted to. {_WAY_OUT}")
    ids = market.sellers.id_column
    people = read_table(pilot, [column, ids], [ids], [column], if_there=[ids])
    own, _ = numbers_of(people, column)
    if own.size == costs.size and np.array_equal(np.sort(own), np.sort(costs)):
        raise FileProblem(f"the cost distribution was fitted to the same costs. {_WAY_OUT}")
    if ids in people.columns:
        people = tidy_ids(people, ids)
        people = people.filter(~repeated(people, ids))
        common = int((positions_in(found.sellers, SELLER, people, ids) >= 0).sum())
        if common:
            raise FileProblem(
                f"{common} of these sellers are people of the pilot that the cost distribution was fitted "
                f"to. {_WAY_OUT}"
            )


def _is_same(pilot: Path, source: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(pilot, source)
    except OSError:
        return False


def _is_made_of(market: Market, costs: FloatArray) -> bool:
    """Whether the distribution is the empirical one of these costs."""
    from dpmarket.costs import Empirical

    dist = to_distribution(market.costs.distribution)
    try:
        return bool(Empirical(costs, *dist.support) == dist)
    except InvalidInput:
        return False


def pilot_of(market_path: str | os.PathLike[str]) -> tuple[Path | None, str]:
    """Return the pilot that the distribution's file names, if it lies beside it, and its column of costs."""
    costs: Any = read_toml(market_path).get("costs")
    name = costs.get("distribution") if isinstance(costs, dict) else None
    if not (isinstance(name, str) and name.endswith(".json")):
        return None, ""
    fitted = Path(market_path).parent / name
    content = read_json(fitted)
    pilot = content.get("pilot") if isinstance(content, dict) else None
    if not isinstance(pilot, dict) or not all(isinstance(pilot.get(key), str) for key in ("file", "column")):
        return None, ""
    beside = fitted.parent / Path(pilot["file"]).name
    return (beside if beside.is_file() else None), pilot["column"]
