"""Turn what was decided for many partitions into a round that can be entered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dpmarket.allocation import max_epsilon
from dpmarket.arrays import FloatArray
from dpmarket.campaign import pilots
from dpmarket.campaign.market_file import Market
from dpmarket.ledger import Connection, Round, rounds
from dpmarket.ledger.manifests import how_many_in
from dpmarket.ledger.rounds import EPSILON, PAYMENT, SELLER, NewRound
from dpmarket.mechanisms import Curve, OfflineMechanism, OnlineMechanism
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.partitions.looking import Looked
from dpmarket.partitions.passes import costs_of
from dpmarket.partitions.quoting import Mechanism, PartitionQuotes, described

_MOST_COSTS = 1 << 24


def refuse_pilot(market_path: str, market: Market, looked: Looked) -> None:
    """Refuse reports to which the cost distribution was fitted, where that can be known.

    All costs are compared where they are few enough to hold in one place.
    """

    def costs() -> FloatArray | None:
        if looked.counts.sellers > _MOST_COSTS:
            return None
        return np.concatenate(looked.runner.map("comparing", costs_of, looked.places))

    def among(people: pl.DataFrame, ids: str) -> int:
        return sum(how_many_in(looked.counts.lists, people.get_column(ids).drop_nulls().to_list()))

    sources = [place.source for place in looked.places]
    pilots.refuse_pilot(market_path, market, sources, looked.counts.sellers, costs, among)


def decided(connection: Connection, found: Round) -> Mechanism:
    """Return the mechanism by which a round was decided."""
    parameters, _, _ = rounds.decision_of(connection, found.number)
    if found.mechanism == OnlineMechanism.name:
        curve = Curve.from_dict(parameters["curve"])
        return OnlineMechanism(curve.dist, curve)
    return OfflineMechanism.from_dict({"mechanism": "offline", **parameters})


def draft_round(
    market: Market, mechanism: Mechanism, digest: str, identity: str, plan: Mapping[str, Any] | None
) -> NewRound:
    """Return a round without its sums."""
    parameters = described(mechanism)
    name = parameters.pop("mechanism")
    ceiling = (
        mechanism.curve.largest_epsilon
        if isinstance(mechanism, OnlineMechanism)
        else max_epsilon(mechanism.objective)
    )
    return NewRound(
        quotes=pl.DataFrame(),
        content=b"",
        identity=identity,
        digest=digest,
        repetition=0,
        mechanism=name,
        minor_units=market.money.minor_units,
        ceiling=ceiling,
        parameters=parameters,
        plan=plan,
        header=None,
    )


def with_sums(new: NewRound, quotes: PartitionQuotes) -> NewRound:
    """Return the round with its sums, and the outcome's header; costs of few could be told from no value."""
    sums = pl.DataFrame({SELLER: ["all"], EPSILON: [quotes.promised], PAYMENT: [quotes.minor_units]})
    header = new.header
    if header is None:
        none = np.zeros(0)
        header = Outcome(
            mechanism=new.mechanism,
            seller_ids=np.zeros(0, dtype=np.int64),
            epsilons=none,
            payments=none.copy(),
            payment_errors=none.copy(),
            planned_weights=none.copy(),
            planned_noise_rate=quotes.promised if quotes.total_promise is None else quotes.total_promise,
            parameters=new.parameters,
        ).header()
    return replace(new, quotes=sums, sellers=quotes.sellers, header=header)
