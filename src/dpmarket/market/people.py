"""Know people by a digest of the panel's id, and hold what campaigns may ask of them against their limit.

Amounts of epsilon lie on a grid of 2^-30, rounded up: sums of them are exact, so that what was held can be
given back without a trace, and the database itself can refuse more than a person's limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.campaign.ids import tidy_id
from dpmarket.errors import InvalidInput, MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.ledger.keyed import key_of, keyed
from dpmarket.market import tables
from dpmarket.market.desk import time_text
from dpmarket.market.statements import insert

_STEPS = 2.0**30
LARGEST_CAP = 2.0**20
"""Up to here sums on the grid are exact, with room to spare."""


@dataclass(frozen=True)
class Limits:
    """What a person gives at most, over all campaigns of the ledger, and what is left.

    Attributes
    ----------
    cap, spent, held
        epsilon; held is the ceiling of every campaign that the person is in.
    """

    cap: float
    spent: float
    held: float

    @property
    def left(self) -> float:
        """What further campaigns can hold."""
        return self.cap - self.spent - self.held


def on_grid(epsilon: float) -> float:
    """Return an amount rounded up to the grid on which sums are exact.

    Examples
    --------
    >>> on_grid(0.5), on_grid(0.1) >= 0.1, on_grid(0.1) + on_grid(0.2) - on_grid(0.2) == on_grid(0.1)
    (0.5, True, True)
    """
    return math.ceil(epsilon * _STEPS) / _STEPS


def person_id(connection: Connection, panel_id: str) -> str:
    """Return what a person is known by: a digest of the panel's id under the ledger's key.

    It is the same whenever it is asked for: a desk that was put back from a backup knows again of whom the
    log outside says that they spent something.
    """
    return keyed(key_of(connection), "person", tidy_id(panel_id))[:32]


def person_for(connection: Connection, panel_id: str, cap: float, now: datetime) -> str:
    """Return the id of a person, made if the desk does not know them; a known person's limit stays.

    Parameters
    ----------
    panel_id
        What the panel calls them. It is not kept.
    cap
        The most epsilon that they give over all campaigns, > 0.
    now
        The time.

    Raises
    ------
    InvalidInput
        No such limit.
    """
    if isinstance(cap, bool) or not isinstance(cap, int | float) or not 0.0 < cap <= LARGEST_CAP:
        raise InvalidInput(f"expected a limit of epsilon > 0 and <= {LARGEST_CAP:.0f}.")
    person = person_id(connection, panel_id)
    values = {"id": person, "cap_epsilon": cap, "made_at": time_text(now)}
    connection.execute(insert(connection, tables.person, values).on_conflict_do_nothing())
    return person


def limits_of(connection: Connection, person: str) -> Limits:
    """Return what a person gives at most and what is left."""
    columns = tables.person.c
    query = sa.select(columns.cap_epsilon, columns.spent_epsilon, columns.held_epsilon)
    row = connection.execute(query.where(columns.id == person)).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no such person.")
    return Limits(*row)


def hold_epsilon(connection: Connection, person: str, amount: float) -> bool:
    """Hold an amount on the grid against a person's limit; return whether there was room for it."""
    columns = tables.person.c
    changed = connection.execute(
        tables.person.update()
        .where(
            columns.id == person,
            columns.spent_epsilon + columns.held_epsilon + amount <= columns.cap_epsilon,
        )
        .values(held_epsilon=columns.held_epsilon + amount)
    )
    return changed.rowcount == 1


def change_epsilon(connection: Connection, person: str, held: float, spent: float) -> None:
    """Add to what is held and spent of a person's limit; less than nothing takes away."""
    columns = tables.person.c
    connection.execute(
        tables.person.update()
        .where(columns.id == person)
        .values(held_epsilon=columns.held_epsilon + held, spent_epsilon=columns.spent_epsilon + spent)
    )


def free_epsilon_of_all(connection: Connection, where: sa.ColumnElement[bool]) -> None:
    """Give back what participations of one campaign hold, in two statements however many they are."""
    free_limits_of_all(connection, where)
    held = tables.participation.c.held_epsilon > 0.0
    connection.execute(tables.participation.update().where(where, held).values(held_epsilon=0.0))


def free_limits_of_all(connection: Connection, where: sa.ColumnElement[bool]) -> None:
    """Give back to people what participations of one campaign hold, which then must hold nothing any more."""
    own, person = tables.participation.c, tables.person.c
    connection.execute(
        tables.person.update()
        .where(person.id == own.person, where, own.held_epsilon > 0.0)
        .values(held_epsilon=person.held_epsilon - own.held_epsilon)
    )
