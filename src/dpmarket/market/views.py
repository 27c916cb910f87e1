"""Show each role what it may see, and nothing of others: what is not yours does not exist for you.

A live total would show each acceptance's payment, and a payment tells the cost. So sums are over whole
batches: the first 20 j acceptances, told once there are 20 (j + 1), rounded. They are of acceptances, which
stay in them even if the seller withdraws: no sum ever changes by one person.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign, campaign_of
from dpmarket.market.clearing import costs_of
from dpmarket.market.desk import Desk, Terms
from dpmarket.market.events import Event, events_of
from dpmarket.market.quoting import GivenQuote, quote_of
from dpmarket.market.standing import Standing, look_at
from dpmarket.market.training import certificate_of, model_of, openings_of

_own, _quote, _event = tables.participation.c, tables.quote.c, tables.event.c


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes
    ----------
    role
        ``seller``, ``buyer``, ``paymaster``, ``auditor`` or ``operator``.
    id
        A seller's participation, or a member's id.
    """

    role: str
    id: str


@dataclass(frozen=True)
class Sums:
    """What a campaign has come to so far, in batches.

    Attributes
    ----------
    counts
        How many participations are in which state: live.
    acceptances
        Over how many the sums are.
    promised
        Sum of their epsilons, rounded to three digits.
    payments
        Sum of their payments in minor units, rounded to three digits.
    debt
        What the buyer owes before sellers are asked for anything, in minor units.
    """

    counts: dict[str, int]
    acceptances: int
    promised: float
    payments: int
    debt: int


def show_campaign(connection: Connection, caller: Caller, campaign: str) -> LiveCampaign:
    """Return a campaign to its buyer, its sellers, an auditor or an operator.

    Raises
    ------
    MarketRefusal
        There is none for this caller.
    """
    return _visible(connection, caller, campaign, "buyer", "seller", "auditor", "operator")


def show_sums(connection: Connection, caller: Caller, campaign: str, terms: Terms | None = None) -> Sums:
    """Return a campaign's sums to its buyer or an auditor.

    Raises
    ------
    MarketRefusal
        There are none for this caller.
    """
    found = _visible(connection, caller, campaign, "buyer", "auditor")
    batch = (terms or Terms()).batch
    states = sa.select(_own.state, sa.func.count()).where(_own.campaign == campaign).group_by(_own.state)
    counts = {state: int(number) for state, number in connection.execute(states)}
    if found.state in ("released", "lost"):
        chosen = sa.select(_quote.epsilon, _quote.payment).join(
            tables.participation, _own.id == _quote.participation
        )
        chosen = chosen.where(_own.campaign == campaign, _own.state == "spent")
    else:
        accepted = sa.and_(_event.campaign == campaign, _event.kind == "accepted")
        number = int(connection.execute(sa.select(sa.func.count()).where(accepted)).scalar_one())
        shown = max(number // batch - 1, 0) * batch
        chosen = (
            sa.select(_quote.epsilon, _quote.payment)
            .join(tables.event, _event.participation == _quote.participation)
            .where(accepted)
            .order_by(_event.number)
            .limit(shown)
        )
    part = chosen.subquery()
    query = sa.select(sa.func.count(), sa.func.sum(part.c.epsilon), sa.func.sum(part.c.payment))
    acceptances, promised, payments = connection.execute(query.select_from(part)).one()
    return Sums(
        counts,
        int(acceptances),
        _rounded(float(promised or 0.0)),
        int(_rounded(float(payments or 0))),
        found.debt,
    )


def show_standing(connection: Connection, caller: Caller, participation: str) -> Standing:
    """Return where a seller stands, to that seller alone."""
    _refuse_other(caller, participation)
    return look_at(connection, participation)


def show_quote(connection: Connection, caller: Caller, participation: str) -> GivenQuote:
    """Return a seller's quote, to that seller alone."""
    _refuse_other(caller, participation)
    return quote_of(connection, participation)


def show_history(connection: Connection, caller: Caller, participation: str) -> list[Event]:
    """Return what happened to a seller's data, to that seller alone."""
    _refuse_other(caller, participation)
    return events_of(connection, participation)


def show_receipt(connection: Connection, caller: Caller, participation: str) -> bytes:
    """Return a seller's receipt, to that seller alone.

    Raises
    ------
    MarketRefusal
        There is none, or none for this caller.
    """
    _refuse_other(caller, participation)
    query = sa.select(tables.receipt.c.body).where(tables.receipt.c.participation == participation)
    found = connection.execute(query).scalar()
    if found is None:
        raise _nothing()
    return bytes(found)


def show_model(connection: Connection, caller: Caller, campaign: str) -> str:
    """Return the released model as JSON, to the campaign's buyer, its sellers or an auditor."""
    _visible(connection, caller, campaign, "buyer", "seller", "auditor")
    return model_of(connection, campaign)


def show_certificate(connection: Connection, caller: Caller, campaign: str) -> bytes:
    """Return the certificate, to the campaign's buyer, its sellers or an auditor.

    Raises
    ------
    MarketRefusal
        There is none, or none for this caller.
    """
    found = _visible(connection, caller, campaign, "buyer", "seller", "auditor")
    kept = None if found.round is None else certificate_of(connection, found.round)
    if kept is None:
        raise _nothing()
    return kept


def show_openings(desk: Desk, caller: Caller, campaign: str) -> bytes:
    """Return what the certificate commits to, to an auditor, where the operator's key is at hand."""
    if caller.role != "auditor":
        raise _nothing()
    return openings_of(desk, campaign)


def show_costs(desk: Desk, caller: Caller, campaign: str) -> pl.DataFrame:
    """Return who reported what for an offline campaign, to an auditor, where the operator's key is at hand.

    Raises
    ------
    MarketRefusal
        There are none, or none for this caller.
    """
    if caller.role != "auditor":
        raise _nothing()
    return costs_of(desk, campaign)


def _visible(connection: Connection, caller: Caller, campaign: str, *roles: str) -> LiveCampaign:
    """Return a campaign if this caller has anything to do with it."""
    if caller.role not in roles:
        raise _nothing()
    found = campaign_of(connection, campaign)
    if caller.role == "buyer" and found.buyer != caller.id:
        raise _nothing()
    if caller.role == "seller":
        mine = sa.select(_own.campaign).where(_own.id == caller.id)
        if connection.execute(mine).scalar() != campaign:
            raise _nothing()
    return found


def _refuse_other(caller: Caller, participation: str) -> None:
    if caller.role != "seller" or caller.id != participation:
        raise _nothing()


def _nothing() -> MarketRefusal:
    """Say the same about what is not there and about what is somebody else's."""
    return MarketRefusal("unknown", "there is nothing here for this caller.")


def _rounded(value: float) -> float:
    """Return a number rounded to three digits."""
    return float(f"{value:.3g}")
