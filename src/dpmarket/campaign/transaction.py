"""One transaction of an act: the rows that it reads, and how it changes them.

A row is changed by a conditional update: an act whose row another act changed meanwhile is refused.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dpmarket.campaign import schema
from dpmarket.campaign.log import Log, make_line
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


Campaign: TypeAlias = sa.Row[Any]
Participation: TypeAlias = sa.Row[Any]  # with what acts need of the campaign
MarketRow: TypeAlias = sa.Row[Any]
_own, _of, _seller, _market = schema.participation.c, schema.campaign.c, schema.seller.c, schema.market.c
PARTICIPATION = (
    sa.select(
        schema.participation, _of.state.label("campaign_state"), _of.mechanism, _of.largest, _of.ceiling
    )
    .add_columns(_of.delta, _of.minor_units, _of.offer_digest, _of.public_key)
    .add_columns(_of.opens_at, _of.closes_at, _of.deliver_until)
    .add_columns(_seller.payee, _seller.consented_at, _seller.screened_at, _seller.panel)
    .join(schema.campaign, _of.id == _own.campaign)
    .outerjoin(schema.seller, _seller.participation == _own.id)
)
"""The query of sellers' rows."""
_MINE = PARTICIPATION.where(_own.id == sa.bindparam("mine")).with_for_update(read=True, of=schema.campaign)
_MARKET = [_market.tick, _market.head, _market.shipped, _market.key, _market.operator_key]
_MARKET_AND_MINE = _MINE.add_columns(*_MARKET).join(schema.market, _market.one == 1)


def market_row(c: sa.Connection) -> MarketRow:
    """Return the market's row."""
    return c.execute(sa.select(*_MARKET)).one()


class Tx:
    """One transaction of one act."""

    def __init__(self, c: sa.Connection, moment: datetime, terms: Terms, log: Log, mine: int | None) -> None:
        self.c, self.moment, self.terms, self.log = c, moment, terms, log
        self.me = None if mine is None else c.execute(_MARKET_AND_MINE, {"mine": mine}).one_or_none()
        self.row = market_row(c) if self.me is None else self.me
        self.market_key: bytes = self.row.key  # of digests of ids and of payment references
        self.now = schema.time_text(moment)
        self.tick = 0
        """The last commit point of this act; 0: it has none."""

    def later(self, length: timedelta) -> str:
        """Return the time that long from now."""
        return schema.time_text(self.moment + length)

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

    def campaign(self, identity: int) -> Campaign:
        """Return a campaign's row."""
        return campaign_of(self.c, identity)

    def participation(self, identity: int) -> Participation:
        """Return a participation; its campaign's row stays as it is until the end of the transaction."""
        row = self.c.execute(_MINE, {"mine": identity}).one_or_none()
        if row is None:
            raise nothing()
        return row

    def move(self, me: Participation, state: str, *others: sa.Update | sa.Insert, **values: Any) -> None:
        """Change a participation, if no other act did since it was read, and other tables with it."""
        read = ("id", "state", "money_held", "epsilon_held")
        unchanged = sa.and_(*(_own[name] == getattr(me, name) for name in read))
        own = schema.participation.update().where(unchanged).values(state=state, **values)
        done = self.together(own, *others) == 1
        require(done, "state", "Another act changed this participation meanwhile; try again.")

    def job(
        self, kind: str, subject: int, due: str, *, lane: str = "work", body: bytes | None = None
    ) -> None:
        """Enter a job of the queue; one of this kind and subject that ended is due again."""
        values = {"lane": lane, "body": body, "state": "waiting", "due_at": due, "attempts": 0}
        again = {**values, "claim": None, "lease_until": None, "error": None}
        put = self.insert(schema.job).values(kind=kind, subject=subject, **values)
        self.c.execute(put.on_conflict_do_update(index_elements=["kind", "subject"], set_=again))

    def jobs(self, kind: str, subjects: Sequence[int], lane: str) -> None:
        """Enter a job for each of some subjects, due now."""
        for subject in subjects:
            self.job(kind, subject, self.now, lane=lane)

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


def body_of(c: sa.Connection, campaign: int, kind: str, whose: int | None = None) -> bytes | None:
    """Return a campaign's document, or somebody's of it; None if there is none."""
    own = schema.document.c
    mine = sa.and_(own.campaign == campaign, own.participation.is_not_distinct_from(whose))
    return c.scalar(sa.select(own.body).where(mine, own.kind == kind))


_CAMPAIGNS = sa.select(schema.campaign).where(_of.id == sa.bindparam("campaign"))


def campaign_of(c: sa.Connection, campaign: int, query: Any = _CAMPAIGNS) -> Campaign:
    """Return a campaign's row."""
    row = c.execute(query, {"campaign": campaign}).one_or_none()
    if row is None:
        raise nothing()
    return row


def lock_campaign(tx: Tx, campaign: int, *states: str) -> Campaign:
    """Return a campaign's row, in one of some states, which no other act can use meanwhile."""
    found = campaign_of(tx.c, campaign, _CAMPAIGNS.with_for_update())
    require(not states or found.state in states, "state", only_while(*states))
    return found


def only_while(*states: str) -> str:
    """Return the refusal of an act in another state of the campaign."""
    return f"This is possible only while the campaign is {' or '.join(states)}."


def step(tx: Tx, campaign: int, before: tuple[str, ...], **values: Any) -> None:
    """Change a campaign that is in one of some states."""
    done = tx.set(schema.campaign, sa.and_(_of.id == campaign, _of.state.in_(before)), **values)
    require(done == 1, "state", only_while(*before))


def new_id() -> int:
    """Return a random id of 63 bits."""
    return secrets.randbits(62) + 1
