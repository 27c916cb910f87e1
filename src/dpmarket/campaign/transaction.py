"""One transaction of an act: the rows that it reads, and how it changes them.

A row is changed by a conditional update: an act whose row another act changed meanwhile is refused.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dpmarket.campaign import schema
from dpmarket.campaign.log import Log, make_line
from dpmarket.campaign.times import time_text
from dpmarket.errors import MarketRefusal


@dataclass(frozen=True)
class Terms:
    """How long things last."""

    reservation: timedelta = timedelta(minutes=15)  # of a seller at the menu
    called: timedelta = timedelta(hours=24)  # of one who is called from the waiting line
    reservations: int = 3  # may end unused; then the participation expires
    quote: timedelta = timedelta(hours=48)  # online
    job: timedelta = timedelta(minutes=10)  # without a sign a worker is taken for dead
    batch: int = 20  # acceptances, over which sums are shown
    key: timedelta = timedelta(hours=24)  # may be missing; then the campaign ends


@dataclass(frozen=True)
class Participation:
    """A seller's own row, with what acts need of its campaign."""

    id: int
    campaign: int
    person: int
    state: str
    pool: str
    money_held: int
    epsilon_held: int
    until: str | None
    reservations: int
    payout: int | None
    campaign_state: str
    mechanism: str
    largest: int | None
    ceiling: int
    delta: int
    minor_units: int
    offer_digest: str | None
    public_key: bytes | None
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None


_own, _of = schema.participation.c, schema.campaign.c
_RENAMED = {"campaign_state": _of.state.label("campaign_state")}
PARTICIPATION = sa.select(
    *(
        _RENAMED[field.name] if field.name in _RENAMED
        else _own[field.name] if field.name in _own
        else _of[field.name]
        for field in fields(Participation)
    )
).join(schema.campaign, _of.id == _own.campaign)  # fmt: skip
_MINE = PARTICIPATION.where(_own.id == sa.bindparam("mine")).with_for_update(read=True, of=schema.campaign)


@dataclass(frozen=True)
class MarketRow:
    """The market's row."""

    tick: int
    head: str
    shipped: int
    key: bytes
    operator_key: bytes | None


_MARKET = [schema.market.c[field.name] for field in fields(MarketRow)]
_MARKET_AND_MINE = _MINE.add_columns(*_MARKET).join(schema.market, schema.market.c.one == 1)


def market_row(c: sa.Connection) -> MarketRow:
    """Return the market's row."""
    return MarketRow(*c.execute(sa.select(*_MARKET)).one())


def value(c: sa.Connection, query: Any) -> Any:
    """Return the single value that a query gives; None if it gives no row."""
    return c.execute(query).scalar()


def market_and_mine(c: sa.Connection, mine: int | None) -> tuple[MarketRow, Participation | None]:
    """Return the market's row and a participation, by one statement, if there is such a participation."""
    found = None if mine is None else c.execute(_MARKET_AND_MINE, {"mine": mine}).one_or_none()
    if found is None:
        return market_row(c), None
    own = len(found) - len(_MARKET)
    return MarketRow(*found[own:]), Participation(*found[:own])


@dataclass(frozen=True)
class Campaign:
    """A campaign's row."""

    id: int
    name: str
    owner: int | None
    channel: str
    mechanism: str
    state: str
    reason: str | None
    rules: str
    rules_digest: str
    offer: str | None
    offer_digest: str | None
    reports_digest: str | None
    largest: int | None
    ceiling: int
    delta: int
    currency: str
    minor_units: int
    self_funded: int
    debt: int
    public_key: bytes | None
    key_missed_at: str | None
    consent: int | None
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None
    cleared_at: str | None
    made_at: str


