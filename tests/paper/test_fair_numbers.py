"""What the verdicts rest on, checked apart from the experiments."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.paper import paper_bound_constants_in_bits, paper_curve
from dpmarket.paper.experiments.convexity import hessian, signed_rows
from dpmarket.paper.experiments.online import density_at_zero, proxy_loss
from dpmarket.paper.experiments.rate import (
    density_of_virtual_costs,
    leading_term,
    power,
    virtual_quantile,
)
from dpmarket.paper.experiments.schedule import proof_schedule
from dpmarket.paper.experiments.variables import _Direct, descend
from dpmarket.planning import bound_constants, sharp_bound_constants


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-6, 1e-1))
def test_only_mu_squared_over_sigma_gamma_decides_the_ratio_of_online_to_offline(mu, sigma, gamma):
    dist = Uniform(1.0, 5.0)
    costs = dist.sample(50, np.random.default_rng(0))
    psi = virtual_costs(costs, dist)

    def ratio(objective):
        curve = paper_curve(dist, objective, 50, density_at_zero(dist))
        return proxy_loss(curve.epsilons(costs), psi, objective) / allocate(psi, objective).objective_value

    same = BuyerObjective(1.0, 1.0, sigma * gamma / mu**2)
    assert ratio(BuyerObjective(mu, sigma, gamma)) == pytest.approx(ratio(same), rel=1e-6)


@given(st.floats(1e-6, 0.46), st.floats(1e-4, 200.0))
def test_the_printed_constants_in_bits_are_proved_up_to_delta_46_percent(delta, beta):
    printed = paper_bound_constants_in_bits(beta, delta, 0.1, 4)
    sharp = sharp_bound_constants(beta, delta, 0.1, 4)
    assert printed.concentration >= sharp.concentration
    assert printed.noise >= sharp.noise
    assert printed.proved


@given(st.floats(1e-6, 0.11), st.floats(1e-4, 200.0))
def test_up_to_delta_11_percent_they_also_cover_the_papers_own_route(delta, beta):
    printed = paper_bound_constants_in_bits(beta, delta, 0.1, 4)
    assert printed.concentration >= bound_constants(beta, delta, 0.1, 4).concentration


def test_beyond_that_the_printed_constants_are_not_called_proved():
    assert not paper_bound_constants_in_bits(100.0, 0.6, 0.1, 4).proved


@pytest.mark.parametrize("shape", ["power 0", "power 1", "power 2", "wide", "falling"])
def test_virtual_costs_are_c_plus_the_cdf_over_the_density(shape):
    """By finite differences of the quantiles of costs, which the virtual costs determine."""
    shares = np.linspace(0.01, 0.99, 981)
    psi = virtual_quantile(shape, shares)
    # psi = c + F/f and dc/dF = 1/f give d(c*F)/dF = psi: the mean of psi below a share is its cost.
    step = shares[1] - shares[0]
    start = virtual_quantile(shape, np.linspace(1e-9, 0.01, 2001)).mean() * 0.01
    area = start + np.concatenate([[0.0], np.cumsum(0.5 * (psi[1:] + psi[:-1]) * step)])
    costs = area / shares
    known = {
        "wide": 3.0 * shares,
        "falling": -np.log1p(-shares * (1.0 - math.exp(-1.0))),
    }.get(shape, shares ** (1.0 / (power(shape) + 1)))
    assert np.allclose(costs, known, atol=2e-4)


def test_the_density_of_virtual_costs_at_0_is_that_of_their_quantiles():
    for shape in ("power 0", "wide", "falling"):
        slope = virtual_quantile(shape, np.array([1e-6]))[0] / 1e-6
        assert 1.0 / slope == pytest.approx(density_of_virtual_costs(shape), rel=1e-4)


@pytest.mark.parametrize("sellers", [1e4, 1e8, 1e14])
def test_the_proofs_schedule_brings_the_proxy_loss_to_nu(sellers):
    nu, beta, gamma = 0.1, 5.0, 1e-5
    chosen = proof_schedule(nu, beta, gamma, 5, sellers)
    assert chosen.noise == pytest.approx(chosen.concentration**2)
    proxy = leading_term(chosen.concentration, chosen.noise, gamma, 0.5, sellers)
    rest = 4.0 * 0.5**-0.25 * gamma**0.25 * beta / math.log(2.0) / math.sqrt(3.0) / sellers**0.25
    assert proxy == pytest.approx(nu + rest, rel=1e-9)


def test_the_hessian_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 2)) / 3.0
    w, a = rng.standard_normal(2), rng.dirichlet(np.ones(6))

    def value(v):
        losses = np.logaddexp(0.0, -(rows @ v[:2]))
        return v[2:] @ losses + 0.5 * 1.3 * v[:2] @ v[:2] + 0.7 * v[2:] @ v[2:]

    found, at, step = hessian(rows, w, a, l2=1.3, mu=0.7), np.concatenate([w, a]), 1e-4
    for i in range(8):
        for j in range(8):
            ei, ej = step * np.eye(8)[i], step * np.eye(8)[j]
            second = value(at + ei + ej) - value(at + ei - ej) - value(at - ei + ej) + value(at - ei - ej)
            assert second / (4.0 * step**2) == pytest.approx(found[i, j], abs=1e-5)


def test_for_the_worst_records_the_convexity_condition_is_necessary():
    rows = signed_rows("worst", 30, 0)
    assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-12
    w = np.array([-1e4, 0.0])
    mu = math.sqrt(0.98 * 30) / 2.0
    below = np.linalg.eigvalsh(hessian(rows, w, np.full(30, 1 / 30), l2=2.0 * mu, mu=mu))[0]
    mu = math.sqrt(1.02 * 30) / 2.0
    above = np.linalg.eigvalsh(hessian(rows, w, np.full(30, 1 / 30), l2=2.0 * mu, mu=mu))[0]
    assert below < 0.0 < above


def test_descent_over_promises_is_given_the_right_gradient_and_goes_down():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((8, 2)) / 3.0
    problem = _Direct(rows, rng.uniform(1.0, 5.0, 8), l2=0.5, mu=2.0, sigma=1.0, gamma=0.01)
    w, epsilons = rng.standard_normal(2), rng.uniform(0.5, 2.0, 8)
    by_w, by_epsilons = problem.gradient(w, epsilons)
    for k in range(2):
        e = 1e-6 * np.eye(2)[k]
        slope = (problem.value(w + e, epsilons) - problem.value(w - e, epsilons)) / 2e-6
        assert slope == pytest.approx(by_w[k], abs=1e-7)
    for k in range(8):
        e = 1e-6 * np.eye(8)[k]
        slope = (problem.value(w, epsilons + e) - problem.value(w, epsilons - e)) / 2e-6
        assert slope == pytest.approx(by_epsilons[k], abs=1e-7)
    trace = descend(problem, w, epsilons, enough=-math.inf, most=50)
    assert (np.diff(trace) <= 1e-15).all()
    assert trace[-1] < trace[0]
