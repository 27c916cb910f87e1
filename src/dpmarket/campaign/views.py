"""What each role sees: of others nothing, and what belongs to others looks like what does not exist.

A running total would show each acceptance's payment, and a payment tells the cost. Sums are therefore over
whole batches: the first 20 j acceptances, shown once there are 20 (j + 1), rounded to three digits. They
count acceptances, which stay in them if the seller withdraws: no sum ever changes by one person.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from dpmarket.campaign import money, schema
from dpmarket.campaign.acts import Caller, Id, is_allowed, refuse_others
from dpmarket.campaign.campaigns import ENDED, sellers_rules
from dpmarket.campaign.consent import ConsentPage, consent_page, consent_versions
from dpmarket.campaign.database import UNLIMITED
from dpmarket.campaign.line import place_of
from dpmarket.campaign.payouts import Payout, missing_payees, owed, payouts_of
from dpmarket.campaign.people import DELTA_UNITS, EPSILON_UNITS
from dpmarket.campaign.quoting import priced, refuse_without_reservation, schedule_of
from dpmarket.campaign.sellers import is_paid_by_panel, lacks_screening
from dpmarket.campaign.transaction import (
    PARTICIPATION,
    Campaign,
    Participation,
    Terms,
    body_of,
    campaign_of,
    nothing,
)  # fmt: skip

_own, _event, _person = schema.participation.c, schema.event.c, schema.person.c
_deed, _member, _job, _transfer = schema.deed.c, schema.member.c, schema.job.c, schema.transfer.c
Shown = TypeVar("Shown")


def show(kind: type[Shown], sources: Sequence[Any], **own: Any) -> Shown:
    """Return a view whose fields are named here or taken from the first source that has them."""
    values = dict(own)
    for name in (one.name for one in fields(kind)):  # type: ignore[arg-type]
        if name not in values:
            values[name] = next(getattr(source, name) for source in sources if hasattr(source, name))
    return kind(**values)


@dataclass(frozen=True)
class Sums:
    """What a campaign has come to so far."""

    counts: dict[str, int]  # participations by state, now; sellers priced out and those who declined apart
    acceptances: int  # over which the sums are
    epsilon: float  # rounded
    payments: int  # in minor units, rounded
    debt: int  # what the buyer owes before sellers are asked for anything


@dataclass(frozen=True)
class MyParticipation:
    """What a seller sees of their participation and its campaign."""

    campaign: Id
    name: str
    campaign_state: str
    campaign_reason: str | None
    mechanism: str
    state: str
    reason: str | None
    until: str | None
    place: int | None  # in the waiting line: how many are called before, the seller included
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None
    currency: str
    minor_units: int
    epsilon: float | None  # of the quote, as the payment
    payment: int | None
    epsilon_used: float | None  # what the release really spent
    ceiling: float | None  # the largest epsilon that the campaign can ask for; None before it opens
    payee: bool  # is named
    sent: bool
    paid_at: str | None
    screening: bool = False  # questions come before consent
    panel: bool = False  # came by a panel's link
    paid_by_panel: bool = False  # so that the seller names no payee


@dataclass(frozen=True)
class MyLimits:
    """A seller's lifetime limit of epsilon and what became of it."""

    limit: float | None  # None: no campaign has named one
    held: float
    spent: float
    elsewhere: float  # held and spent by all other campaigns, rounded up to tenths of the limit
    left: float | None  # what further campaigns can hold, at least


@dataclass(frozen=True)
class MenuLine:
    """One choice: reporting its cost is choosing its epsilon and payment, in minor units."""

    cost: float
    epsilon: float
    payment: int


@dataclass(frozen=True)
class Event:
    """Something that happened; it has no values."""

    number: int
    kind: str
    at: str


@dataclass(frozen=True)
class MyEvent:
    """Something that happened to a participation; without a number, which would count what others do."""

    kind: str
    at: str


