"""Tell what happened to somebody's data, in order and without a value."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.statements import Text


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes
    ----------
    kind
        A word: consented, quoted, delivered, trained ...
    at
        When, in UTC.
    """

    kind: str
    at: str


def new_event(campaign: Text, participation: Text | None, kind: str, at: Text) -> sa.Insert:
    """Return the statement that appends an event."""
    values = {"campaign": campaign, "participation": participation, "kind": kind, "at": at}
    return tables.event.insert().inline().values(values)


def new_event_of(participation: Text, kind: str, at: sa.BindParameter[str]) -> sa.Insert:
    """Return the statement that appends an event of a participation, whatever its campaign."""
    own = tables.participation.c
    chosen = sa.select(own.campaign, own.id, sa.literal(kind), at).where(own.id == participation)
    return tables.event.insert().from_select(["campaign", "participation", "kind", "at"], chosen)


def enter_event(connection: Connection, campaign: str, participation: str | None, kind: str, at: str) -> None:
    """Append an event."""
    connection.execute(new_event(campaign, participation, kind, at))


def enter_event_for_all(
    connection: Connection, campaign: str, kind: str, at: str, where: sa.ColumnElement[bool]
) -> None:
    """Append an event for every participation of a campaign for which a condition holds."""
    own = tables.participation.c
    chosen = sa.select(own.campaign, own.id, sa.literal(kind), sa.literal(at)).where(
        own.campaign == campaign, where
    )
    columns = ["campaign", "participation", "kind", "at"]
    connection.execute(tables.event.insert().from_select(columns, chosen.order_by(own.id)))


def events_of(connection: Connection, participation: str) -> list[Event]:
    """Return what happened to one participation, oldest first."""
    columns = tables.event.c
    query = sa.select(columns.kind, columns.at).where(columns.participation == participation)
    return [Event(*row) for row in connection.execute(query.order_by(columns.number))]
