"""A lifetime account for models outside of campaigns: a campaign that ends at once.

Fitting a library model on somebody's record spends epsilon as a campaign does. :class:`MarketAccount` enters
that, against the same lifetime limits, and logs it before it returns; noise is drawn only afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
import pydantic
import sqlalchemy as sa
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.campaign import people, schema
from dpmarket.campaign.acts import OWNER, Caller, Text, Tx, act, campaign_of, new_id
from dpmarket.campaign.campaigns import describe
from dpmarket.campaign.database import UNLIMITED, Market
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.people import EPSILON_UNITS, person_digests
from dpmarket.errors import Infeasible, InvalidInput, MarketRefusal
from dpmarket.privacy.gaussian import gaussian_epsilons

_own, _person = schema.participation.c, schema.person.c
Epsilon = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class MarketAccount:
    """Lifetime limits that library models share with the campaigns of a database.

    Obeys :class:`~dpmarket.privacy.account.PrivacyAccount`: pass it as ``account`` to a fit.

    Parameters
    ----------
    market
        An open market.
    name
        Of the models in it; every charge is an entry of its own.
    limit, delta_limit
        The most that anybody may spend over all campaigns and models: it lowers everybody's limits, as a
        campaign's does. None leaves them as they are.

    Notes
    -----
    Guaranteed: a charge is on the disk and in the log before it returns, for everybody or nobody. An open
    campaign counts with the largest epsilon that it could ask for.
    """

    def __init__(
        self, market: Market, name: str = "models", *, limit: float | None = None,
        delta_limit: float | None = None,
    ) -> None:  # fmt: skip
        self._market, self._name = market, name
        if limit is not None or delta_limit is not None:
            market.transact(lambda tx: people.lower_caps(tx, limit, delta_limit))

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | None = None,
        *,
        mus: ArrayLike | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody.

        Parameters
        ----------
        people
            Ids, each once.
        epsilons, mus
            What each is charged: epsilon, or a distance of Gaussian differential privacy, which is charged
            as the epsilon that it has at ``delta``.
        delta
            Charged to everybody who is charged an epsilon above 0.

        Raises
        ------
        InvalidInput
            If a person is named twice or not by a text, or for amounts that are no amounts.
        Infeasible
            If anybody would exceed a limit. The message says how many, not who.
        """
        if (epsilons is None) == (mus is None):
            raise InvalidInput("expected epsilons or mus: one of them is charged at a time.")
        if mus is not None:
            checks.strictly_between("delta", delta, 0.0, 1.0)
            epsilons = gaussian_epsilons(checks.non_negative_vector("mus", mus), delta)
        amounts = checks.non_negative_vector("epsilons", epsilons)
        checks.same_length("epsilons", amounts, "people", people)
        if not all(isinstance(one, str) for one in people):
            raise InvalidInput("expected ids that are texts.")
        charged = [(one, float(amount)) for one, amount in zip(people, amounts, strict=True) if amount > 0.0]
        if not charged:
            return
        ids, spent = zip(*charged, strict=True)
        name = f"{self._name} {secrets.token_hex(8)}"
        try:
            self._market.run(enter_charge, OWNER, name, list(ids), list(spent), delta)
        except MarketRefusal as refusal:
            if refusal.kind == "limit":
                raise Infeasible(f"{refusal} Nobody was charged.") from None
            raise InvalidInput(str(refusal)) from None

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down, at least 0."""
        with self._market.look() as c:
            key, cap = c.execute(sa.select(schema.market.c.key, schema.market.c.cap)).one()
            rest = _person.epsilon_cap - _person.epsilon_held - _person.epsilon_spent
            query = sa.select(rest)
            found = [
                c.execute(query.where(_person.digest == digest)).scalar()
                for digest in person_digests(bytes(key), people)
            ]
        units = [int(cap if one is None else one) for one in found]
        left = [np.inf if cap == UNLIMITED else max(one, 0) / EPSILON_UNITS for one in units]
        return read_only(np.array(left))


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
