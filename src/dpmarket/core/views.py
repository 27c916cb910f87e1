"""What each role sees: of others nothing, and what belongs to others looks like what does not exist.

A running total would show each acceptance's payment, and a payment tells the cost. Sums are therefore over
whole batches: the first 20 j acceptances, shown once there are 20 (j + 1), rounded to three digits. They
count acceptances, which stay in them if the seller withdraws: no sum ever changes by one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpmarket.core import money, schema
from dpmarket.core.acts import Caller, Campaign, Terms, campaign_of, is_allowed, nothing
from dpmarket.core.campaigns import ENDED
from dpmarket.core.payouts import Payout, missing_payees, owed, payouts_of
from dpmarket.core.people import EPSILON_UNITS

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
    state, reason, until
        Where it stands.
    epsilon, payment
        The quote, while there is one.
    epsilon_used
        What the release really spent.
    payee, sent, paid_at
        Whether a payee is named, whether the payment is on its way, and when it was confirmed.
    campaign_state
        Where the campaign stands.
    """

    state: str
    reason: str | None
    until: str | None
    epsilon: float | None
    payment: int | None
    epsilon_used: float | None
    payee: bool
    sent: bool
    paid_at: str | None
    campaign_state: str


@dataclass(frozen=True)
class MyLimits:
    """A seller's lifetime limit: the limit, what this campaign holds or spent, and the rest in tenths."""

    limit: float
    here: float
    elsewhere_tenths: int


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


def show_campaign(c: sa.Connection, caller: Caller, campaign: int) -> Campaign:
    """Return a campaign to its buyer, its sellers and members with a role in it."""
    return _visible(c, caller, campaign, "seller", "buyer", "operator", "paymaster", "auditor")


def show_sums(c: sa.Connection, caller: Caller, campaign: int, terms: Terms | None = None) -> Sums:
    """Return a campaign's sums to its buyer, an auditor or an operator."""
    found = _visible(c, caller, campaign, "buyer", "auditor", "operator")
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
    quoted = row.state in ("quoted", "accepted", "delivered", "spent", "priced_out")
    return MyParticipation(
        row.state,
        row.reason,
        row.until,
        row.epsilon if quoted else None,
        row.payment if quoted else None,
        row.epsilon_used,
        row.payee is not None,
        row.payout is not None,
        row.paid_at,
        campaign_of(c, row.campaign).state,
    )


def show_limits(c: sa.Connection, caller: Caller) -> MyLimits:
    """Return a seller's lifetime limit; what other campaigns have of it is told in tenths, rounded up."""
    row = _mine(c, caller)
    person = c.execute(sa.select(schema.person).where(_person.id == row.person)).one()
    here = row.epsilon_held + row.epsilon_spent
    others = person.epsilon_held + person.epsilon_spent - here
    tenths = -(-10 * others // person.epsilon_cap) if person.epsilon_cap else 0
    return MyLimits(person.epsilon_cap / EPSILON_UNITS, here / EPSILON_UNITS, int(tenths))


def show_history(c: sa.Connection, caller: Caller) -> list[tuple[str, str]]:
    """Return what happened to a seller's participation, and when."""
    row = _mine(c, caller)
    query = sa.select(_event.kind, _event.at).where(_event.participation == row.id).order_by(_event.number)
    return [(str(kind), str(at)) for kind, at in c.execute(query)]


def show_money(c: sa.Connection, caller: Caller, campaign: int) -> Money:
    """Return what came in and went out, to a paymaster or an auditor, and to the buyer."""
    found = _visible(c, caller, campaign, "paymaster", "auditor", "buyer")
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


def show_document(c: sa.Connection, caller: Caller, campaign: int, kind: str) -> bytes:
    """Return a document: released ones to buyer, sellers and auditors, sealed ones to auditors alone."""
    roles = ("auditor",) if kind in ("openings", "costs") else ("buyer", "seller", "auditor", "operator")
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
    if found is None:
        raise nothing()
    return bytes(found)


def list_campaigns(c: sa.Connection, caller: Caller) -> list[Campaign]:
    """Return all campaigns that a member has a role in."""
    identities = (
        c.execute(sa.select(schema.campaign.c.id).order_by(schema.campaign.c.made_at)).scalars().all()
    )
    roles = ("buyer", "operator", "paymaster", "auditor")
    return [campaign_of(c, one) for one in identities if is_allowed(c, caller, roles, one)]


def list_events(
    c: sa.Connection, caller: Caller, campaign: int, after: int = 0
) -> list[tuple[int, str, str]]:
    """Return a campaign's own events, without those of its sellers: number, kind and time."""
    _visible(c, caller, campaign, "buyer", "auditor", "operator", "paymaster")
    query = (
        sa.select(_event.number, _event.kind, _event.at)
        .where(_event.campaign == campaign, _event.participation.is_(None), _event.number > after)
        .order_by(_event.number)
    )
    return [(int(number), str(kind), str(at)) for number, kind, at in c.execute(query)]


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
