"""Check a record when it comes, write it to a fixed width, seal it, and open it again for training."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign.features import plain_bounds
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.records import Records
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.ledger.rounds import SELLER
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign
from dpmarket.market.desk import Desk, time_text
from dpmarket.market.events import new_event
from dpmarket.market.keys import Opener, seal
from dpmarket.market.opening import market_of
from dpmarket.market.standing import moving, refuse_campaign, refused, standing_of
from dpmarket.market.statements import together

_OPENED_AT_ONCE = 10_000


def encode_record(market: Market, values: Mapping[str, Any]) -> bytes:
    """Write a record as bytes of one length, whatever is in it: a length would tell something.

    Parameters
    ----------
    market
        Which features, bounds and labels to expect.
    values
        By name: a number for every feature, and one of the labels.

    Raises
    ------
    MarketRefusal
        Names what is missing or wrong, never a value, nor an unknown name.
    """
    expected = [*market.features, market.label.column]
    if set(values) != set(expected):
        missing = [name for name in expected if name not in values]
        raise MarketRefusal("invalid", f"expected exactly {', '.join(expected)}; {len(missing)} are missing.")
    numbers = []
    for name, low, high in plain_bounds(market):
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise MarketRefusal("invalid", f"{name}: expected a number.")
        if not low <= value <= high and market.training.outside_bounds == "refuse":
            raise MarketRefusal("invalid", f"{name}: expected a number from {low:g} to {high:g}.")
        numbers.append(min(max(float(value), low), high))
    label = values[market.label.column]
    if type(label) is not type(market.label.values[0]) or label not in market.label.values:
        raise MarketRefusal("invalid", f"{market.label.column}: expected one of the labels.")
    return struct.pack(f"<{len(numbers)}dB", *numbers, market.label.values.index(label))


def zero_row(market: Market) -> bytes:
    """Return the public row that stands for a record that cannot be opened: the middle of all bounds."""
    middles = [(low + high) / 2 for _, low, high in plain_bounds(market)]
    return struct.pack(f"<{len(middles)}dB", *middles, 0)


def deliver(connection: Connection, participation: str, values: Mapping[str, Any], now: datetime) -> None:
    """Check a record, seal it to the campaign's key, and keep what is sealed.

    Parameters
    ----------
    values
        By name: the features and the label.
    now
        The time.

    Raises
    ------
    MarketRefusal
        The record is not what the market file asks for, the quote was not accepted or the record came
        before, or it is too late.
    """
    found, at = standing_of(connection, participation), time_text(now)
    refuse_campaign(found, "open", "deciding")
    if at >= found.deliver_until:
        raise MarketRefusal("expired", f"records could be sent until {found.deliver_until}.")
    if found.state != "accepted":
        raise refused(("accepted",))
    text = sa.select(tables.live_campaign.c.market).where(tables.live_campaign.c.campaign == found.campaign)
    market = market_of(str(connection.execute(text).scalar_one()))
    sealed = seal(found.public_key, encode_record(market, values), "record", found.campaign, participation)
    row = {"participation": participation, "sealed": sealed, "delivered_at": at}
    changed = together(
        connection,
        moving(participation, ("accepted",), state="delivered"),
        tables.record.insert().inline().values(row),
        new_event(found.campaign, participation, "delivered", at),
    )
    if changed != 1:
        raise refused(("accepted",))


def opened_records(desk: Desk, found: LiveCampaign, people: pl.DataFrame, promised: FloatArray) -> Records:
    """Open the records of a round's people, in their order; one that does not open becomes the zero row.

    Nothing that is in a record can end this with an error: an error would tell.

    Raises
    ------
    FileProblem
        The campaign's private key is gone.
    """
    assert found.public_key is not None
    market = market_of(found.market)
    opener = Opener(desk.keys, found.campaign, found.public_key)
    zero = zero_row(market)
    places = {seller: place for place, seller in enumerate(people.get_column(SELLER).to_list())}
    rows = [zero] * len(places)
    own, kept = tables.participation.c, tables.record.c
    query = (
        sa.select(own.id, own.person, kept.sealed)
        .join(tables.record, kept.participation == own.id)
        .where(own.campaign == found.campaign, own.state == "delivered")
    )
    with reading(desk.ledger) as connection:
        for row in connection.execute(query).yield_per(_OPENED_AT_ONCE):
            content = opener.open(bytes(row.sealed), "record", found.campaign, row.id)
            place = places.get(row.person)
            if place is not None and content is not None and _is_row(content, zero, market):
                rows[place] = content
    owners = np.flatnonzero(promised > 0.0)
    chosen = b"".join(rows[place] for place in owners.tolist())
    kind = np.dtype([("features", "<f8", (len(market.features),)), ("label", "u1")])
    table = np.frombuffer(chosen, dtype=kind)
    features = np.ascontiguousarray(table["features"].astype(np.float64))
    return Records(owners, features, table["label"].astype(np.int64), {})


def _is_row(content: bytes, zero: bytes, market: Market) -> bool:
    """Whether opened bytes are a row as :func:`encode_record` writes it."""
    if len(content) != len(zero):
        return False
    *numbers, label = struct.unpack(f"<{len(market.features)}dB", content)
    bounds = plain_bounds(market)
    inside = all(low <= number <= high for number, (_, low, high) in zip(numbers, bounds, strict=True))
    return inside and label < len(market.label.values)
