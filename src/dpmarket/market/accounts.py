"""Tell a person what became of their limit: exactly what one campaign took, and of all others a coarse sum.

A person's links come from different campaigns, and somebody else may hold one of them: by a link to one
campaign nobody learns what another one asked for, was promised or used. So others are told as a sum over all
of them, rounded up to tenths of the limit, and never one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.people import Limits, limits_of
from dpmarket.market.standing import look_at
from dpmarket.market.views import Caller, show_history

_own, _quote, _live = tables.participation.c, tables.quote.c, tables.live_campaign.c


@dataclass(frozen=True)
class AccountLine:
    """What the campaign of somebody's link holds and has spent of their limit.

    Attributes
    ----------
    title
        The campaign's.
    campaign_state, state
        The campaign's state, and the person's in it.
    held, spent
        epsilon.
    payment
        What the offer comes to, in minor units; None without an offer.
    made_at
        When they were invited.
    """

    title: str
    campaign_state: str
    state: str
    held: float
    spent: float
    payment: int | None
    made_at: str


@dataclass(frozen=True)
class PersonAccount:
    """A person's limit over all campaigns, as a link to one of them shows it.

    Attributes
    ----------
    limits
        Of this campaign exactly, and of all others as below: never less than what is held and spent, so
        that what is left is never shown too large.
    line
        The campaign that the link belongs to.
    others_held, others_spent
        All other campaigns together: epsilon, rounded up to tenths of the limit.
    """

    limits: Limits
    line: AccountLine
    others_held: float
    others_spent: float


def show_account(connection: Connection, caller: Caller, participation: str) -> PersonAccount:
    """Return what became of a person's limit, to that person alone.

    Raises
    ------
    MarketRefusal
        It is somebody else's.
    """
    show_history(connection, caller, participation)  # refuses who may not see it
    query = (
        sa.select(
            _live.title,
            _live.state.label("campaign_state"),
            _own.state,
            _own.held_epsilon,
            _own.spent_epsilon,
            _quote.payment,
            _own.made_at,
        )
        .join(tables.live_campaign, _live.campaign == _own.campaign)
        .outerjoin(tables.quote, _quote.participation == _own.id)
        .where(_own.id == participation)
    )
    row = connection.execute(query).one()
    line = AccountLine(
        title=row.title,
        campaign_state=row.campaign_state,
        state=row.state,
        held=row.held_epsilon,
        spent=row.spent_epsilon,
        payment=row.payment,
        made_at=row.made_at,
    )
    known = limits_of(connection, look_at(connection, participation).person)
    others_spent = in_tenths(known.spent - line.spent, known.cap)
    others_held = in_tenths(known.held - line.held, known.cap)
    spent = min(line.spent + others_spent, known.cap)
    held = min(line.held + others_held, known.cap - spent)
    return PersonAccount(Limits(known.cap, spent, held), line, others_held, others_spent)


_SLACK = 1e-6


def in_tenths(amount: float, cap: float) -> float:
    """Return an amount rounded up to tenths of a limit, but for a millionth; at most the limit.

    Examples
    --------
    >>> in_tenths(0.0, 5.0), in_tenths(0.01, 5.0), in_tenths(0.5, 5.0), in_tenths(0.51, 5.0)
    (0.0, 0.5, 0.5, 1.0)
    """
    for tenth in range(11):
        if amount <= cap * (tenth / 10.0 + _SLACK * (tenth > 0)):  # each campaign's was rounded up to a grid
            return cap * tenth / 10.0
    return cap
