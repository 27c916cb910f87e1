"""Give a buyer back what nobody needs, once: also where an older backup is put back afterwards.

A refund is in the log outside of the ledger, by the id of its transfer, before anybody is told of it. A
ledger that lacks a transfer which was logged enters it before it gives anything back: an older backup was put
back, or who wrote the line died before the ledger had it. Whoever asks again with the same id asks for the
same refund.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, balance_of, money, outside, reading
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.places import id_of
from dpmarket.market import tables
from dpmarket.market.adopting import cancel_again
from dpmarket.market.campaigns import ENDED, campaign_of
from dpmarket.market.desk import Desk, acting, lock_ledger, time_text
from dpmarket.market.events import enter_event
from dpmarket.market.funding import refuse_amount


def refund_id(owner: str, key: str) -> str:
    """Return the id of the transfer that somebody asks for with an idempotency key: always the same one."""
    return hashlib.sha256(f"refund\0{owner}\0{key}".encode()).hexdigest()[:32]


def refund_campaign(
    connection: Connection, campaign: str, amount: int, now: datetime, transfer: str | None = None
) -> None:
    """Give a buyer money back that is promised to nobody: of a draft, or of a campaign that has ended.

    While people can come, leave or be trained on, what is left changes by what one of them is paid; and
    asking for amounts until one is refused would tell it.

    Parameters
    ----------
    amount
        In minor units.
    now
        The time.
    transfer
        The refund's id (:func:`refund_id`): if it was made before, nothing more is done. None: a new one.

    Raises
    ------
    MarketRefusal
        Sellers may still need it, escrow has less, or the id belongs to another refund.
    FileProblem
        The log outside cannot be read or written: nothing was given back.
    """
    lock_ledger(connection)
    for line in _forgotten(connection):
        _enter_again(connection, line, now)
    transfer = transfer or new_id()
    made = money.refunded_by(connection, transfer)
    if made is not None:
        if made != (campaign, amount):
            raise MarketRefusal("reused", "this idempotency key belongs to another request.")
        return
    found = campaign_of(connection, campaign)
    if found.state not in ("draft", *ENDED):
        raise MarketRefusal("state", "money can be taken back before the opening, and after the end.")
    refuse_amount(amount)
    if amount > balance_of(connection, campaign).available:
        raise MarketRefusal("invalid", "expected an amount > 0 that is promised to nobody.")
    money.refund(connection, campaign, amount, transfer)
    enter_event(connection, campaign, None, "refunded", time_text(now))
    about = {"transfer": transfer, "campaign": campaign, "amount": str(amount), "state": found.state}
    outside.append(id_of(connection), "", "refund", about=about)


def refund_again(desk: Desk, now: datetime) -> int:
    """Enter all refunds of which only the log outside knows; return how many."""
    with reading(desk.ledger) as connection:
        if not _forgotten(connection):
            return 0
    with acting(desk) as connection:
        lock_ledger(connection)  # and look once more: who is giving back just now has by then
        forgotten = _forgotten(connection)
        for line in forgotten:
            _enter_again(connection, line, now)
    return len(forgotten)


def _forgotten(connection: Connection) -> list[outside.Line]:
    """Return the logged refunds whose transfers the ledger lacks, of campaigns that it has, oldest first.

    A campaign that was drafted after the backup is there only if sellers are paid, with their money alone.
    """
    own = id_of(connection)
    lines = [line for line in outside.read_log() if line.ledger == own and line.kind == "refund"]
    if not lines:
        return []
    column = ledger_tables.transfer.c
    known = set(connection.execute(sa.select(column.id).where(column.kind == "refund")).scalars())
    campaigns = set(connection.execute(sa.select(tables.live_campaign.c.campaign)).scalars())
    return [
        line for line in lines if line.about["transfer"] not in known and line.about["campaign"] in campaigns
    ]


def _enter_again(connection: Connection, line: outside.Line, now: datetime) -> None:
    """Enter a refund that was logged; a campaign that had been cancelled by then is cancelled again."""
    campaign, amount = line.about["campaign"], int(line.about["amount"])
    if line.about["state"] in ENDED:
        cancel_again(connection, campaign, now)
    # What went back had come, after the backup if it is not there.
    money.fund(connection, campaign, amount - balance_of(connection, campaign).available)
    money.refund(connection, campaign, amount, line.about["transfer"])
    enter_event(connection, campaign, None, "refunded", time_text(now))