@dataclass(frozen=True)
class ShownCampaign:
    """A campaign as everybody sees it who may see it at all."""

    id: Id
    name: str
    state: str
    reason: str | None
    mechanism: str
    currency: str
    minor_units: int
    rules_digest: str
    offer_digest: str | None
    ceiling: float | None  # the largest epsilon of anybody; None before it opens
    delta: float
    largest: int | None  # payment, online
    minimum: int  # with fewer people who report, or are shown an offer, it is cancelled
    debt: int | None  # None to a seller: with it sellers who leave would be seen
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None
    cleared_at: str | None


@dataclass(frozen=True)
class Money:
    """What a campaign's payer sees, in minor units."""

    funded: int  # what came in, less what went back
    refundable: int | None  # None while it would tell what sellers are paid
    owed: int | None  # of an ended campaign, in no payout yet; this and the next two are None to the buyer
    sent: int | None
    confirmed: int | None
    missing_payees: int  # sellers who are owed money and have named no payee
    payouts: list[Payout]


_INVOLVED = ("seller", "buyer", "operator", "auditor", "paymaster")


def show_campaign(c: sa.Connection, caller: Caller, campaign: int) -> ShownCampaign:
    """Return a campaign to its sellers and to members with a role in it."""
    return shown(_visible(c, caller, campaign, *_INVOLVED), caller)


def shown(found: Campaign, caller: Caller) -> ShownCampaign:
    """Return what a caller sees of a campaign."""
    opened = found.state != "draft" and found.ceiling > 0
    return show(
        ShownCampaign,
        [found],
        ceiling=found.ceiling / EPSILON_UNITS if opened else None,
        delta=found.delta / DELTA_UNITS,
        minimum=sellers_rules(found).minimum,
        debt=None if caller.participation is not None else found.debt,
    )


