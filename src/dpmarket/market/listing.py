"""List what there is for a caller: campaigns, what is to be paid out, and what workers have to do."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, balance_of, payouts
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.payouts import Payout
from dpmarket.market import tables
from dpmarket.market.campaigns import ENDED, LiveCampaign, campaign_of
from dpmarket.market.checking import live_campaigns
from dpmarket.market.views import Caller


@dataclass(frozen=True)
class Owed:
    """What sellers are paid, in minor units; what is held for promises that may still change is not in it.

    Attributes
    ----------
    owed, on_its_way, paid_out
        As in :class:`~dpmarket.ledger.Balance`.
    left
        What of the buyer's money is promised to nobody, once the campaign has ended; 0 before.
    """

    owed: int
    on_its_way: int
    paid_out: int
    left: int


@dataclass(frozen=True)
class Paying:
    """What of a campaign concerns who pays.

    Attributes
    ----------
    campaign
        Which, with its money's name.
    balance
        What its sellers are owed and were paid.
    payouts
        Its payouts, oldest first.
    """

    campaign: LiveCampaign
    balance: Owed
    payouts: list[Payout]


def list_campaigns(connection: Connection, caller: Caller) -> list[LiveCampaign]:
    """Return a buyer's own campaigns, or all to an auditor or operator; oldest first.

    Raises
    ------
    MarketRefusal
        There are none for this caller.
    """
    if caller.role not in ("buyer", "auditor", "operator"):
        raise MarketRefusal("unknown", "there is nothing here for this caller.")
    found = live_campaigns(connection)
    return [one for one in found if caller.role != "buyer" or one.buyer == caller.id]


def list_paying(connection: Connection, caller: Caller) -> list[Paying]:
    """Return what a paymaster has to do with, campaign by campaign; oldest first.

    Raises
    ------
    MarketRefusal
        The caller is no paymaster.
    """
    if caller.role != "paymaster":
        raise MarketRefusal("unknown", "there is nothing here for this caller.")
    return [
        Paying(one, _owed(connection, one), payouts.payouts_of(connection, one.campaign))
        for one in live_campaigns(connection)
    ]


def _owed(connection: Connection, campaign: LiveCampaign) -> Owed:
    found = balance_of(connection, campaign.campaign)
    left = found.available if campaign.state in ENDED else 0
    return Owed(found.owed, found.on_its_way, found.paid_out, left)


def campaign_of_payout(connection: Connection, payout: str) -> tuple[LiveCampaign, Payout]:
    """Return a payout and its campaign by the payout's id.

    Raises
    ------
    MarketRefusal
        There is none.
    """
    columns = ledger_tables.payout.c
    campaign = connection.execute(sa.select(columns.campaign).where(columns.id == payout)).scalar()
    if campaign is None:
        raise MarketRefusal("unknown", "there is no such payout.")
    made = next(one for one in payouts.payouts_of(connection, campaign) if one.id == payout)
    return campaign_of(connection, campaign), made


def roles_of(connection: Connection, campaign: str) -> list[tuple[str, str]]:
    """Return role and name of everybody who has to do with a campaign: its buyer, and all who are no buyers.

    Sellers are told before they take part.
    """
    member = tables.member.c
    buyer = campaign_of(connection, campaign).buyer
    query = sa.select(member.role, member.name).where(sa.or_(member.role != "buyer", member.id == buyer))
    rows = connection.execute(query.order_by(member.role, member.name))
    return [(str(role), str(name)) for role, name in rows]


def references_of(connection: Connection, payout: Payout) -> set[str]:
    """Return the references of a payout's lines."""
    lines = payouts.lines_of(connection, payout)
    return set(lines.get_column(payouts.REFERENCE).to_list())


def job_counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Return how many jobs of which kind are in which state."""
    job = tables.job.c
    query = sa.select(job.kind, job.state, sa.func.count()).group_by(job.kind, job.state)
    return {(kind, state): int(number) for kind, state, number in connection.execute(query)}
