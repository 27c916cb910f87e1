"""Whole gradients: clipped, exact, and a function of one person's records alone."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpmarket.learning.descent import People, cells_of, descend
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.loss import Softmax, hinge_loss, log_cosh_loss, logistic_loss
from dpmarket.privacy.noise import SeededNoise

LOSSES = [logistic_loss(), hinge_loss(0.3), log_cosh_loss(0.5), Softmax(3)]


def records(loss, count=60, n=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n)) * np.exp(rng.uniform(-6.0, 3.0, (count, 1)))
    y = rng.integers(max(loss.outputs, 2), size=count).astype(float)
    return x, y, rng.normal(size=(loss.outputs, n + 1))


def columns_of(x):
    return np.vstack([x.T, np.full(len(x), 0.5)])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_persons_gradient_is_whole_clipped_and_near_the_mean_of_its_rows(loss, rows):
    x, y, w = records(loss)
    starts = np.arange(0, 60, rows)
    clip = 0.5 * loss.reach_2
    cells = cells_of(columns_of(x), y, starts, loss, w, clip)
    assert (cells == np.trunc(cells)).all()
    assert max(sum(int(value) ** 2 for value in row) for row in cells.tolist()) <= CELLS**2
    full = np.column_stack([x, np.full(60, 0.5)])
    each = np.einsum("ik,ij->ikj", loss.derivatives(full @ w.T, y), full).reshape(60, -1)
    mean = each.reshape(-1, rows, w.size).mean(axis=1)
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True) / clip, 1.0)
    assert cells * clip / CELLS == pytest.approx(mean, abs=1.1 * clip / CELLS)


@pytest.mark.parametrize("loss", LOSSES)
def test_nobody_else_changes_a_persons_cells_by_a_single_bit(loss):
    x, y, w = records(loss, count=203)
    alone = [
        cells_of(columns_of(x[k : k + 1]), y[k : k + 1], np.zeros(1, int), loss, w, 0.5)[0]
        for k in range(203)
    ]
    together = cells_of(columns_of(x), y, np.arange(203), loss, w, 0.5)
    assert np.array_equal(together, np.array(alone))


def test_a_gradient_that_is_no_number_counts_as_nothing():
    x, y, w = records(logistic_loss())
    x[5] = np.nan
    x[6] = np.inf
    with np.errstate(invalid="ignore"):
        cells = cells_of(columns_of(x), y, np.arange(60), logistic_loss(), w, 0.5)
    assert np.isfinite(cells).all()
    assert not cells[5].any()


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_are_exact_whatever_the_order_and_the_blocks(sparse, monkeypatch):
    loss = Softmax(3)
    x, y, w = records(loss)
    weights = np.random.default_rng(1).integers(1, 2**30, 60)
    features = csr_array(x) if sparse else x
    people = People(features, y, np.arange(60), weights, int(weights.sum()), 0.5)
    total = people.whole_gradient(loss, w, 0.5)
    cells = cells_of(columns_of(x), y, np.arange(60), loss, w, 0.5)
    by_hand = [sum(int(a) * int(q) for a, q in zip(weights, column, strict=True)) for column in cells.T]
    assert [int(value) for value in total.ravel()] == by_hand
    monkeypatch.setattr("dpmarket.learning.descent._BLOCK", 50)
    assert np.array_equal(people.whole_gradient(loss, w, 0.5), total)


def test_without_much_noise_it_finds_the_minimum():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20_000, 3)) * 0.3
    y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 0]))).astype(float)
    descent, weights = Descent.for_epsilons(np.full(20_000, 8.0), 1e-6, 4)
    people = People(x, y, np.arange(20_000), weights, int(weights.sum()), 0.5)
    w = descend(people, logistic_loss(), descent, SeededNoise(0).bits())
    assert w[0] == pytest.approx([2.0, 0.0, 0.0, 0.0], abs=0.25)
