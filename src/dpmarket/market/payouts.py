"""Turn what sellers are owed into lines of payee and amount, and enter what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, payouts, reading
from dpmarket.ledger.rounds import SELLER
from dpmarket.market import tables
from dpmarket.market.campaigns import campaign_of
from dpmarket.market.desk import Desk, acting, lock_ledger, time_text
from dpmarket.market.events import enter_event, events_of
from dpmarket.market.keys import OPERATOR, Opener, operator_key, seal
from dpmarket.market.standing import look_at, standing_of
from dpmarket.market.views import Caller

_own = tables.participation.c
_PAYEES_TOLD = 50  # in a seller's history: what can be repeated for ever must not be kept for ever


@dataclass(frozen=True)
class PayoutLine:
    """One payment to make.

    Attributes
    ----------
    reference
        What the bank hands on, and what is confirmed or returned by; a restored ledger makes the same one.
    payee
        Whom to pay, as the seller wrote it; None if they have not said.
    amount
        In minor units.
    """

    reference: str
    payee: str | None
    amount: int

    def __repr__(self) -> str:
        return f"PayoutLine({self.reference!r})"


def set_payee(connection: Connection, participation: str, payee: str, operator: bytes, now: datetime) -> None:
    """Say whom to pay; it is sealed to the operator's key, and can be said again.

    Parameters
    ----------
    payee
        An account, or whatever the paymaster asks for; up to 200 characters.
    operator
        The operator's public key (:func:`~dpmarket.market.keys.operator_key`).
    now
        The time.

    Raises
    ------
    MarketRefusal
        No such participation, or no payee.
    """
    found = standing_of(connection, participation)
    if not payee.strip() or len(payee.encode()) > 200:
        raise MarketRefusal("invalid", "expected whom to pay, in up to 200 bytes.")
    padded = payee.strip().encode().ljust(200, b"\0")  # a length would tell something
    sealed = seal(operator, padded, "payee", found.person)
    connection.execute(
        tables.participation.update().where(_own.id == participation).values(sealed_payee=sealed)
    )
    said = sum(event.kind == "payee" for event in events_of(connection, participation))
    if said < _PAYEES_TOLD:
        enter_event(connection, found.campaign, participation, "payee", time_text(now))


def make_payout(desk: Desk, caller: Caller, campaign: str, now: datetime) -> list[PayoutLine]:
    """Enter all that a campaign's sellers are owed as a new payout, and return its lines.

    Raises
    ------
    MarketRefusal
        The caller is no paymaster, or there is no such campaign.
    LedgerRefusal
        Nothing is owed.
    """
    with acting(desk) as connection:
        made = enter_payout(connection, caller, campaign, now)
    return payout_lines(desk, caller, campaign, made.number)


def enter_payout(connection: Connection, caller: Caller, campaign: str, now: datetime) -> payouts.Payout:
    """Enter all that a campaign's sellers are owed as a new payout; raises as :func:`make_payout`."""
    _refuse_other(caller)
    lock_ledger(connection)
    campaign_of(connection, campaign)
    made, _ = payouts.make_payout(connection, campaign)
    enter_event(connection, campaign, None, "payout", time_text(now))
    return made


def payout_lines(desk: Desk, caller: Caller, campaign: str, number: int) -> list[PayoutLine]:
    """Return the lines of one of a campaign's payouts again.

    Raises
    ------
    MarketRefusal
        The caller is no paymaster, or there is no such payout.
    """
    _refuse_other(caller)
    with reading(desk.ledger) as connection:
        made = next((one for one in payouts.payouts_of(connection, campaign) if one.number == number), None)
        if made is None:
            raise MarketRefusal("unknown", "there is no such payout.")
        lines = payouts.lines_of(connection, made)
        query = sa.select(_own.person, _own.sealed_payee).where(_own.campaign == campaign)
        sealed = {row.person: row.sealed_payee for row in connection.execute(query)}
    opener = Opener(desk.keys, OPERATOR, operator_key(desk.keys))
    found = []
    for reference, person, amount in lines.select(payouts.REFERENCE, SELLER, payouts.AMOUNT).iter_rows():
        content = sealed.get(person)
        opened = None if content is None else opener.open(bytes(content), "payee", person)
        payee = None if opened is None else opened.rstrip(b"\0").decode()
        found.append(PayoutLine(reference, payee, amount))
    return found


def payment_state(connection: Connection, participation: str) -> str:
    """Return what became of a seller's payment: ``owed`` (also if it came back), ``on its way`` or ``paid``.

    For who is paid at all: whose promise was spent.
    """
    found = look_at(connection, participation)
    known = payouts.state_of_seller(connection, found.campaign, found.person)
    return {"pending": "on its way", "confirmed": "paid"}.get(str(known), "owed")


def enter_payments(
    desk: Desk, caller: Caller, campaign: str, kind: str, references: Sequence[str], now: datetime
) -> int:
    """Enter that payments were ``confirmed`` or ``returned``; return how many are new.

    Raises
    ------
    MarketRefusal
        The caller is no paymaster.
    LedgerRefusal
        A reference that is in no payout, or of which the other was entered already.
    """
    with acting(desk) as connection:
        return enter_payments_in(connection, caller, campaign, kind, references, now=now)


def enter_payments_in(
    connection: Connection,
    caller: Caller,
    campaign: str,
    kind: str,
    references: Sequence[str],
    *,
    now: datetime,
) -> int:
    """Enter what became of payments, in a transaction that is open; as :func:`enter_payments`."""
    _refuse_other(caller)
    if kind not in ("confirmed", "returned"):
        raise MarketRefusal("invalid", "expected that payments were confirmed or returned.")
    lock_ledger(connection)
    campaign_of(connection, campaign)
    entered = payouts.enter_payments(connection, campaign, kind, references)
    if entered:
        enter_event(connection, campaign, None, f"payments {kind}", time_text(now))
    return entered


def _refuse_other(caller: Caller) -> None:
    if caller.role != "paymaster":
        raise MarketRefusal("unknown", "there is nothing here for this caller.")
