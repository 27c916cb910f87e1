"""Put a buyer's money into a campaign's escrow, and pay debts from it.

What a buyer sees of escrow must not tell what one seller is paid, which tells the cost. So nothing that
depends on payments is told before the end, and nothing happens because of a cent more or less.
"""

from __future__ import annotations

from datetime import datetime

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, balance_of, money
from dpmarket.market.campaigns import ENDED, campaign_of
from dpmarket.market.clearing import pay_debt
from dpmarket.market.desk import lock_ledger, time_text
from dpmarket.market.events import enter_event

LARGEST_AMOUNT = 2**53
"""Of all that a campaign has, in minor units."""


def fund_campaign(connection: Connection, campaign: str, amount: int, now: datetime) -> int | None:
    """Put money into a campaign's escrow; a debt is paid from it.

    Parameters
    ----------
    amount
        In minor units. Of an online campaign that is open a multiple of its largest payment: so many more
        people are called from the waiting list, whatever others are paid. Sent cent by cent, money would call
        somebody at an amount that tells what others are paid.
    now
        The time.

    Returns
    -------
    int or None
        What is promised to nobody then, in minor units, while it is a draft. Afterwards None: from one call
        to the next it would change by what one seller is paid, and a payment tells the cost.

    Raises
    ------
    MarketRefusal
        No such amount, more than a campaign can have, or the campaign has ended.
    """
    lock_ledger(connection)
    found = campaign_of(connection, campaign)
    refuse_amount(amount)
    if found.state in ENDED:
        raise MarketRefusal("state", "this campaign has ended.")
    largest = found.largest_payment
    if found.state == "open" and largest and amount % largest:
        raise MarketRefusal(
            "invalid", f"expected a multiple of {largest} minor units, the largest payment, for more people."
        )
    if balance_of(connection, campaign).funded + amount > LARGEST_AMOUNT:
        raise MarketRefusal("invalid", "expected that a campaign has at most 2^53 minor units in all.")
    money.fund(connection, campaign, amount)
    enter_event(connection, campaign, None, "funded", time_text(now))
    if found.state == "unpaid":
        pay_debt(connection, found, amount, now)
    return balance_of(connection, campaign).available if found.state == "draft" else None


def refuse_amount(amount: int) -> None:
    """Refuse what is no amount of money, in minor units."""
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 < amount <= LARGEST_AMOUNT:
        raise MarketRefusal("invalid", "expected an amount > 0, in whole minor units, and up to 2^53.")
