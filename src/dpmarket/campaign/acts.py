"""Acts: functions inside one transaction, registered with the roles that may call them and their bodies.

An act is written as

.. code-block:: python

    @act("paymaster")
    def fund(tx: Tx, caller: Caller, campaign: int, amount: Amount, pool: str = "escrow") -> None: ...

    @act("seller")
    def choose(tx: Tx, me: Participation, cost: Cost) -> Quote: ...

and called by :meth:`dpmarket.campaign.database.Market.run`, whoever calls. The registry :data:`ACTS` knows
its name, roles and body, a pydantic model of what follows ``me`` or ``caller``; an API is a loop over it.
An act with the role ``seller`` gets the caller's own participation; all others get the caller. A campaign
that a caller has no role in, and one that does not exist, are refused in the same words.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import secrets
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, TypeVar

import polars as pl
import pydantic
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dpmarket.campaign import schema
from dpmarket.campaign.log import Log, make_line
from dpmarket.campaign.times import time_text
from dpmarket.errors import MarketRefusal

MEMBER_ROLES = ("buyer", "operator", "paymaster", "auditor")
ROLES = ("seller", *MEMBER_ROLES, "worker")
LARGEST_AMOUNT = 2**53
"""Of all that a campaign has, in minor units."""


def shown_id(identity: int) -> str:
    """Return a random id as addresses and answers write it: 13 letters and digits.

    Examples
    --------
    >>> shown_id(1), id_of(shown_id(2**62)) == 2**62
    ('aaaaaaaaaaaac', True)
    """
    return base64.b32encode(identity.to_bytes(8, "big")).decode().rstrip("=").lower()


def id_of(shown: object) -> object:
    """Return the id that :func:`shown_id` wrote; what is none is left to be refused."""
    if not isinstance(shown, str) or len(shown) != 13:
        return shown
    try:
        return int.from_bytes(base64.b32decode(f"{shown.upper()}==="), "big")
    except binascii.Error:
        return shown


Id = Annotated[
    int,
    pydantic.BeforeValidator(id_of),
    pydantic.PlainSerializer(shown_id, return_type=str, when_used="json"),
    pydantic.WithJsonSchema({"type": "string", "pattern": "^[a-z2-7]{13}$"}),
    pydantic.Field(ge=0, lt=2**63),
]
"""A random id: a whole number in Python, 13 letters and digits in JSON."""
Amount = Annotated[int, pydantic.Field(strict=True, gt=0, le=LARGEST_AMOUNT)]
Cost = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, pydantic.Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True)
class Caller:
    """The identity behind an act: a member, a seller by participation, or the machine's own roles.

    Attributes
    ----------
    member, participation
        Row ids; at most one of them.
    machine
        ``owner`` (of the files: every role but a seller's), ``worker``, or None.
    """

    member: int | None = None
    participation: int | None = None
    machine: str | None = None

    @property
    def label(self) -> str:
        """A short name under which idempotency keys are kept."""
        if self.participation is not None:
            return f"seller/{self.participation}"
        return f"member/{self.member}" if self.member is not None else str(self.machine)


OWNER, WORKER = Caller(machine="owner"), Caller(machine="worker")


@dataclass(frozen=True)
class Terms:
    """How long things last.

    Attributes
    ----------
    reservation, called
        How long money is held for a seller at the menu, and for one who is called from the waiting line.
    reservations
        How often a reservation may end unused before the participation expires.
    quote
        How long a quote can be accepted online.
    job
        After how long without a sign a worker is taken for dead.
    batch
        Sums are shown over whole batches of so many acceptances.
    key
        How long a campaign's key may be missing before the campaign ends.
    """

    reservation: timedelta = timedelta(minutes=15)
    called: timedelta = timedelta(hours=24)
    reservations: int = 3
    quote: timedelta = timedelta(hours=48)
    job: timedelta = timedelta(minutes=10)
    batch: int = 20
    key: timedelta = timedelta(hours=24)


@dataclass(frozen=True)
class Participation:
    """A seller's own row, with what acts need of its campaign."""

    id: int
    campaign: int
    person: int
    state: str
    reason: str | None
    pool: str
    position: int | None
    epsilon: float | None
    payment: int | None
    money_held: int
    epsilon_held: int
    until: str | None
    reservations: int
    payout: int | None
    campaign_state: str
    mechanism: str
    channel: str
    largest: int | None
    ceiling: int
    delta: int
    minor_units: int
    offer_digest: str | None
    rules_digest: str
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
MARKET = sa.select(*_MARKET)
_MARKET_AND_MINE = _MINE.add_columns(*_MARKET).join(schema.market, schema.market.c.one == 1)


def market_and_mine(c: sa.Connection, mine: int | None) -> tuple[MarketRow, Participation | None]:
    """Return the market's row and a participation, by one statement, if there is such a participation."""
    found = None if mine is None else c.execute(_MARKET_AND_MINE, {"mine": mine}).one_or_none()
    if found is None:
        return MarketRow(*c.execute(MARKET).one()), None
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
    """One transaction of one act.

    Attributes
    ----------
    c
        The connection.
    moment, now
        The time, and the same as the database writes it.
    row, me
        The market's row, and the participation of a caller who is a seller.
    terms
        How long things last.
    """

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

    def event(self, campaign: int, kind: str, participation: int | None = None) -> None:
        """Enter that something happened; an event has no values."""
        self.c.execute(self.new_event(campaign, kind, participation))

    def new_event(self, campaign: int, kind: str, participation: int | None = None) -> sa.Insert:
        """Return the statement of :meth:`event`."""
        values = {"campaign": campaign, "participation": participation, "kind": kind, "at": self.now}
        return schema.event.insert().values(values).inline()

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
        values = {"kind": kind, "subject": subject, "lane": lane, "body": body, "state": "waiting"}
        again = {**values, "due_at": due, "attempts": 0, "claim": None, "lease_until": None, "error": None}
        self.c.execute(
            self.insert(schema.job)
            .values({**values, "due_at": due})
            .on_conflict_do_update(index_elements=["kind", "subject"], set_=again)
        )

    def snapshot(self, name: str, table: pl.DataFrame) -> dict[str, str]:
        """Write a table beside the log, before the commit point that names it."""
        return self.log.write_snapshot(name, table)

    def commit_point(self, kind: str, **body: Any) -> int:
        """Enter what cannot be taken back; the last statement of an act. Return its tick.

        It locks the market's row until COMMIT, so that ticks have no gaps.
        """
        market = schema.market
        tick, before = self.c.execute(
            market.update().values(tick=market.c.tick + 1).returning(market.c.tick, market.c.head)
        ).one()
        line = make_line(tick, self.now, kind, body, before)
        self.c.execute(market.update().values(head=line.digest))
        self.c.execute(schema.commit_log.insert(), {"tick": tick, "line": line.text, "digest": line.digest})
        self.tick = int(tick)
        return self.tick


@dataclass(frozen=True)
class Act:
    """A registered act.

    Attributes
    ----------
    name, function, roles
        What it is called, what it does, and who may.
    of_campaign
        Whether its first argument is a campaign, in which the caller must have the role.
    body
        A pydantic model of its other arguments.
    answer
        The type of what it returns.
    """

    name: str
    function: Callable[..., Any]
    roles: tuple[str, ...]
    of_campaign: bool
    body: type[pydantic.BaseModel]
    answer: Any

    @cached_property
    def adapter(self) -> pydantic.TypeAdapter[Any]:
        """Writes the answer as JSON and reads it again."""
        return pydantic.TypeAdapter(self.answer)

    @cached_property
    def request(self) -> type[pydantic.BaseModel]:
        """The body as a caller sends it: without the campaign, which an address names, and strict."""
        parts: dict[str, Any] = {
            name: (field.rebuild_annotation(), field)
            for name, field in self.body.model_fields.items()
            if name != "campaign"
        }
        settings = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
        about = (inspect.getdoc(self.function) or "").split("\n")[0]
        return pydantic.create_model(f"{self.name}_request", __config__=settings, __doc__=about, **parts)

    @cached_property
    def is_sendable(self) -> bool:
        """Whether the body can be sent as JSON; tables and arrays come from programs on this machine."""
        try:
            return bool(self.request.model_json_schema())
        except pydantic.errors.PydanticUserError:
            return False

    def bind(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, checked by the body's model.

        Raises
        ------
        MarketRefusal
            An argument is missing, unknown or wrong. The message holds no value.
        """
        names = list(self.body.model_fields)
        if len(args) > len(names):
            raise MarketRefusal("invalid", f"{self.name} takes at most {len(names)} arguments.")
        given = {**dict(zip(names, args, strict=False)), **options}
        try:
            checked = self.body.model_validate(given)
        except pydantic.ValidationError as problem:
            first = problem.errors(include_input=False, include_context=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise MarketRefusal("invalid", f"{self.name}: {where}: {first['msg']}.") from None
        return {name: getattr(checked, name) for name in names}


ACTS: dict[str, Act] = {}
"""All acts, by name."""

F = TypeVar("F", bound=Callable[..., Any])


def act(*roles: str) -> Callable[[F], F]:
    """Register a function as an act that these roles may call."""
    unknown = set(roles) - set(ROLES)
    if unknown:
        raise ValueError(f"no such roles: {sorted(unknown)}")

    def register(function: F) -> F:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[2:]
        of_campaign = bool(parameters) and parameters[0].name == "campaign"
        parts: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is one.empty else one.default)
            for one in parameters
        }
        settings = pydantic.ConfigDict(
            arbitrary_types_allowed=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
        )
        body = pydantic.create_model(function.__name__, __config__=settings, **parts)
        name = function.__name__.rstrip("_")
        ACTS[name] = Act(name, function, roles, of_campaign, body, hints["return"])
        return function

    return register


def authorize(tx: Tx, entry: Act, caller: Caller, arguments: Mapping[str, Any]) -> Caller | Participation:
    """Return the caller, or for a seller's act their participation.

    Raises
    ------
    MarketRefusal
        There is nothing here for this caller: no such campaign, or no role in it.
    """
    if caller.participation is not None:
        if "seller" not in entry.roles:
            raise nothing()
        if tx.me is None:
            raise nothing()
        return tx.me
    if entry.roles == ("seller",):
        raise nothing()
    campaign = arguments["campaign"] if entry.of_campaign else None
    if not is_allowed(tx.c, caller, entry.roles, campaign):
        raise nothing()
    return caller


def is_allowed(c: sa.Connection, caller: Caller, roles: tuple[str, ...], campaign: int | None) -> bool:
    """Whether a caller that is no seller has one of some roles, in a campaign if one is named."""
    owner = None
    if campaign is not None:
        found = c.execute(sa.select(_of.owner).where(_of.id == campaign)).one_or_none()
        if found is None:
            return False
        owner = found.owner
    if caller.machine is not None:
        return caller.machine == "owner" or caller.machine in roles
    if caller.member is None:
        return False
    role = schema.member_role.c
    query = (
        sa.select(role.role, role.campaign)
        .join(schema.member, schema.member.c.id == role.member)
        .where(role.member == caller.member, schema.member.c.ended_at.is_(None))
        .where(role.role.in_([one for one in roles if one in MEMBER_ROLES]))
    )
    for name, where in c.execute(query):
        if where is not None:
            if where == campaign:
                return True
        elif name != "buyer" or campaign is None or owner == caller.member:
            return True
    return False


def nothing() -> MarketRefusal:
    """Return the one refusal for what does not exist and for what belongs to others."""
    return MarketRefusal("unknown", "There is nothing here for this caller.")


def participation_of(tx: Tx, identity: int) -> Participation:
    """Return a participation; its campaign's row stays as it is until the end of the transaction."""
    row = tx.c.execute(_MINE, {"mine": identity}).one_or_none()
    if row is None:
        raise nothing()
    return Participation(*row)


def campaign_of(c: sa.Connection, campaign: int) -> Campaign:
    """Return a campaign's row."""
    row = c.execute(sa.select(*_CAMPAIGN_COLUMNS).where(_of.id == campaign)).one_or_none()
    if row is None:
        raise nothing()
    return Campaign(*row)


_CAMPAIGN_COLUMNS = [_of[field.name] for field in fields(Campaign)]


def lock_campaign(tx: Tx, campaign: int) -> Campaign:
    """Return a campaign's row, which no other act can use until the end of the transaction."""
    query = sa.select(*_CAMPAIGN_COLUMNS).where(_of.id == campaign).with_for_update()
    row = tx.c.execute(query).one_or_none()
    if row is None:
        raise nothing()
    return Campaign(*row)


def move(tx: Tx, me: Participation, state: str, *others: sa.Update | sa.Insert, **values: Any) -> None:
    """Change a participation if it is still as it was read, and other tables with it.

    Raises
    ------
    MarketRefusal
        Another act changed it meanwhile.
    """
    own = (
        schema.participation.update()
        .where(
            _own.id == me.id,
            _own.state == me.state,
            _own.money_held == me.money_held,
            _own.epsilon_held == me.epsilon_held,
        )
        .values(state=state, **values)
    )
    if tx.together(own, *others) != 1:
        raise MarketRefusal("state", "Another act changed this participation meanwhile; try again.")


def step(tx: Tx, campaign: int, before: tuple[str, ...], **values: Any) -> None:
    """Change a campaign if it is in one of some states.

    Raises
    ------
    MarketRefusal
        It is in another state.
    """
    changed = tx.c.execute(
        schema.campaign.update().where(_of.id == campaign, _of.state.in_(before)).values(**values)
    )
    if changed.rowcount != 1:
        raise MarketRefusal("state", f"This is possible only while the campaign is {' or '.join(before)}.")


def new_id() -> int:
    """Return a random id of 63 bits."""
    return secrets.randbits(62) + 1
