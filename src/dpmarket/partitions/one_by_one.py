"""Quote partitions seller by seller, by one curve: as one file, in the order of the files and their rows.

What somebody is quoted depends on their own report alone. Only where a budget is full depends on who came
before: on what all of them are paid, which is a sum over partitions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import polars as pl

from dpmarket.errors import Infeasible
from dpmarket.ledger.rounds import SELLER
from dpmarket.mechanisms import OnlineMechanism
from dpmarket.mechanisms.outcome import minor_amounts
from dpmarket.partitions.decisions import ByCurve
from dpmarket.partitions.looking import SCRATCH, Looked
from dpmarket.partitions.passes import (
    Money,
    Order,
    Place,
    Written,
    costs_as_written,
    decision_in,
    keep_decision,
    write,
)
from dpmarket.partitions.quoting import PartitionQuotes, result_of, write_manifest


@dataclass(frozen=True)
class Priced:
    """A partition, the file that holds what was decided, and how many minor units make one unit of money."""

    place: Place
    decision: str
    minor_units: int


def money_of(asked: Priced) -> int:
    """Return what all who stay in a partition would be paid, in minor units."""
    quoted = decision_in(asked.decision).quote(costs_as_written(asked.place))
    return int(minor_amounts(quoted.payments, quoted.errors, asked.minor_units).sum())


def write_one_by_one(
    looked: Looked, mechanism: OnlineMechanism, money: Money, available: int | None
) -> tuple[PartitionQuotes, pl.DataFrame | None]:
    """Quote everybody by the curve, and write all quotes into the folder of the work.

    Parameters
    ----------
    looked
        The partitions, all of which have sellers that stay.
    mechanism
        With the curve.
    money
        How payments become money.
    available
        What may be promised in all, in minor units; None: there is no limit. The curve's largest payment is
        set aside before a report is looked at: without room for it, the budget is full for this seller and
        all who come later.

    Returns
    -------
    tuple[PartitionQuotes, pl.DataFrame | None]
        What was quoted, and for whom the budget was full, in their order, one column; None: for nobody.

    Raises
    ------
    Infeasible
        Nobody is promised anything.
    """
    decision, scratch = looked.work / "decision", looked.work.absolute() / SCRATCH
    scratch.mkdir(mode=0o700, exist_ok=True)
    keep_decision(decision, ByCurve(mechanism.curve))
    path = os.fspath(decision.absolute())
    rooms: list[int | None] = [None] * len(looked.places)
    if available is not None:
        asked = [Priced(place, path, money.minor_units) for place in looked.places]
        before = accumulate(looked.runner.map("adding up", money_of, asked), initial=0)
        most = available - mechanism.curve.largest_amount(money.minor_units)
        rooms = [most - paid for paid, _ in zip(before, looked.places, strict=False)]
    orders = [
        Order(place, part.check, part.plain, path, money, room, str(scratch / f"full-{k}.arrow"))
        for k, (place, part, room) in enumerate(zip(looked.places, looked.scanned, rooms, strict=True))
    ]
    written = looked.runner.map("writing", write, orders)
    decision.unlink()
    full = _full(orders, written)
    shutil.rmtree(scratch, ignore_errors=True)
    _refuse_nothing(written)
    names, there = [], []
    for place, part in zip(looked.places, written, strict=True):
        if part.rows:
            names.append(Path(place.quotes).name)
            there.append(part)
        else:
            Path(place.hashes).unlink()
    result = result_of(looked, names, there)
    write_manifest(looked.work, result, looked.id_column, mechanism)
    return result, full


def _full(orders: Sequence[Order], written: Sequence[Written]) -> pl.DataFrame | None:
    lists = [order.full for order, part in zip(orders, written, strict=True) if part.full]
    return pl.concat([pl.read_ipc(name) for name in lists]).select(SELLER) if lists else None


def _refuse_nothing(written: Sequence[Written]) -> None:
    if not any(part.bought for part in written):
        quoted = sum(part.rows for part in written)
        raise Infeasible(
            f"expected at least one seller with epsilon > 0, found none among {quoted} who were quoted: "
            "nothing can be trained. Quote more sellers, or plan with a lower payment_weight."
        )