class Tx:
    """One transaction of one act."""

    def __init__(self, c: sa.Connection, moment: datetime, terms: Terms, log: Log, mine: int | None) -> None:
        self.c, self.moment, self.terms, self.log = c, moment, terms, log
        self.row, self.me = market_and_mine(c, mine)
        self.now = time_text(moment)
        self.tick = 0
        """The last commit point of this act; 0: it has none."""

    @cached_property
    def market_key(self) -> bytes:
        """The key of digests of ids and of payment references."""
        return bytes(self.row.key)

    def later(self, length: timedelta) -> str:
        """Return the time that long from now."""
        return time_text(self.moment + length)

    def insert(self, table: sa.Table) -> Any:
        """Return an insert that can say ``ON CONFLICT`` on this database."""
        return (sqlite if self.c.dialect.name == "sqlite" else postgresql).insert(table)

    def set(self, table: sa.Table, condition: Any, **values: Any) -> int:
        """Change the rows that meet a condition; return how many."""
        return self.c.execute(table.update().where(condition).values(**values)).rowcount

    def add(self, table: sa.Table, **values: Any) -> None:
        """Enter a row."""
        self.c.execute(table.insert(), values)

    def delete(self, table: sa.Table, condition: Any) -> int:
        """Delete the rows that meet a condition; return how many."""
        return self.c.execute(table.delete().where(condition)).rowcount

    def event(self, campaign: int, kind: str, participation: int | None = None) -> None:
        """Enter that something happened; an event has no values."""
        self.c.execute(self.new_event(campaign, kind, participation))

    def new_event(self, campaign: int, kind: str, participation: int | None = None) -> sa.Insert:
        """Return the statement of :meth:`event`."""
        values = {"campaign": campaign, "participation": participation, "kind": kind, "at": self.now}
        return schema.event.insert().values(values).inline()

    def events(self, condition: Any, kind: str) -> None:
        """Enter that something happened to all participations that meet a condition."""
        rows = sa.select(_own.campaign, _own.id, sa.literal(kind), sa.literal(self.now)).where(condition)
        columns = ["campaign", "participation", "kind", "at"]
        self.c.execute(schema.event.insert().from_select(columns, rows))

    def together(self, first: sa.Update, *others: sa.Update | sa.Insert) -> int:
        """Execute statements on different tables, on PostgreSQL as one; return the rows the first changed."""
        if self.c.dialect.name == "sqlite":
            changed = self.c.execute(first).rowcount
            for statement in others:
                self.c.execute(statement)
            return changed
        own = first.returning(sa.literal(1).label("one")).cte("first")
        counted: Any = sa.select(sa.func.count()).select_from(own)
        for number, statement in enumerate(others):
            counted = counted.add_cte(statement.cte(f"other{number}"))
        return int(self.c.execute(counted).scalar_one())

    def job(
        self, kind: str, subject: int, due: str, *, lane: str = "work", body: bytes | None = None
    ) -> None:
        """Enter a job of the queue; one of this kind and subject that ended is due again."""
        values = {"lane": lane, "body": body, "state": "waiting", "due_at": due, "attempts": 0}
        again = {**values, "claim": None, "lease_until": None, "error": None}
        put = self.insert(schema.job).values(kind=kind, subject=subject, **values)
        self.c.execute(put.on_conflict_do_update(index_elements=["kind", "subject"], set_=again))

    def commit_point(self, kind: str, **body: Any) -> int:
        """Enter what cannot be taken back; the last statement of an act. Return its tick.

        It locks the market's row until COMMIT, so that ticks have no gaps.
        """
        market, of_market = schema.market, schema.market.c
        next_tick = market.update().values(tick=of_market.tick + 1)
        tick, before = self.c.execute(next_tick.returning(of_market.tick, of_market.head)).one()
        line = make_line(tick, self.now, kind, body, before)
        self.c.execute(market.update().values(head=line.digest))
        self.add(schema.commit_log, tick=tick, line=line.text, digest=line.digest)
        self.tick = int(tick)
        return self.tick


def nothing() -> MarketRefusal:
    """Return the one refusal for what does not exist and for what belongs to others."""
    return MarketRefusal("unknown", "There is nothing here for this caller.")


def require(holds: object, kind: str, sentence: str) -> None:
    """Refuse an act with a sentence unless something holds."""
    if not holds:
        raise MarketRefusal(kind, sentence)


def participation_of(tx: Tx, identity: int) -> Participation:
    """Return a participation; its campaign's row stays as it is until the end of the transaction."""
    row = tx.c.execute(_MINE, {"mine": identity}).one_or_none()
    if row is None:
        raise nothing()
    return Participation(*row)


_CAMPAIGNS = sa.select(*(_of[field.name] for field in fields(Campaign)))


def body_of(c: sa.Connection, campaign: int, kind: str, whose: int | None = None) -> bytes | None:
    """Return a campaign's document, or somebody's of it; None if there is none."""
    own = schema.document.c
    mine = sa.and_(own.campaign == campaign, own.participation.is_not_distinct_from(whose))
    found = value(c, sa.select(own.body).where(mine, own.kind == kind))
    return None if found is None else bytes(found)


def campaign_of(c: sa.Connection, campaign: int, query: Any = _CAMPAIGNS) -> Campaign:
    """Return a campaign's row."""
    row = c.execute(query.where(_of.id == campaign)).one_or_none()
    if row is None:
        raise nothing()
    return Campaign(*row)


def lock_campaign(tx: Tx, campaign: int) -> Campaign:
    """Return a campaign's row, which no other act can use until the end of the transaction."""
    return campaign_of(tx.c, campaign, _CAMPAIGNS.with_for_update())


def move(tx: Tx, me: Participation, state: str, *others: sa.Update | sa.Insert, **values: Any) -> None:
    """Change a participation, if no other act did since it was read, and other tables with it."""
    unchanged = (
        _own.id == me.id,
        _own.state == me.state,
        _own.money_held == me.money_held,
        _own.epsilon_held == me.epsilon_held,
    )
    own = schema.participation.update().where(*unchanged).values(state=state, **values)
    done = tx.together(own, *others) == 1
    require(done, "state", "Another act changed this participation meanwhile; try again.")


def step(tx: Tx, campaign: int, before: tuple[str, ...], **values: Any) -> None:
    """Change a campaign that is in one of some states."""
    done = tx.set(schema.campaign, sa.and_(_of.id == campaign, _of.state.in_(before)), **values)
    require(done == 1, "state", f"This is possible only while the campaign is {' or '.join(before)}.")


def new_id() -> int:
    """Return a random id of 63 bits."""
    return secrets.randbits(62) + 1
