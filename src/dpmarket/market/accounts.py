"""Tell a person what campaigns hold and have spent of their limit, over all of them, campaign by campaign."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.standing import look_at
from dpmarket.market.views import Caller, show_history

_own, _quote, _live = tables.participation.c, tables.quote.c, tables.live_campaign.c


@dataclass(frozen=True)
class AccountLine:
    """What one campaign holds and has spent of a person's limit.

    Attributes
    ----------
    title
        The campaign's; None of others: who has a link to one campaign learns nothing of what others ask.
    campaign_state, state
        The campaign's state, and the person's in it.
    held, spent
        epsilon.
    is_this
        Whether it is the campaign that the caller's link belongs to.
    payment
        What the offer of this campaign comes to, in minor units; None without an offer, and of others: who
        has a link to one campaign learns no payment of another, which would tell a cost.
    made_at
        When they were invited.
    """

    title: str | None
    campaign_state: str
    state: str
    held: float
    spent: float
    is_this: bool
    payment: int | None
    made_at: str


def show_account(connection: Connection, caller: Caller, participation: str) -> list[AccountLine]:
    """Return what became of a person's limit, to that person alone, oldest first.

    Raises
    ------
    MarketRefusal
        It is somebody else's.
    """
    show_history(connection, caller, participation)  # refuses who may not see it
    person = look_at(connection, participation).person
    query = (
        sa.select(
            _own.id,
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
        .where(_own.person == person)
        .order_by(_own.made_at, _own.id)
    )
    return [
        AccountLine(
            title=row.title if row.id == participation else None,
            campaign_state=row.campaign_state,
            state=row.state,
            held=row.held_epsilon,
            spent=row.spent_epsilon,
            is_this=row.id == participation,
            payment=row.payment if row.id == participation else None,
            made_at=row.made_at,
        )
        for row in connection.execute(query)
    ]
