"""A lifetime account for models outside of campaigns: a campaign that ends at once.

Fitting a library model on somebody's record spends epsilon as a campaign does. :class:`MarketAccount` enters
that, against the same lifetime limits, and logs it before it returns; noise is drawn only afterwards.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.campaign import people, schema
from dpmarket.campaign.acts import OWNER, Caller, Text, act
from dpmarket.campaign.campaigns import describe
from dpmarket.campaign.database import UNLIMITED, Market
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.money import enter_staged, hold_all, of, pay_all
from dpmarket.campaign.partitions import refuse_limits
from dpmarket.campaign.people import EPSILON_UNITS, person_digests
from dpmarket.campaign.staging import stage
from dpmarket.campaign.training import sellers_by
from dpmarket.campaign.transaction import Tx, campaign_of, new_id, require
from dpmarket.errors import Infeasible, InvalidInput, MarketRefusal
from dpmarket.privacy.gaussian import gaussian_epsilons

_own, _person = schema.participation.c, schema.person.c


class MarketAccount:
    """Lifetime limits that library models share with the campaigns of a database.

    Obeys :class:`~dpmarket.privacy.account.PrivacyAccount`: pass it as ``account`` to a fit. ``name`` is that
    of the models in the market; every charge is an entry of its own. ``limit`` and ``delta_limit`` lower the
    most that anybody may spend over all campaigns and models, as a campaign's do.

    Guaranteed: a charge is on the disk and in the log before it returns, for everybody or nobody. An open
    campaign counts with the largest epsilon that it could ask for.
    """

    def __init__(
        self,
        market: Market,
        name: str = "models",
        *,
        limit: float | None = None,
        delta_limit: float | None = None,
    ) -> None:
        self._market, self._name = market, name
        if limit is not None or delta_limit is not None:
            market.transact(lambda tx: _lower(tx, limit, delta_limit))

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | None = None,
        *,
        mus: ArrayLike | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody, as :meth:`dpmarket.privacy.account.Account.charge` does.

        People are ids, texts. A distance ``mu`` is charged as the epsilon that it has at ``delta``, and at
        least one unit of 2**-30.
        """
        if (epsilons is None) == (mus is None):
            raise InvalidInput("expected epsilons or mus: one of them is charged at a time.")
        if mus is not None:
            checks.strictly_between("delta", delta, 0.0, 1.0)
            distances = checks.non_negative_vector("mus", mus)
            # At least a unit: a distance that costs no epsilon at this delta costs the delta.
            least = np.where(distances > 0.0, 1.0 / EPSILON_UNITS, 0.0)
            epsilons = np.maximum(gaussian_epsilons(distances, delta), least)
        amounts = checks.non_negative_vector("epsilons", epsilons)
        checks.same_length("epsilons", amounts, "people", people)
        if not all(isinstance(one, str) for one in people):
            raise InvalidInput("expected ids that are texts.")
        charges = pl.DataFrame({"id": list(people), "epsilon": amounts}).filter(pl.col("epsilon") > 0.0)
        if charges.height == 0:
            return
        try:
            name = f"{self._name} {secrets.token_hex(8)}"
            self._market.run(enter_charge, OWNER, name, charges, delta)
        except MarketRefusal as refusal:
            if refusal.kind == "limit":
                raise Infeasible(f"{refusal} Nobody was charged.") from None
            raise InvalidInput(str(refusal)) from None

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down, at least 0."""
        rest = sa.select(_person.epsilon_cap - _person.epsilon_held - _person.epsilon_spent)
        with self._market.look() as c:
            cap = c.execute(sa.select(schema.market.c.cap)).scalar_one()
            digests = person_digests(self._market.key, people)
            found = [c.scalar(rest.where(_person.digest == digest)) for digest in digests]
        units = [cap if one is None else one for one in found]
        left = [np.inf if cap == UNLIMITED else max(one, 0) / EPSILON_UNITS for one in units]
        return read_only(np.array(left))


def _lower(tx: Tx, limit: float | None, delta_limit: float | None) -> None:
    people.lower_caps(tx, limit, delta_limit)
    refuse_limits(tx)


@act("operator")
def enter_charge(tx: Tx, caller: Caller, name: Text, charges: pl.DataFrame, delta: float = 0.0) -> int:
    """Enter a campaign of the channel ``account`` that is released at once; charges are by id, above 0."""
    ids, epsilons = charges.get_column("id").to_list(), charges.get_column("epsilon").to_list()
    digests = people.person_digests(tx.market_key, ids)
    is_once = 0 < len(set(digests)) == len(digests)
    require(is_once, "invalid", "Expected one epsilon for each of some different ids.")
    identity, attempt, rules = new_id(), secrets.token_hex(16), canonical({})
    names, units = [people.normal_id(one) for one in ids], [people.epsilon_units(one) for one in epsilons]
    values = {"id": identity, "name": name, "owner": caller.member, "made_at": tx.now, "ceiling": max(units)}
    values |= {"channel": "account", "mechanism": "posted", "state": "released", "rules": rules}
    values |= {"currency": "XXX", "minor_units": 1, "delta": people.delta_units(delta)}
    tx.add(schema.campaign, **values, rules_digest=digest_of(rules))
    found = campaign_of(tx.c, identity)
    table = sellers_by(digests, names, epsilons).drop("id").sort("digest")
    of_units = pl.DataFrame({"digest": pl.Series(digests, dtype=pl.Binary), "units": units})
    staged = stage(tx, "staged_charges", "digest", table.join(of_units, on="digest", maintain_order="left"))
    people.enter_people(tx, staged)
    by_digest = _person.digest == staged.c.digest
    joined = sa.select(sa.func.count()).select_from(staged).join(schema.person, by_digest)
    full = tx.c.scalar(joined.where(sa.not_(people.has_room(staged.c.units, found.delta))))
    require(full == 0, "limit", f"The lifetime limits of {full} people have no room for this.")
    sold = {"state": sa.literal("accepted"), "epsilon_used": staged.c.epsilon, "epsilon_held": staged.c.units}
    enter_staged(tx, found, staged, sold)
    charged = of(identity, "accepted")
    hold_all(tx, found, charged)
    pay_all(tx, found, charged, _own.epsilon_held)
    times = {"debited_at": tx.now, "committed_at": tx.now, "ended_at": tx.now}
    tx.add(schema.attempt, id=attempt, campaign=identity, state="released", **times)
    named = tx.log.write_snapshot(attempt, table)
    tx.commit_point("spend", campaign=describe(found), attempt=attempt, snapshot=named)
    return identity
