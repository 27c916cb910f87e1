"""A lifetime account for models outside of campaigns: a campaign that ends at once.

Fitting a library model on somebody's record spends epsilon as a campaign does. :func:`charge` enters that,
against the same lifetime limits, and logs it before it returns; noise is drawn only afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.core import people, schema
from dpmarket.core.acts import Caller, Text, Tx, act, campaign_of, new_id
from dpmarket.core.campaigns import describe
from dpmarket.core.database import Market
from dpmarket.core.log import canonical, digest_of
from dpmarket.errors import MarketRefusal

_own, _person = schema.participation.c, schema.person.c
Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


def charge(
    market: Market,
    caller: Caller,
    name: str,
    ids: Sequence[str],
    epsilons: Sequence[float],
    delta: float = 0.0,
) -> int:
    """Spend epsilons, and a delta, of people's lifetime limits, all or none; return the entry's id.

    When this returns, the spending is in the database and in the log: draw noise after it, not before.

    Raises
    ------
    MarketRefusal
        Somebody's limits have no room; the message says how many people's.
    """
    return int(market.run(enter_charge, caller, name, list(ids), list(map(float, epsilons)), delta))


@act("operator")
def enter_charge(
    tx: Tx, caller: Caller, name: Text, ids: list[Text], epsilons: list[Epsilon], delta: float = 0.0
) -> int:
    """Enter a campaign of the channel ``account`` that is released at once."""
    digests = people.person_digests(tx.market_key, ids)
    if len(set(digests)) != len(digests) or len(digests) != len(epsilons) or not digests:
        raise MarketRefusal("invalid", "Expected one epsilon for each of some different ids.")
    identity, rules = new_id(), canonical({})
    units = [people.epsilon_units(one) for one in epsilons]
    tx.c.execute(
        schema.campaign.insert(),
        {
            "id": identity,
            "name": name,
            "owner": caller.member,
            "channel": "account",
            "mechanism": "posted",
            "state": "released",
            "rules": rules,
            "rules_digest": digest_of(rules),
            "ceiling": max(units),
            "delta": people.delta_units(delta),
            "currency": "XXX",
            "minor_units": 1,
            "made_at": tx.now,
        },
    )
    full = 0
    order = sorted(zip(digests, ids, epsilons, units, strict=True))
    for digest, text, epsilon, amount in order:
        person = people.enter_person(tx, digest, people.normal_id(text))
        used = people.delta_units(delta)
        room = sa.and_(
            _person.epsilon_held + _person.epsilon_spent + amount <= _person.epsilon_cap,
            _person.delta_used + used <= _person.delta_cap,
        )
        changed = tx.c.execute(
            schema.person.update()
            .where(_person.id == person, room)
            .values(epsilon_spent=_person.epsilon_spent + amount, delta_used=_person.delta_used + used)
        )
        full += changed.rowcount != 1
        row = {"campaign": identity, "person": person, "state": "spent", "since": tx.now}
        tx.c.execute(schema.participation.insert(), {**row, "epsilon_used": epsilon, "epsilon_spent": amount})
    if full:
        raise MarketRefusal("limit", f"The lifetime limits of {full} people have no room for this.")
    attempt = secrets.token_hex(16)
    values = {"id": attempt, "campaign": identity, "state": "released", "debited_at": tx.now}
    tx.c.execute(schema.attempt.insert(), {**values, "committed_at": tx.now, "ended_at": tx.now})
    snapshot = pl.DataFrame(
        {
            "digest": pl.Series([one[0] for one in order], dtype=pl.Binary),
            "name": [people.normal_id(one[1]) for one in order],
            "epsilon": np.array([one[2] for one in order]),
            "payment": np.zeros(len(order), dtype=np.int64),
            "pool": ["escrow"] * len(order),
        }
    )
    named = tx.snapshot(attempt, snapshot)
    tx.commit_point("spend", campaign=describe(campaign_of(tx.c, identity)), attempt=attempt, snapshot=named)
    return identity
