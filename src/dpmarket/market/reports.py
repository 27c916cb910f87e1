"""Keep the reports of released campaigns: pages of sums, made once by a worker, for who may see them."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.ledger.rounds import SELLER
from dpmarket.market import tables
from dpmarket.market.desk import time_text
from dpmarket.market.statements import insert
from dpmarket.market.views import Caller, show_certificate

_live, _report = tables.live_campaign.c, tables.report.c


def campaigns_without_report(connection: Connection) -> list[str]:
    """Return certified campaigns of which no report was made yet."""
    query = (
        sa.select(_live.campaign)
        .join(tables.certificate, tables.certificate.c.round == _live.round)
        .outerjoin(tables.report, _report.campaign == _live.campaign)
        .where(_live.state == "released", _report.campaign.is_(None))
    )
    return [str(campaign) for campaign in connection.execute(query).scalars()]


def keep_report(connection: Connection, campaign: str, body: bytes | None, now: datetime) -> None:
    """Keep a campaign's report, once; None if there are too few people for one."""
    values = {"campaign": campaign, "body": body, "made_at": time_text(now)}
    connection.execute(insert(connection, tables.report, values).on_conflict_do_nothing())


def has_report(connection: Connection, campaign: str) -> bool | None:
    """Whether a campaign has a report; None if none was made yet."""
    query = sa.select(_report.body.is_not(None)).where(_report.campaign == campaign)
    found = connection.execute(query).scalar()
    return None if found is None else bool(found)


def show_report(connection: Connection, caller: Caller, campaign: str) -> bytes:
    """Return a campaign's report, to its buyer or an auditor.

    Raises
    ------
    MarketRefusal
        There is none, or none for this caller.
    """
    if caller.role == "seller":
        raise MarketRefusal("unknown", "there is nothing here for this caller.")
    show_certificate(connection, caller, campaign)  # who may see this knows all totals
    kept = connection.execute(sa.select(_report.body).where(_report.campaign == campaign)).scalar()
    if kept is None:
        raise MarketRefusal("unknown", "there is no report.")
    return bytes(kept)


def quoted(connection: Connection, campaign: str) -> pl.DataFrame:
    """Return everybody's quote in a campaign, and whether their answers were used. Confidential.

    Returns
    -------
    polars.DataFrame
        Columns participation, seller, epsilon, payment_minor_units and used, by participation.
    """
    own, quote = tables.participation.c, tables.quote.c
    query = (
        sa.select(own.id, own.person, quote.epsilon, quote.payment, own.state == "spent")
        .join(tables.quote, quote.participation == own.id)
        .where(own.campaign == campaign)
        .order_by(own.id)
    )
    names = {
        "participation": pl.String,
        SELLER: pl.String,
        "epsilon": pl.Float64,
        "payment_minor_units": pl.Int64,
        "used": pl.Boolean,
    }
    return pl.DataFrame([tuple(row) for row in connection.execute(query)], schema=names, orient="row")
