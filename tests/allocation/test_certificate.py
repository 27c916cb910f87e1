"""The residual is near zero at the minimum and large anywhere else, whoever found the point."""

import numpy as np
import pytest

from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.allocation.certificate import examine

OBJECTIVES = [
    BuyerObjective(1.0, 1.0, 0.01),
    BuyerObjective(1.0, 1.0, 0.1, weight_cap=2.0),
    BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.3, max_mean_epsilon=0.01),
]


@pytest.fixture(params=OBJECTIVES)
def solved(request):
    psi = np.random.default_rng(4).uniform(1.0, 9.0, 200)
    return psi, request.param, allocate(psi, request.param)


def residual(psi, objective, weights, total_promise):
    return examine(psi, weights, weights * total_promise, total_promise, objective).kkt_residual


def test_the_minimum_has_no_residual(solved):
    psi, objective, found = solved
    assert residual(psi, objective, found.loss_weights, found.total_promise) < 1e-14


def test_moving_a_little_weight_between_two_sellers_shows(solved):
    psi, objective, found = solved
    cheap, dear = np.argsort(psi)[[found.n_capped + 1, found.n_bought - 2]]
    weights = found.loss_weights.copy()
    moved = 1e-3 * weights[dear]
    weights[dear] -= moved
    weights[cheap] += moved
    assert residual(psi, objective, weights, found.total_promise) > 1e-6


def test_buying_from_somebody_too_dear_shows(solved):
    psi, objective, found = solved
    weights = np.where(np.arange(psi.size) == psi.argmax(), 0.001, found.loss_weights * 0.999)
    if found.loss_weights[psi.argmax()] == 0.0:
        assert residual(psi, objective, weights, found.total_promise) > 1e-2
    else:
        assert residual(psi, objective, weights, found.total_promise) > 1e-4


def test_a_wrong_total_promise_shows(solved):
    psi, objective, found = solved
    assert residual(psi, objective, found.loss_weights, found.total_promise * 0.999) > 1e-4
    assert residual(psi, objective, found.loss_weights, found.total_promise * 1.001) > 1e-4


def test_weights_that_do_not_sum_to_one_show(solved):
    psi, objective, found = solved
    assert residual(psi, objective, found.loss_weights * (1 - 1e-6), found.total_promise) > 9e-7


def test_breaking_a_bound_shows():
    psi = np.random.default_rng(4).uniform(1.0, 9.0, 50)
    free = allocate(psi, BuyerObjective(1.0, 1.0, 0.1))
    capped = BuyerObjective(1.0, 1.0, 0.1, weight_cap=1.5)
    assert residual(psi, capped, free.loss_weights, free.total_promise) > 0.1
    bounded = BuyerObjective(1.0, 1.0, 0.1, max_mean_epsilon=0.5 * free.total_promise / 50)
    assert residual(psi, bounded, free.loss_weights, free.total_promise) > 0.5


def test_promises_that_do_not_match_the_weights_show(solved):
    psi, objective, found = solved
    promised = found.epsilons * (1 - 1e-6)
    evidence = examine(psi, found.loss_weights, promised, found.total_promise, objective)
    assert evidence.kkt_residual > 9e-7


def test_a_common_offset_of_all_costs_hides_no_error():
    psi = 1e9 + np.random.default_rng(8).random(30)
    objective = BuyerObjective(1.0, 1e9, 1.0, max_mean_epsilon=1.0)
    found = allocate(psi, objective)
    assert found.kkt_residual < 1e-12
    order = np.argsort(psi)
    weights = found.loss_weights.copy()
    weights[order[0]] += 1e-5
    weights[order[1]] -= 1e-5
    assert residual(psi, objective, weights, found.total_promise) > 1e-6


def test_the_parts_are_what_plain_sums_give(solved):
    psi, objective, found = solved
    a = found.loss_weights
    evidence = examine(psi, a, found.epsilons, found.total_promise, objective)
    assert evidence.concentration_part == pytest.approx(np.sqrt((a * a).sum()), rel=1e-14)
    assert evidence.noise_part == 1.0 / found.total_promise
    paid = objective.payment_weight * (found.epsilons * psi).sum()
    assert evidence.payment_part == pytest.approx(paid, rel=1e-14)
    assert evidence.n_bought == np.count_nonzero(a)


def test_negative_weights_show(solved):
    psi, objective, found = solved
    weights = found.loss_weights.copy()
    weights[psi.argmax()] -= 1e-3
    weights[psi.argmin()] += 1e-3
    assert residual(psi, objective, weights, found.total_promise) >= 9e-4


def test_a_bound_excuses_too_little_epsilon_but_not_too_much():
    psi = np.full(10, 4.0)
    weights = np.full(10, 0.1)
    best = np.sqrt(1.0 / (0.01 * 4.0))
    for factor, excused in ((0.5, True), (2.0, False)):
        objective = BuyerObjective(1.0, 1.0, 0.01, max_mean_epsilon=factor * best / 10)
        found = residual(psi, objective, weights, 10 * objective.max_mean_epsilon)
        assert (found < 1e-14) is excused
