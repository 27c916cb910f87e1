"""Take over what the ledger knows and the desk forgot: a round that was spent after the backup was made.

When an older copy of a database is put back, ``dpmarket.ledger.repair`` enters from the log outside what was
spent since. Here the desk's own rows follow: who sold has spent, and their limits know it.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from dpmarket.ledger import Connection, Round, rounds
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.campaigns import ENDED, LiveCampaign, campaign_of, step
from dpmarket.market.desk import lock_ledger, time_text
from dpmarket.market.events import enter_event, enter_event_for_all
from dpmarket.market.holds import void_all
from dpmarket.market.people import free_epsilon_of_all, on_grid
from dpmarket.market.statements import insert

_own, _person = tables.participation.c, tables.person.c
_ACTIVE = ("invited", "consented", "waiting", "seated", "reported", "quoted", "accepted", "delivered")


def adopt_round(connection: Connection, campaign: str, now: datetime) -> bool:
    """End a campaign of which the ledger has a spent round that the desk does not know; return whether so.

    A person's limit that is too small for what was spent is raised to it: it was kept when they sold.
    """
    lock_ledger(connection)
    found, at = campaign_of(connection, campaign), time_text(now)
    spent = [one for one in rounds.rounds_of(connection, campaign) if one.state in ("released", "lost")]
    if found.round is not None or found.state in ENDED or not spent:
        return False
    step(connection, campaign, (found.state,), state=spent[0].state, round=spent[0].number, debt=0)
    _let_go(connection, found, at)
    for sold in _sold(connection, spent[0]):
        _enter(connection, campaign, sold, at)
    enter_event(connection, campaign, None, spent[0].state, at)
    return True


def _let_go(connection: Connection, found: LiveCampaign, at: str) -> None:
    """Free all that is held: whoever has spent something is entered anew."""
    active = sa.and_(_own.campaign == found.campaign, _own.state.in_(_ACTIVE))
    enter_event_for_all(connection, found.campaign, "expired", at, active)
    void_all(connection, found.escrow, active, at)
    free_epsilon_of_all(connection, active)
    mine = sa.select(_own.id).where(_own.campaign == found.campaign)
    for table in (tables.record, tables.waiting):
        connection.execute(table.delete().where(table.c.participation.in_(mine)))
    values = {"state": "expired", "lease_until": None, "sealed_cost": None}
    connection.execute(tables.participation.update().where(active).values(values))


class _Sold(NamedTuple):
    """What somebody sold: the promise, the payment in minor units, what was spent on the grid."""

    person: str
    epsilon: float
    payment: int
    spent: float


def _sold(connection: Connection, entered: Round) -> list[_Sold]:
    """Return who sold in a round."""
    quotes = rounds.quotes_of(connection, entered.number)
    spent = rounds.spent_of(connection, entered).tolist()
    rows = zip(quotes.iter_rows(), spent, strict=True)
    return [_Sold(who, epsilon, paid, on_grid(used)) for (who, epsilon, paid), used in rows if used > 0.0]


def _enter(connection: Connection, campaign: str, sold: _Sold, at: str) -> None:
    person, spent = sold.person, sold.spent
    known = {"id": person, "cap_epsilon": spent, "made_at": at}
    connection.execute(insert(connection, tables.person, known).on_conflict_do_nothing())
    own = {"id": new_id(), "campaign": campaign, "person": person, "state": "expired", "made_at": at}
    connection.execute(insert(connection, tables.participation, own).on_conflict_do_nothing())
    mine = sa.and_(_own.campaign == campaign, _own.person == person)
    who = connection.execute(sa.select(_own.id).where(mine)).scalar_one()
    quote = {"participation": who, "epsilon": sold.epsilon, "payment": sold.payment, "made_at": at}
    connection.execute(insert(connection, tables.quote, quote).on_conflict_do_nothing())
    connection.execute(tables.participation.update().where(mine).values(state="spent", spent_epsilon=spent))
    total = _person.spent_epsilon + spent
    enough = sa.case((_person.cap_epsilon < total + _person.held_epsilon, total + _person.held_epsilon),
                     else_=_person.cap_epsilon)  # fmt: skip
    connection.execute(
        tables.person.update().where(_person.id == person).values(spent_epsilon=total, cap_epsilon=enough)
    )
    enter_event(connection, campaign, who, "spent", at)
