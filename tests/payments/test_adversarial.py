"""Markets built to mislead the fast path: each once gave a wrong payment, or none."""

import numpy as np
import pytest
from scipy import stats

from dpmarket import (
    BuyerObjective,
    FromScipy,
    Infeasible,
    InvalidInput,
    Mixture,
    NotConverged,
    OfflineMechanism,
    Uniform,
    allocate,
    virtual_costs,
)


def envelope_payment(costs, i, objective, dist):
    """For uniform costs, from two solutions: the minimum's derivative in psi_i is payment_weight*eps_i."""
    here = allocate(virtual_costs(costs, dist), objective)
    moved = costs.copy()
    moved[i] = dist.high
    rise = allocate(virtual_costs(moved, dist), objective).objective_value - here.objective_value
    return costs[i] * here.epsilons[i] + rise / (2 * objective.payment_weight)


@pytest.mark.parametrize("cheap", [40, 100])
def test_a_seller_whom_the_cap_makes_pivotal_is_paid_for_the_basin_that_takes_over(cheap):
    rng = np.random.default_rng(0)
    costs = np.concatenate((0.5 + 0.0005 * rng.random(cheap), np.full(8 * cheap, 200.0)))
    dist = Uniform(0, 4000)
    checked = 0
    for noise in np.geomspace(1e-9, 1e-3, 25):
        objective = BuyerObjective(1.0, noise, 1.0, weight_cap=9.0)
        mechanism = OfflineMechanism(dist, objective)
        paid = mechanism.respond(costs, 0, costs[0]).payment
        expected = envelope_payment(costs, 0, objective, dist)
        assert paid == pytest.approx(expected, rel=1e-7)
        checked += len(allocate(virtual_costs(costs, dist), objective).local_minima) > 1
    assert checked  # some of these markets have two minima


def test_a_seller_needed_far_above_the_cutoff_is_not_paid_for_the_wrong_basin():
    rng = np.random.default_rng(0)
    costs = np.concatenate((0.5 + 0.0005 * rng.random(500), np.full(4000, 200.0)))
    dist, objective = Uniform(0, 4000), BuyerObjective(1.0, 7.7257e-07, 1.0, weight_cap=9.0)
    paid = OfflineMechanism(dist, objective).respond(costs, 0, costs[0]).payment
    # The basin around the base solution alone would give 2.5745e-4.
    assert paid == pytest.approx(envelope_payment(costs, 0, objective, dist), rel=1e-9)


def test_no_lie_pays_where_one_groups_costs_end_and_the_next_begin():
    dist = Mixture([Uniform(0, 1), FromScipy(stats.beta(1, 2, loc=1))], [0.7, 0.3])
    mechanism = OfflineMechanism(dist, BuyerObjective(1, 1, 0.1))
    costs = [0.97, 0.5, 0.9, 0.8, 1.2]
    curve = mechanism.response_curve(costs, 0, np.append(np.linspace(0.9, 1.1, 41), [0.97, 1.0]))
    assert curve.utilities(0.97).max() <= curve.utilities(0.97)[-2] * (1 + 1e-9)


def test_a_free_seller_and_no_bound_on_epsilon_end_in_a_refusal():
    with pytest.raises(Infeasible, match="max_mean_epsilon"):
        OfflineMechanism(Uniform(0, 1), BuyerObjective(1, 1, 1)).run([0.0, 0.001])


@pytest.mark.parametrize(
    ("dist", "costs", "bounds"),
    [
        (FromScipy(stats.skewnorm(4, loc=3), 0, 12), [2.5, 3.0, 3.2, 3.4, 4.0, 5.0], {}),
        (FromScipy(stats.beta(2, 2)), [0.5], {}),
        (FromScipy(stats.triang(0.5)), [0.3, 0.6], {"weight_cap": 1.0}),
    ],
)
def test_virtual_costs_that_carry_rounding_or_end_in_infinity_are_paid_in_time(dist, costs, bounds):
    outcome = OfflineMechanism(dist, BuyerObjective(1, 1, 0.1, **bounds)).run(costs)
    bought = outcome.epsilons > 0
    assert (outcome.payments[bought] > 0).all()
    assert (outcome.payment_errors[bought] <= 1e-9 * outcome.payments[bought]).all()


def test_two_distributions_of_ones_own_are_not_taken_for_each_other():
    class Power(stats.rv_continuous):
        power = 1.0

        def _pdf(self, x):
            return self.power * x ** (self.power - 1)

        def _cdf(self, x):
            return x**self.power

        def _ppf(self, q):
            return q ** (1 / self.power)

    class Cubic(Power):
        power = 3.0

    plain = FromScipy(Power(a=0, b=1, name="my")(), 0, 1)
    cubic = FromScipy(Cubic(a=0, b=1, name="my")(), 0, 1)
    assert plain != cubic
    costs, objective = [0.3, 0.5, 0.7], BuyerObjective(1, 1, 0.3)
    first = OfflineMechanism(plain, objective).run(costs).payments
    second = OfflineMechanism(cubic, objective).run(costs).payments
    assert not np.allclose(first, second, rtol=0.05)


def test_sparse_cheap_sellers_beside_a_dense_crowd_are_paid_right():
    rng = np.random.default_rng(1)
    dist = Uniform(0.1, 5)
    costs = np.concatenate((rng.uniform(0.2, 1.5, 5), rng.uniform(2, 2.02, 1040), rng.uniform(2.1, 2.2, 280)))
    objective = BuyerObjective(1.0, 1e-2, 1e-3)
    outcome = OfflineMechanism(dist, objective).run(costs)
    for i in range(5):
        expected = envelope_payment(costs, i, objective, dist)
        assert outcome.payments[i] == pytest.approx(expected, rel=3e-9)  # the envelope's own rounding


def test_money_in_an_absurd_unit_is_refused():
    with pytest.raises(NotConverged, match="another unit"):
        OfflineMechanism(Uniform(0, 1e150), BuyerObjective(1, 1, 1)).run([1e149, 2e149, 3e149])


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.respond([1.0, 2.0], 0, -0.123456),
        lambda m: m.respond([1.0, 2.0], 0, 10**400),
        lambda m: m.respond([1.0, 2.0], 0, [1.0]),
        lambda m: m.run([1.0, 2.0], [["a"], ["b", "c"]]),
        lambda m: m.run([1.0, 2.0]).in_minor_units(10**400),
        lambda m: OfflineMechanism("uniform", m.objective),
        lambda m: OfflineMechanism(m.dist, None),
        lambda m: type(m.run([1.0])).from_dict(None),
        lambda m: type(m.run([1.0])).from_dict(m.run([1.0]).to_dict() | {"payments": [1.0, 2.0]}),
        lambda m: type(m.run([1.0])).from_dict(m.run([1.0]).to_dict() | {"planned_noise_rate": "x"}),
        lambda m: type(m.run([1.0])).from_dict(m.run([1.0]).to_dict() | {"optimality": {"cutoff": "x"}}),
        lambda m: type(m.run([1.0])).from_dict(m.run([1.0]).to_dict() | {"optimality": "x"}),
    ],
)
def test_bad_calls_are_refused_as_such_and_show_no_report(call):
    with pytest.raises(InvalidInput) as refusal:
        call(OfflineMechanism(Uniform(1, 5), BuyerObjective(1, 1, 0.1)))
    assert "0.123" not in str(refusal.value)
