"""Noisy descent: its accounting against 30 digits, its whole noise, and that weights keep every epsilon."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare, norm

from dpmarket.errors import InvalidInput
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.gaussian import gaussian_deltas, gaussian_epsilons, gaussian_mus
from dpmarket.privacy.noise import SeededNoise


def delta_by_hand(epsilon, mu):
    with mpmath.workdps(50):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.mark.parametrize("delta", [1e-3, 1e-9])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
def test_mu_is_the_largest_that_keeps_epsilon_rounded_down(delta, epsilon):
    found = float(gaussian_mus(np.array([epsilon]), delta)[0])
    assert delta_by_hand(epsilon, found) <= delta
    assert delta_by_hand(epsilon, found * (1.0 + 1e-9)) > delta


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-60])
def test_the_epsilon_of_a_gaussian_mechanism_is_rounded_up_and_hardly_more(mu, delta):
    epsilon = float(gaussian_epsilons(mu, delta))
    assert delta_by_hand(epsilon, mu) <= delta
    assert epsilon == 0.0 or delta_by_hand(epsilon / (1 + 1e-9), mu) > delta * (1 - 1e-4)
    assert gaussian_deltas(epsilon, mu) <= delta


def test_whole_weights_spend_every_epsilon_and_exceed_none():
    rng = np.random.default_rng(0)
    epsilons = np.exp(rng.uniform(-3.0, 1.5, 3000))
    epsilons[7] = 0.0
    descent, weights = Descent.for_epsilons(epsilons, 1e-6, n_coefficients=30)
    spent = descent.epsilons(weights)
    assert weights[7] == spent[7] == 0
    assert (spent <= epsilons).all()
    assert spent == pytest.approx(epsilons, rel=1e-5)
    # A person's largest move in units of the noise, over all steps: what mu means.
    assert descent.mu(weights) == pytest.approx(
        2.0 * weights * CELLS * math.sqrt(descent.steps) / descent.noise_scale, rel=1e-12
    )
    assert CELLS * int(weights.sum()) < 2**53


def test_the_number_of_steps_follows_the_total_of_mu():
    few, _ = Descent.for_epsilons(np.full(20, 0.1), 1e-6, 1000)
    many, _ = Descent.for_epsilons(np.full(5000, 3.0), 1e-6, 10)
    between, _ = Descent.for_epsilons(np.full(400, 1.0), 1e-6, 20)
    total = float(gaussian_mus(np.ones(1), 1e-6)[0]) * 400
    assert (few.steps, many.steps) == (20, 200)
    assert between.steps == math.floor((total / (4.0 * math.sqrt(20))) ** 2)


@pytest.mark.parametrize("scale", [0.3, 2.0, 1e12])
def test_the_noise_is_a_rounded_normal(scale):
    descent = Descent(1e-6, 20, scale)
    draws = np.array(descent.noise(SeededNoise(4).bits(), 20_000), dtype=float)
    edges = np.unique(np.round(scale * norm.ppf(np.linspace(0.02, 0.98, 25))) + 0.5)
    shares = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / scale))
    counts = np.histogram(draws, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    assert chisquare(counts, shares * draws.size).pvalue > 1e-6
    assert chisquare(counts, np.roll(shares, 3) * draws.size).pvalue < 1e-6 or edges.size < 4


def test_a_description_comes_back_and_nothing_else_does():
    descent, _ = Descent.for_epsilons([1.0, 2.0], 1e-6, 3)
    assert Descent.from_dict(descent.to_dict()) == descent
    for change in ({"schema": "x"}, {"cells": 4}, {"steps": 0}, {"delta": 2.0}, {"more": 1}):
        with pytest.raises(InvalidInput):
            Descent.from_dict(descent.to_dict() | change)


@pytest.mark.parametrize(
    ("epsilons", "delta", "match"),
    [
        ([0.0, 0.0], 1e-6, "above 0"),
        ([1.0, 1.0], 0.1, "10"),
        ([1.0], 0.0, "delta"),
        ([-1.0], 1e-6, "epsilons"),
    ],
)
def test_what_makes_no_sense_is_refused(epsilons, delta, match):
    with pytest.raises(InvalidInput, match=match):
        Descent.for_epsilons(epsilons, delta, 3)


def test_weights_must_be_whole():
    with pytest.raises(InvalidInput, match="whole"):
        Descent(1e-6, 20, 1e6).epsilons([0.5])
