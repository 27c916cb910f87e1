"""Check a record when it comes, seal it, and open it again for training."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign.market_file import questions_of
from dpmarket.campaign.records import Records
from dpmarket.campaign.statistic_records import StatisticRecords
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.ledger.rounds import SELLER
from dpmarket.market import tables
from dpmarket.market.answers import decode_answers
from dpmarket.market.campaigns import LiveCampaign
from dpmarket.market.desk import Desk, time_text
from dpmarket.market.encoding import Record, decode_records, encode_record, zero_record
from dpmarket.market.events import new_event
from dpmarket.market.keys import Opener, seal
from dpmarket.market.opening import market_of
from dpmarket.market.standing import moving, refuse_campaign, refused, standing_of
from dpmarket.market.statements import given, together

_OPENED_AT_ONCE = 10_000


def deliver(connection: Connection, participation: str, values: Record, now: datetime) -> None:
    """Check a record, seal it to the campaign's key, and keep what is sealed.

    Parameters
    ----------
    values
        As :func:`~dpmarket.market.encoding.encode_record` takes them: by name, the features and the label, or
        what statistics are asked of.
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
    changed = together(
        connection, _delivering(), participation=participation, campaign=found.campaign, sealed=sealed, at=at
    )
    if changed != 1:
        raise refused(("accepted",))


@functools.cache
def _delivering() -> tuple[Any, ...]:
    """Return what enters a sealed record."""
    who, at = given("participation"), given("at")
    sealed = sa.bindparam("given_sealed", type_=sa.LargeBinary())
    return (
        moving(who, ("accepted",), state="delivered"),
        tables.record.insert().inline().values(participation=who, sealed=sealed, delivered_at=at),
        new_event(given("campaign"), who, "delivered", at),
    )


def opened_records(
    desk: Desk, found: LiveCampaign, people: pl.DataFrame, promised: FloatArray
) -> Records | StatisticRecords:
    """Open the records of a round's people, in their order; one that does not open becomes the zero row.

    With several rows for each person, all of them. Nothing that is in a record can end this with an error:
    an error would tell.

    Raises
    ------
    FileProblem
        The campaign's private key is gone.
    """
    assert found.public_key is not None
    market = market_of(found.market)
    opener = Opener(desk.keys, found.campaign, found.public_key)
    zero = zero_record(market)
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
            if place is not None and content is not None:
                rows[place] = content
    owners = np.flatnonzero(promised > 0.0)
    contents = [rows[place] for place in owners.tolist()]
    if questions_of(market):
        columns, people_of_rows = decode_answers(market, contents)
        return StatisticRecords(owners[people_of_rows], columns, {})
    features, labels, people_of_rows = decode_records(market, contents)
    return Records(owners[people_of_rows], features, labels, {})
