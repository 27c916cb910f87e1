"""Nobody loses by taking part, decided in exact arithmetic, and no cost is told."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from dpmarket import BuyerObjective, InvalidInput, OfflineMechanism, Uniform
from dpmarket.audit import audit_paid_amounts, audit_participation

MECHANISM = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01))
COSTS = Uniform(1, 5).sample(40, np.random.default_rng(2))


def altered(outcome, **changes):
    for values in changes.values():
        values.flags.writeable = False
    return dataclasses.replace(outcome, **changes)


def test_the_offline_mechanism_passes():
    audit = audit_participation(MECHANISM.run(COSTS), COSTS)
    assert audit.passed
    assert (audit.sellers, audit.losers, audit.losers_in_minor_units) == (40, 0, 0)


def test_one_payment_one_float_below_cost_times_epsilon_is_caught():
    outcome = MECHANISM.run(COSTS)
    k = int(COSTS.argmin())
    payments = outcome.payments.copy()
    exact = Fraction(COSTS[k]) * Fraction(outcome.epsilons[k])
    enough = float(exact) if Fraction(float(exact)) >= exact else np.nextafter(float(exact), np.inf)
    payments[k] = enough
    assert audit_participation(altered(outcome, payments=payments), COSTS).passed
    payments = payments.copy()
    payments[k] = np.nextafter(enough, 0.0)
    audit = audit_participation(altered(outcome, payments=payments), COSTS)
    assert not audit.passed
    assert (audit.losers, audit.positions) == (1, (k,))
    assert audit.decided_exactly >= 1


def test_costs_other_than_the_reported_ones_are_noticed():
    audit = audit_participation(MECHANISM.run(COSTS), 10.0 * COSTS)
    assert audit.losers > 0
    assert not audit.passed


def test_amounts_of_a_quotes_file_are_checked_in_whole_units():
    outcome = MECHANISM.run(COSTS)
    amounts = outcome.in_minor_units(100).amounts
    assert audit_paid_amounts(outcome.epsilons, amounts, COSTS).passed
    bought = int(np.flatnonzero(outcome.epsilons > 0)[0])
    short = amounts.copy()
    short[bought] = int(np.floor(outcome.epsilons[bought] * COSTS[bought] * 100))
    assert audit_paid_amounts(outcome.epsilons, short, COSTS).positions == (bought,)
    # Exactly equal is enough: half a unit of epsilon at a cost of 2 is 100 cents.
    assert audit_paid_amounts([0.5], [100], [2.0]).passed
    assert not audit_paid_amounts([0.5], [99], [2.0]).passed


def test_no_cost_is_told():
    outcome = MECHANISM.run(COSTS)
    audit = audit_participation(outcome, 10.0 * COSTS)
    told = json.dumps(audit.to_dict(), allow_nan=False) + str(audit.summary())
    assert audit.to_dict()["schema"] == "dpmarket.audit.participation/1"
    for cost in (10.0 * COSTS).tolist():
        assert f"{cost:.4f}" not in told


@pytest.mark.parametrize(
    ("costs", "words"),
    [([1.0], "same length"), ([np.nan] * 40, "40 NaN"), ([-1.0] * 40, "negative"), (["a"] * 40, "numbers")],
)
def test_costs_that_make_no_sense_are_refused(costs, words):
    with pytest.raises(InvalidInput, match=words):
        audit_participation(MECHANISM.run(COSTS), costs)


def test_other_nonsense_is_refused():
    with pytest.raises(InvalidInput, match="Outcome"):
        audit_participation({}, [1.0])
    with pytest.raises(InvalidInput, match="whole"):
        audit_paid_amounts([0.5], [1.5], [2.0])
    with pytest.raises(InvalidInput, match="scale"):
        audit_paid_amounts([0.5], [1], [2.0], scale=0)