def show_rules(c: sa.Connection, caller: Caller, campaign: int) -> str:
    """Return a campaign's rules as JSON; to sellers without the panel's addresses and completion codes."""
    rules = str(_visible(c, caller, campaign, *_INVOLVED).rules)
    if caller.participation is None or '"panel":' not in rules:
        return rules
    shown = {name: table for name, table in json.loads(rules).items() if name != "panel"}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def show_sums(c: sa.Connection, caller: Caller, campaign: int, terms: Terms | None = None) -> Sums:
    """Return a campaign's sums, over whole batches, to its buyer or an auditor."""
    found = _visible(c, caller, campaign, "buyer", "auditor")
    batch = (terms or Terms()).batch
    states = sa.select(_own.state, sa.func.count()).where(_own.campaign == campaign).group_by(_own.state)
    counts: dict[str, int] = dict(c.execute(states).all())
    if found.state in ENDED or found.channel != "live":
        of_sums = sa.and_(_own.campaign == campaign, sa.or_(_own.state == "spent", _own.state == "accepted"))
    else:
        accepted = sa.and_(_event.campaign == campaign, _event.kind == "accepted")
        number = c.scalar(sa.select(sa.func.count()).where(accepted)) or 0
        first = sa.select(_event.participation).where(accepted).order_by(_event.number)
        of_sums = _own.id.in_(first.limit(max(number // batch - 1, 0) * batch))
    sums = sa.select(sa.func.count(), sa.func.sum(_own.epsilon), sa.func.sum(_own.payment)).where(of_sums)
    people, *amounts = c.execute(sums).one()
    epsilon, payments = (float(f"{amount or 0:.3g}") for amount in amounts)
    return Sums(counts, people, epsilon, int(payments), found.debt)


def show_participation(c: sa.Connection, caller: Caller) -> MyParticipation:
    """Return a seller's own participation."""
    row = _mine(c, caller)
    found = campaign_of(c, row.campaign)
    waits = row.state == "waiting" and row.reason == "room"
    return show(
        MyParticipation,
        [row, found],
        campaign_state=found.state,
        campaign_reason=found.reason,
        place=place_of(c, row) if waits else None,
        ceiling=found.ceiling / EPSILON_UNITS if found.ceiling else None,
        payee=row.payee is not None,
        sent=row.payout is not None,
        screening=row.state == "invited" and lacks_screening(found, row),
        panel=bool(row.panel),
        paid_by_panel=bool(row.panel) and is_paid_by_panel(found),
    )


def show_consent(c: sa.Connection, caller: Caller, language: str) -> ConsentPage:
    """Return what a seller is asked to agree to, in a language or, without one, in the first there is."""
    found = campaign_of(c, _mine(c, caller).campaign)
    known = consent_versions(c).get(found.consent, [])
    chosen = language if language in known or not known else "en" if "en" in known else known[0]
    return consent_page(c, found, chosen)


def show_menu(c: sa.Connection, caller: Caller, now: str, points: int = 50) -> list[MenuLine]:
    """Return the menu of a seller with a reservation, the most private choice first."""
    me = _mine(c, caller)
    refuse_without_reservation(me, now)
    schedule = schedule_of(c, me)
    costs = schedule.menu(points)[0]
    epsilons, amounts = priced(schedule, costs, me.minor_units)
    order = np.argsort(epsilons, kind="stable")
    return [MenuLine(float(costs[k]), float(epsilons[k]), int(amounts[k])) for k in order]


def show_limits(c: sa.Connection, caller: Caller) -> MyLimits:
    """Return a seller's lifetime limit; what other campaigns have of it is shown in tenths, rounded up."""
    row = _mine(c, caller)
    person = c.execute(sa.select(schema.person).where(_person.id == row.person)).one()
    held, spent = row.epsilon_held / EPSILON_UNITS, row.epsilon_spent / EPSILON_UNITS
    if person.epsilon_cap >= UNLIMITED:
        return MyLimits(None, held, spent, 0.0, None)
    others = person.epsilon_held + person.epsilon_spent - row.epsilon_held - row.epsilon_spent
    tenths = -(-10 * others // person.epsilon_cap) if person.epsilon_cap else 0
    limit = person.epsilon_cap / EPSILON_UNITS
    elsewhere = limit * tenths / 10.0
    return MyLimits(limit, held, spent, elsewhere, max(limit - elsewhere - held - spent, 0.0))


def is_person(c: sa.Connection, caller: Caller, digest: bytes) -> bool:
    """Whether a seller is the person of a digest."""
    return digest == c.scalar(sa.select(_person.digest).where(_person.id == _mine(c, caller).person))


def show_history(c: sa.Connection, caller: Caller) -> list[MyEvent]:
    """Return what happened to a seller's participation, and when."""
    mine = sa.select(_event.kind, _event.at).where(_event.participation == _mine(c, caller).id)
    return [MyEvent(*one) for one in c.execute(mine.order_by(_event.number))]


def show_money(c: sa.Connection, caller: Caller, campaign: int) -> Money:
    """Return what came in and went out; to a buyer without payouts, which tell what a seller is paid."""
    found = _money(c, _visible(c, caller, campaign, "paymaster", "auditor", "buyer"))
    if is_allowed(c, caller, ("paymaster", "auditor"), campaign):
        return found
    return replace(found, owed=None, sent=None, confirmed=None, payouts=[])


def list_money(c: sa.Connection, caller: Caller) -> list[tuple[ShownCampaign, Money]]:
    """Return what came in and went out of all campaigns of a paymaster, oldest first."""
    return [(shown(one, caller), _money(c, one)) for one in _campaigns(c, caller, "paymaster")]


def _money(c: sa.Connection, found: Campaign) -> Money:
    query = sa.select(_transfer.kind, sa.func.sum(_transfer.amount)).where(_transfer.campaign == found.id)
    sums = {kind: int(amount) for kind, amount in c.execute(query.group_by(_transfer.kind))}
    free = sum(money.free_by_pool(c, found.id).values())
    in_payout = sa.and_(_own.campaign == found.id, _own.payout.is_not(None))

    def payments(condition: Any) -> int:
        return int(c.scalar(sa.select(sa.func.sum(_own.payment)).where(condition)) or 0)

    return Money(
        funded=sums.get("fund", 0) - sums.get("refund", 0),
        refundable=free if found.state in ("draft", *ENDED) else None,
        owed=payments(owed(found)),
        sent=payments(sa.and_(in_payout, _own.paid_at.is_(None))),
        confirmed=payments(sa.and_(in_payout, _own.paid_at.is_not(None))),
        missing_payees=missing_payees(c, found),
        payouts=payouts_of(c, found.id),
    )


SEALED = ("openings", "costs")  # documents that are sealed to the operator's key


def show_document(c: sa.Connection, caller: Caller, campaign: int, kind: str) -> bytes:
    """Return a document: released ones to buyer, sellers and auditors, sealed ones to auditors alone."""
    roles = {"report": ("buyer", "auditor"), **dict.fromkeys(SEALED, ("auditor",))}
    _visible(c, caller, campaign, *roles.get(kind, ("buyer", "seller", "auditor")))
    if kind == "receipt" and caller.participation is None:
        raise nothing()
    whose = caller.participation if kind == "receipt" else None
    found = body_of(c, campaign, kind, whose)
    if not found:  # an empty report says that there is none
        raise nothing()
    return found


def has_report(c: sa.Connection, campaign: int) -> bool | None:
    """Whether a campaign has a report: False if too few people sold for one, None if it is not made yet."""
    found = body_of(c, campaign, "report")
    return None if found is None else len(found) > 0


def list_campaigns(c: sa.Connection, caller: Caller) -> list[ShownCampaign]:
    """Return all campaigns that a member has a role in, oldest first."""
    return [shown(one, caller) for one in _campaigns(c, caller, "buyer", "operator", "paymaster", "auditor")]


def _campaigns(c: sa.Connection, caller: Caller, *roles: str) -> list[Campaign]:
    of = schema.campaign.c
    live = sa.select(schema.campaign).where(of.channel == "live").order_by(of.made_at, of.id)
    return [one for one in c.execute(live).all() if is_allowed(c, caller, roles, one.id)]


def campaign_of_payout(c: sa.Connection, caller: Caller, payout: int) -> tuple[ShownCampaign, Payout]:
    """Return a payout and its campaign, to a paymaster."""
    campaign = c.scalar(sa.select(schema.payout.c.campaign).where(schema.payout.c.id == payout))
    if campaign is None:
        raise nothing()
    found = _visible(c, caller, campaign, "paymaster")
    (made,) = (one for one in payouts_of(c, campaign) if one.id == payout)
    return shown(found, caller), made


def list_roles(c: sa.Connection, caller: Caller) -> list[tuple[str, str]]:
    """Return role and name of every member who works on a seller's campaign; its buyer first."""
    found, role = campaign_of(c, _mine(c, caller).campaign), schema.member_role.c
    query = (
        sa.select(role.role, _member.name)
        .join(schema.member, _member.id == role.member)
        .where(_member.ended_at.is_(None), sa.or_(role.campaign.is_(None), role.campaign == found.id))
        .where(sa.or_(role.role != "buyer", _member.id == found.owner, role.campaign == found.id))
        .order_by(role.role, _member.name)
    )
    rows = dict.fromkeys(c.execute(query).all())
    return sorted(rows, key=lambda row: _INVOLVED.index(row[0]))


def job_counts(c: sa.Connection) -> dict[tuple[str, str], int]:
    """Return how many jobs of which kind are in which state."""
    query = sa.select(_job.kind, _job.state, sa.func.count()).group_by(_job.kind, _job.state)
    return {(kind, state): number for kind, state, number in c.execute(query)}


def count_unpaid(c: sa.Connection) -> int:
    """Return how many campaigns wait for their buyers' money."""
    return c.scalar(sa.select(sa.func.count()).where(schema.campaign.c.state == "unpaid")) or 0


def list_events(c: sa.Connection, caller: Caller, campaign: int, after: int = 0) -> list[Event]:
    """Return a campaign's own events, without those of its sellers."""
    _visible(c, caller, campaign, "buyer", "auditor", "operator", "paymaster")
    own = sa.and_(_event.campaign == campaign, _event.participation.is_(None), _event.number > after)
    query = sa.select(_event.number, _event.kind, _event.at).where(own).order_by(_event.number)
    return [Event(*row) for row in c.execute(query)]


@dataclass(frozen=True)
class Deed:
    """An act of a member: who, what, on which campaign, when; it has no values."""

    number: int
    member: str
    act: str
    campaign: str | None
    at: str


@dataclass(frozen=True)
class Failed:
    """Jobs that failed, or that were perhaps done: how many of a kind, and the class of their last error."""

    kind: str
    state: str
    error: str | None
    number: int


@dataclass(frozen=True)
class Entry:
    """Money that came in or went out: ``fund``, ``refund``, ``payout`` or ``returned``."""

    kind: str
    amount: int
    at: str


_MOST = 10_000
_DEEDS = (
    sa.select(_deed.id, _member.name, _deed.act, schema.campaign.c.name, _deed.at)
    .join(schema.member, _member.id == _deed.member)
    .outerjoin(schema.campaign, schema.campaign.c.id == _deed.campaign)
)


def list_deeds(c: sa.Connection, caller: Caller, most: int = 200) -> list[Deed]:
    """Return the last acts of all members, newest first, to an operator or auditor."""
    refuse_others(c, caller, "operator", "auditor")
    return [Deed(*row) for row in c.execute(_DEEDS.order_by(_deed.id.desc()).limit(most))]


def deeds_after(c: sa.Connection, caller: Caller, campaign: int | None, after: int = 0) -> list[Deed]:
    """Return acts of members on a campaign, or all, oldest first, after one of a number: at most 10,000."""
    refuse_others(c, caller, "operator", "auditor", campaign=campaign)
    query = _DEEDS.where(_deed.id > after).order_by(_deed.id).limit(_MOST)
    chosen = query if campaign is None else query.where(_deed.campaign == campaign)
    return [Deed(*row) for row in c.execute(chosen)]


def list_failed(c: sa.Connection, caller: Caller) -> list[Failed]:
    """Return which jobs failed, to an operator."""
    refuse_others(c, caller, "operator")
    query = (
        sa.select(_job.kind, _job.state, _job.error, sa.func.count())
        .where(_job.state.in_(("failed", "unknown")))
        .group_by(_job.kind, _job.state, _job.error)
    )
    return [Failed(*row) for row in c.execute(query.order_by(_job.kind, _job.state))]


def list_entries(c: sa.Connection, caller: Caller, campaign: int) -> list[Entry]:
    """Return the entries of money between a campaign and the outside, oldest first, to a paymaster."""
    refuse_others(c, caller, "paymaster", "auditor", campaign=campaign)
    outside = sa.or_(_transfer.debit == "outside", _transfer.credit == "outside")
    query = sa.select(_transfer.kind, _transfer.amount, _transfer.at)
    mine = query.where(_transfer.campaign == campaign, outside).order_by(_transfer.id)
    return [Entry(*row) for row in c.execute(mine)]


def _visible(c: sa.Connection, caller: Caller, campaign: int, *roles: str) -> Campaign:
    if caller.participation is not None:
        mine = c.scalar(sa.select(_own.campaign).where(_own.id == caller.participation))
        if "seller" not in roles or mine != campaign:
            raise nothing()
    else:
        refuse_others(c, caller, *roles, campaign=campaign)
    return campaign_of(c, campaign)


def _mine(c: sa.Connection, caller: Caller) -> Participation:
    row = c.execute(PARTICIPATION.where(_own.id == caller.participation)).one_or_none()
    if row is None:
        raise nothing()
    return row
