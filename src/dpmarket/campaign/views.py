"""What each role sees: of others nothing, and what belongs to others looks like what does not exist.

A running total would show each acceptance's payment, and a payment tells the cost. Sums are therefore over
whole batches: the first 20 j acceptances, shown once there are 20 (j + 1), rounded to three digits. They
count acceptances, which stay in them if the seller withdraws: no sum ever changes by one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from dpmarket.campaign import money, schema
from dpmarket.campaign.acts import (
    PARTICIPATION,
    Caller,
    Campaign,
    Id,
    Participation,
    Terms,
    campaign_of,
    is_allowed,
    nothing,
)
from dpmarket.campaign.campaigns import ENDED, sellers_rules
from dpmarket.campaign.consent import ConsentPage, consent_page, languages_of
from dpmarket.campaign.database import UNLIMITED
from dpmarket.campaign.payouts import Payout, missing_payees, owed, payouts_of
from dpmarket.campaign.people import DELTA_UNITS, EPSILON_UNITS
from dpmarket.campaign.quoting import minor_amounts, schedule_of
from dpmarket.errors import MarketRefusal

_own, _event, _person, _document = (
    schema.participation.c,
    schema.event.c,
    schema.person.c,
    schema.document.c,
)


@dataclass(frozen=True)
class Sums:
    """What a campaign has come to so far.

    Attributes
    ----------
    counts
        How many participations are in which state, now; sellers priced out and sellers who declined apart.
    acceptances, epsilon, payments
        Over how many acceptances the sums are; the sums of epsilons and of payments in minor units, rounded.
    debt
        What the buyer owes before sellers are asked for anything.
    """

    counts: dict[str, int]
    acceptances: int
    epsilon: float
    payments: int
    debt: int


@dataclass(frozen=True)
class MyParticipation:
    """What a seller sees of the own participation.

    Attributes
    ----------
    campaign, name, campaign_state, campaign_reason, mechanism
        Which campaign, and where it stands.
    state, reason, until, place
        Where the participation stands; in the waiting line, how many are called before, the seller included.
    opens_at, closes_at, deliver_until
        The campaign's times.
    currency, minor_units
        Of the payment.
    epsilon, payment
        The quote, once there is one.
    epsilon_used
        What the release really spent.
    ceiling
        The largest epsilon that the campaign can ask for; None before it opens.
    payee, sent, paid_at
        Whether a payee is named, whether the payment is on its way, and when it was confirmed.
    """

    campaign: Id
    name: str
    campaign_state: str
    campaign_reason: str | None
    mechanism: str
    state: str
    reason: str | None
    until: str | None
    place: int | None
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None
    currency: str
    minor_units: int
    epsilon: float | None
    payment: int | None
    epsilon_used: float | None
    ceiling: float | None
    payee: bool
    sent: bool
    paid_at: str | None


@dataclass(frozen=True)
class MyLimits:
    """A seller's lifetime limit and what became of it.

    Attributes
    ----------
    limit
        The largest epsilon over all campaigns; None: no campaign has named one.
    held, spent
        What this campaign holds and has spent.
    elsewhere
        What all other campaigns hold and have spent together, rounded up to tenths of the limit.
    left
        What further campaigns can hold, at least.
    """

    limit: float | None
    held: float
    spent: float
    elsewhere: float
    left: float | None


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
    """A campaign as everybody sees it who may see it at all.

    Attributes
    ----------
    id, name, state, reason, mechanism
        Which, and where it stands.
    currency, minor_units
        Of its money.
    rules_digest, offer_digest
        Of the rules, frozen when it opens, and of the prices.
    ceiling, delta, largest
        The largest epsilon and the delta of anybody, and the largest payment online; None before it opens.
    minimum
        With fewer people who report, or are shown an offer, it is cancelled.
    debt
        What the buyer must pay before sellers are asked for anything; None to a seller: with it sellers who
        leave would be seen.
    opens_at, closes_at, deliver_until, cleared_at
        Its times.
    """

    id: Id
    name: str
    state: str
    reason: str | None
    mechanism: str
    currency: str
    minor_units: int
    rules_digest: str
    offer_digest: str | None
    ceiling: float | None
    delta: float
    largest: int | None
    minimum: int
    debt: int | None
    opens_at: str | None
    closes_at: str | None
    deliver_until: str | None
    cleared_at: str | None


@dataclass(frozen=True)
class Money:
    """What a campaign's payer sees.

    Attributes
    ----------
    funded
        What came in, less what went back.
    refundable
        What can go back now; None while it would tell what sellers are paid.
    owed, sent, confirmed
        Of an ended campaign: not in a payout, in one, and confirmed.
    missing_payees
        How many sellers are owed money and have named no payee.
    payouts
        All payouts.
    """

    funded: int
    refundable: int | None
    owed: int
    sent: int
    confirmed: int
    missing_payees: int
    payouts: list[Payout]


_INVOLVED = ("seller", "buyer", "operator", "auditor", "paymaster")


def show_campaign(c: sa.Connection, caller: Caller, campaign: int) -> ShownCampaign:
    """Return a campaign to its sellers and to members with a role in it."""
    return shown(_visible(c, caller, campaign, *_INVOLVED), caller)


def shown(found: Campaign, caller: Caller) -> ShownCampaign:
    """Return what a caller sees of a campaign."""
    opened = found.state != "draft" and found.ceiling > 0
    return ShownCampaign(
        found.id,
        found.name,
        found.state,
        found.reason,
        found.mechanism,
        found.currency,
        found.minor_units,
        found.rules_digest,
        found.offer_digest,
        found.ceiling / EPSILON_UNITS if opened else None,
        found.delta / DELTA_UNITS,
        found.largest,
        sellers_rules(found).minimum,
        None if caller.participation is not None else found.debt,
        found.opens_at,
        found.closes_at,
        found.deliver_until,
        found.cleared_at,
    )


def show_rules(c: sa.Connection, caller: Caller, campaign: int) -> str:
    """Return a campaign's rules as JSON: what is bought, at which prices, and which records are asked for."""
    return _visible(c, caller, campaign, *_INVOLVED).rules


