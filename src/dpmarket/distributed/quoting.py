"""Quotes over the partitions of a Dask data frame: one pass for summaries at most, one for quotes."""

from __future__ import annotations

import secrets
from operator import itemgetter
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.distributed.cluster import Parts, partitions_of, shared_ids
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS, CrossPricedMechanism, CrossPrices, split
from dpmarket.mechanisms.price_schedule import PriceSchedule, quote_each


def quote(
    ddf: Any, prices: PriceSchedule | CrossPricedMechanism, *, cost: str = "cost", seller: str | None = None
) -> tuple[Any, CrossPrices | None]:
    """Quote every row of a Dask data frame an epsilon and a payment; quotes are computed when asked for.

    Parameters
    ----------
    ddf, prices
        A Dask data frame with a row for each seller; and a public schedule, which needs no pass over it, or a
        mechanism that prices each part of the sellers by the other parts' reports, from one pass.
    cost, seller
        The column of reported costs, in money per unit of epsilon, and that of ids, checked to be all
        different; needed by the mechanism.

    Returns
    -------
    tuple
        The data frame with columns ``epsilon`` and ``payment`` more, payments before rounding to minor units;
        and the prices of the parts, None with a schedule.
    """
    named = {"cost": cost, "seller": seller}
    if isinstance(prices, PriceSchedule):
        found, salt = None, b""
        if seller is not None:
            _refuse_shared(partitions_of(ddf[[seller]]), seller)
        schedules = [prices]
    else:
        if seller is None:
            raise InvalidInput("expected seller: the column of ids, by which sellers are split into parts.")
        salt = secrets.token_bytes(32)
        frames = partitions_of(ddf[[seller, cost]])
        _refuse_shared(frames, seller)
        histograms = sum(frames.get(_histograms, mechanism=prices, salt=salt, **named))
        if histograms.sum() < LEAST_SELLERS:
            raise Infeasible(f"expected at least {LEAST_SELLERS} sellers, got {histograms.sum():.0f}.")
        found = prices.price(histograms, salt)
        schedules = [schedule for (schedule,) in found.schedules]
    meta = ddf._meta.assign(epsilon=0.0, payment=0.0)
    return ddf.map_partitions(_quoted, schedules=schedules, salt=salt, **named, meta=meta), found


def _refuse_shared(parts: Parts, seller: str) -> None:
    shared = shared_ids(parts, itemgetter(seller))
    if shared:
        raise InvalidInput(f"expected one row for each seller; {shared} ids stand in two.")


def _histograms(
    frame: Any, mechanism: CrossPricedMechanism, salt: bytes, cost: str, seller: str
) -> FloatArray:
    costs = checks.non_negative_vector(cost, frame[cost].to_numpy(dtype=np.float64))
    parts = split(list(map(str, frame[seller])), salt)
    return mechanism.histograms(costs, np.zeros(costs.size, dtype=np.int64), parts)


def _quoted(frame: Any, schedules: list[PriceSchedule], salt: bytes, cost: str, seller: str | None) -> Any:
    costs = frame[cost].to_numpy(dtype=np.float64)
    one = len(schedules) == 1
    parts = np.zeros(costs.size, np.int64) if one else split(list(map(str, frame[seller])), salt)
    epsilons, payments = quote_each(schedules, parts, costs)
    return frame.assign(epsilon=epsilons, payment=payments)
