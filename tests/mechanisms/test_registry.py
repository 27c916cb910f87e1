"""Every mechanism comes back from its plain data, and does what it did."""

import json

import numpy as np
import pytest

from dpmarket import InvalidInput
from dpmarket.mechanisms import (
    OfflineMechanism,
    OnlineMechanism,
    PostedPrice,
    mechanism_from_dict,
    mechanism_of,
)
from support.markets import ALL, SIMPLE

MECHANISMS = {name: market.mechanism for name, market in ALL.items()} | SIMPLE
KINDS = {"uniform", "online", "posted price", "cheapest five", "same for all"}
COSTS = {name: (ALL[name].costs if name in ALL else buyer.dist) for name, buyer in MECHANISMS.items()}
each = pytest.mark.parametrize("name", MECHANISMS)


def plain(mechanism):
    """Return what makes the mechanism anew, through JSON."""
    data = mechanism.settings() if hasattr(mechanism, "settings") else mechanism.to_dict()
    return json.loads(json.dumps(data, allow_nan=False))


def answers(mechanism, name):
    costs = COSTS[name].sample(12, np.random.default_rng(1))
    curve = mechanism.response_curve(costs, 7, np.linspace(*np.quantile(costs, (0.1, 0.9)), 15))
    return curve.epsilons.tolist(), curve.payments.tolist()


@each
def test_a_mechanism_comes_back_from_its_plain_data_and_answers_the_same_to_the_last_bit(name):
    mechanism = MECHANISMS[name]
    twin = mechanism_from_dict(plain(mechanism))
    assert type(twin) is type(mechanism)
    assert plain(twin) == plain(mechanism)
    assert answers(twin, name) == answers(mechanism, name)


@each
def test_an_outcome_tells_the_mechanism_that_decided_it(name):
    mechanism = MECHANISMS[name]
    outcome = mechanism.run(COSTS[name].sample(60, np.random.default_rng(2)))
    twin = mechanism_of(outcome)
    assert type(twin) is type(mechanism)
    assert twin.name == outcome.mechanism
    assert answers(twin, name) == answers(mechanism, name)


def test_a_market_that_goes_on_comes_back_as_it_was():
    for name in ("online budget", "online cents"):
        market = mechanism_from_dict(plain(MECHANISMS[name]))
        market.accept(market.quote_many(COSTS[name].sample(5, np.random.default_rng(3))))
        twin = mechanism_from_dict(json.loads(json.dumps(market.to_dict())))
        assert twin.quoted == 5
        assert twin.to_dict() == market.to_dict()


@pytest.mark.parametrize("name", sorted(KINDS))
def test_data_without_a_part_and_data_of_another_mechanism_are_refused(name):
    data = plain(MECHANISMS[name])
    for part in data.keys() - {"minor_units"}:
        with pytest.raises(InvalidInput):
            mechanism_from_dict({key: value for key, value in data.items() if key != part})
    other = PostedPrice if name != "posted price" else OfflineMechanism
    with pytest.raises(InvalidInput, match="plain data of the mechanism"):
        other.from_dict(data)


def test_data_of_nothing_known_are_refused():
    for data in ({}, {"mechanism": "bargaining"}, {"schema": "dpmarket.curve/1"}, None, [1], "offline"):
        with pytest.raises(InvalidInput, match="plain data of a mechanism"):
            mechanism_from_dict(data)


def test_all_kinds_are_tried():
    kinds = {type(MECHANISMS[name]) for name in KINDS}
    assert kinds == {type(mechanism) for mechanism in MECHANISMS.values()}
    assert {OfflineMechanism, OnlineMechanism} < kinds
