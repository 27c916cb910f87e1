"""Put a buyer's money into a campaign's escrow, pay debts from it, and give back what nobody needs."""

from __future__ import annotations

from datetime import datetime

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, balance_of, money
from dpmarket.market.campaigns import ENDED, campaign_of
from dpmarket.market.clearing import pay_debt
from dpmarket.market.desk import lock_ledger, time_text
from dpmarket.market.events import enter_event

LARGEST_AMOUNT = 2**53
"""Of one funding, in minor units."""


def fund_campaign(connection: Connection, campaign: str, amount: int, now: datetime) -> int | None:
    """Put money into a campaign's escrow; a debt is paid from it.

    Returns
    -------
    int or None
        What is promised to nobody then, in minor units, while it is a draft. Afterwards None: from one call
        to the next it would change by what one seller is paid, and a payment tells the cost.

    Raises
    ------
    MarketRefusal
        No amount, or the campaign has ended.
    """
    lock_ledger(connection)
    found = campaign_of(connection, campaign)
    if not 0 < amount <= LARGEST_AMOUNT:
        raise MarketRefusal("invalid", "expected an amount > 0, in whole minor units, and up to 2^53.")
    if found.state in ENDED:
        raise MarketRefusal("state", "this campaign has ended.")
    money.fund(connection, campaign, amount)
    enter_event(connection, campaign, None, "funded", time_text(now))
    if found.state == "unpaid":
        pay_debt(connection, found, now)
    return balance_of(connection, campaign).available if found.state == "draft" else None


def refund_campaign(connection: Connection, campaign: str, amount: int, now: datetime) -> None:
    """Give a buyer money back that is promised to nobody: of a draft, or of a campaign that has ended.

    Raises
    ------
    MarketRefusal
        Sellers may still need it, or escrow has less.
    """
    lock_ledger(connection)
    found = campaign_of(connection, campaign)
    if found.state not in ("draft", "training", *ENDED):
        raise MarketRefusal("state", "money can be taken back before the opening, and from the training on.")
    if not 0 < amount <= balance_of(connection, campaign).available:
        raise MarketRefusal("invalid", "expected an amount > 0 that is promised to nobody.")
    money.refund(connection, campaign, amount)
    enter_event(connection, campaign, None, "refunded", time_text(now))