def show_sums(c: sa.Connection, caller: Caller, campaign: int, terms: Terms | None = None) -> Sums:
    """Return a campaign's sums to its buyer or an auditor."""
    found = _visible(c, caller, campaign, "buyer", "auditor")
    batch = (terms or Terms()).batch
    states = sa.select(_own.state, sa.func.count()).where(_own.campaign == campaign).group_by(_own.state)
    counts = {str(state): int(number) for state, number in c.execute(states)}
    if found.state in ENDED or found.channel != "live":
        selling = sa.or_(_own.state == "spent", _own.state == "accepted")
        part = sa.select(_own.epsilon, _own.payment).where(_own.campaign == campaign, selling).subquery()
    else:
        accepted = sa.and_(_event.campaign == campaign, _event.kind == "accepted")
        number = int(c.execute(sa.select(sa.func.count()).where(accepted)).scalar_one())
        first = (
            sa.select(_event.participation)
            .where(accepted)
            .order_by(_event.number)
            .limit(max(number // batch - 1, 0) * batch)
        )
        part = sa.select(_own.epsilon, _own.payment).where(_own.id.in_(first)).subquery()
    sums = sa.select(sa.func.count(), sa.func.sum(part.c.epsilon), sa.func.sum(part.c.payment))
    people, epsilon, payments = c.execute(sums.select_from(part)).one()
    rounded = (_three_digits(float(epsilon or 0.0)), int(_three_digits(float(payments or 0))))
    return Sums(counts, int(people), *rounded, found.debt)


def show_participation(c: sa.Connection, caller: Caller) -> MyParticipation:
    """Return a seller's own participation."""
    row = _mine(c, caller)
    found = campaign_of(c, row.campaign)
    return MyParticipation(
        found.id,
        found.name,
        found.state,
        found.reason,
        found.mechanism,
        row.state,
        row.reason,
        row.until,
        _place(c, row) if row.state == "waiting" and row.reason == "room" else None,
        found.opens_at,
        found.closes_at,
        found.deliver_until,
        found.currency,
        found.minor_units,
        row.epsilon,
        row.payment,
        row.epsilon_used,
        found.ceiling / EPSILON_UNITS if found.ceiling else None,
        row.payee is not None,
        row.payout is not None,
        row.paid_at,
    )


def _place(c: sa.Connection, row: Any) -> int:
    """Return how many of the same pool are called before a seller, the seller included."""
    before = sa.or_(_own.since < row.since, sa.and_(_own.since == row.since, _own.position <= row.position))
    waiting = sa.and_(_own.campaign == row.campaign, _own.pool == row.pool, _own.state == "waiting")
    query = sa.select(sa.func.count()).where(waiting, _own.reason == "room", before)
    return int(c.execute(query).scalar_one())


def show_consent(c: sa.Connection, caller: Caller, language: str) -> ConsentPage:
    """Return what a seller is asked to agree to, in a language or, without one, in the first there is."""
    found = campaign_of(c, _mine(c, caller).campaign)
    known = languages_of(c, found)
    chosen = language if language in known or not known else "en" if "en" in known else known[0]
    return consent_page(c, found, chosen)


def show_menu(c: sa.Connection, caller: Caller, now: str, points: int = 50) -> list[MenuLine]:
    """Return the menu of a seller with a reservation, the most private choice first.

    Raises
    ------
    MarketRefusal
        There is no reservation, so that nobody chooses in vain.
    """
    row = c.execute(PARTICIPATION.where(_own.id == _mine(c, caller).id)).one()
    me = Participation(*row)
    if me.state != "reserved":
        raise MarketRefusal("state", "Only sellers with a reservation can do this.")
    if str(me.until) <= now:
        raise MarketRefusal("expired", "The reservation has ended; ask for another one.")
    schedule: Any = schedule_of(c, me)
    costs, epsilons, payments = schedule.menu(points)
    amounts = minor_amounts(epsilons, payments, me.minor_units)
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


def show_history(c: sa.Connection, caller: Caller) -> list[MyEvent]:
    """Return what happened to a seller's participation, and when."""
    row = _mine(c, caller)
    query = sa.select(_event.kind, _event.at).where(_event.participation == row.id)
    return [MyEvent(*one) for one in c.execute(query.order_by(_event.number))]


def show_money(c: sa.Connection, caller: Caller, campaign: int) -> Money:
    """Return what came in and went out, to a paymaster or an auditor, and to the buyer."""
    return _money(c, _visible(c, caller, campaign, "paymaster", "auditor", "buyer"))


def list_money(c: sa.Connection, caller: Caller) -> list[tuple[ShownCampaign, Money]]:
    """Return what came in and went out of all campaigns of a paymaster, oldest first."""
    return [(shown(one, caller), _money(c, one)) for one in _campaigns(c, caller, "paymaster")]


def _money(c: sa.Connection, found: Campaign) -> Money:
    campaign = found.id
    transfer = schema.transfer.c
    query = sa.select(transfer.kind, sa.func.sum(transfer.amount)).where(transfer.campaign == campaign)
    sums = {str(kind): int(amount) for kind, amount in c.execute(query.group_by(transfer.kind))}
    free = sum(money.free_by_pool(c, campaign).values())
    payment = sa.select(sa.func.coalesce(sa.func.sum(_own.payment), 0))
    in_payout = sa.and_(_own.campaign == campaign, _own.payout.is_not(None))
    return Money(
        sums.get("fund", 0) - sums.get("refund", 0),
        free if found.state in ("draft", *ENDED) else None,
        int(c.execute(payment.where(owed(found))).scalar_one()),
        int(c.execute(payment.where(in_payout, _own.paid_at.is_(None))).scalar_one()),
        int(c.execute(payment.where(in_payout, _own.paid_at.is_not(None))).scalar_one()),
        missing_payees(c, found),
        payouts_of(c, campaign),
    )


SEALED = ("openings", "costs")
"""Documents that are sealed to the operator's key."""


def show_document(c: sa.Connection, caller: Caller, campaign: int, kind: str) -> bytes:
    """Return a document: released ones to buyer, sellers and auditors, sealed ones to auditors alone."""
    roles: tuple[str, ...] = ("buyer", "seller", "auditor")
    if kind in SEALED:
        roles = ("auditor",)
    elif kind == "report":
        roles = ("buyer", "auditor")
    _visible(c, caller, campaign, *roles)
    whose = None
    if kind == "receipt":
        if caller.participation is None:
            raise nothing()
        whose = caller.participation
    query = sa.select(_document.body).where(
        _document.campaign == campaign,
        _document.kind == kind,
        _document.participation.is_(None) if whose is None else _document.participation == whose,
    )
    found = c.execute(query).scalar()
    if not found:  # an empty report says that there is none
        raise nothing()
    return bytes(found)


def has_report(c: sa.Connection, campaign: int) -> bool | None:
    """Whether a campaign has a report: False if too few people sold for one, None if it is not made yet."""
    mine = sa.and_(_document.campaign == campaign, _document.kind == "report")
    found = c.execute(sa.select(_document.body).where(mine)).scalar()
    return None if found is None else len(found) > 0


def list_campaigns(c: sa.Connection, caller: Caller) -> list[ShownCampaign]:
    """Return all campaigns that a member has a role in, oldest first."""
    return [shown(one, caller) for one in _campaigns(c, caller, "buyer", "operator", "paymaster", "auditor")]


def _campaigns(c: sa.Connection, caller: Caller, *roles: str) -> list[Campaign]:
    live = sa.select(schema.campaign.c.id).where(schema.campaign.c.channel == "live")
    identities = c.execute(live.order_by(schema.campaign.c.made_at, schema.campaign.c.id)).scalars().all()
    return [campaign_of(c, one) for one in identities if is_allowed(c, caller, roles, one)]


def campaign_of_payout(c: sa.Connection, caller: Caller, payout: int) -> tuple[ShownCampaign, Payout]:
    """Return a payout and its campaign, to a paymaster."""
    query = sa.select(schema.payout.c.campaign).where(schema.payout.c.id == payout)
    campaign = c.execute(query).scalar()
    if campaign is None:
        raise nothing()
    found = _visible(c, caller, campaign, "paymaster")
    (made,) = (one for one in payouts_of(c, campaign) if one.id == payout)
    return shown(found, caller), made


def list_roles(c: sa.Connection, caller: Caller) -> list[tuple[str, str]]:
    """Return role and name of every member who works on a seller's campaign; its buyer first."""
    found = campaign_of(c, _mine(c, caller).campaign)
    member, role = schema.member.c, schema.member_role.c
    query = (
        sa.select(role.role, member.name, member.id)
        .join(schema.member, member.id == role.member)
        .where(member.ended_at.is_(None), sa.or_(role.campaign.is_(None), role.campaign == found.id))
        .where(sa.or_(role.role != "buyer", member.id == found.owner, role.campaign == found.id))
        .order_by(role.role, member.name)
    )
    rows = [(str(row.role), str(row.name)) for row in c.execute(query)]
    return sorted(dict.fromkeys(rows), key=lambda row: _INVOLVED.index(row[0]))


def job_counts(c: sa.Connection) -> dict[tuple[str, str], int]:
    """Return how many jobs of which kind are in which state."""
    job = schema.job.c
    query = sa.select(job.kind, job.state, sa.func.count()).group_by(job.kind, job.state)
    return {(str(kind), str(state)): int(number) for kind, state, number in c.execute(query)}


def count_unpaid(c: sa.Connection) -> int:
    """Return how many campaigns wait for their buyers' money."""
    query = sa.select(sa.func.count()).where(schema.campaign.c.state == "unpaid")
    return int(c.execute(query).scalar_one())


def list_events(c: sa.Connection, caller: Caller, campaign: int, after: int = 0) -> list[Event]:
    """Return a campaign's own events, without those of its sellers."""
    _visible(c, caller, campaign, "buyer", "auditor", "operator", "paymaster")
    query = (
        sa.select(_event.number, _event.kind, _event.at)
        .where(_event.campaign == campaign, _event.participation.is_(None), _event.number > after)
        .order_by(_event.number)
    )
    return [Event(*row) for row in c.execute(query)]


def _visible(c: sa.Connection, caller: Caller, campaign: int, *roles: str) -> Campaign:
    if caller.participation is not None:
        mine = sa.select(_own.campaign).where(_own.id == caller.participation)
        if "seller" not in roles or c.execute(mine).scalar() != campaign:
            raise nothing()
    elif not is_allowed(c, caller, roles, campaign):
        raise nothing()
    return campaign_of(c, campaign)


def _mine(c: sa.Connection, caller: Caller) -> Any:
    query = (
        sa.select(schema.participation, schema.seller.c.payee)
        .outerjoin(schema.seller, schema.seller.c.participation == _own.id)
        .where(_own.id == caller.participation)
    )
    row = None if caller.participation is None else c.execute(query).one_or_none()
    if row is None:
        raise nothing()
    return row


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
