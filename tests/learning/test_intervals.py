"""Intervals of private linear models: their law, what they read, the cost of a Hessian, and refusals."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import laplace, norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning import (
    PrivateBinomialRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
)
from dpmarket.learning.curvature import release_hessian, split_epsilons, whole_hessians
from dpmarket.learning.descent import People, responses
from dpmarket.learning.spread import quantiles, spread_of
from dpmarket.privacy import Account, NoiseNorm
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.loss import Softmax, hinge_loss, log_cosh_loss, logistic_loss
from dpmarket.privacy.noise import SeededNoise

EVERY = {
    "two classes": PrivateLogisticRegression(classes=(0, 1)),
    "three classes": PrivateLogisticRegression(classes=(0, 1, 2)),
    "support vectors": PrivateLinearSVC(classes=(0, 1)),
    "regression": PrivateLinearRegression(0.5, 1.0),
    "quantile": PrivateQuantileRegressor(0.3, 0.0, 1.0),
    "shares": PrivateBinomialRegression(),
}
every = pytest.mark.parametrize("name", EVERY)


def records(name="", count=400, seed=5):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-0.5, 0.5, (count, 2))
    score = 4.0 * x[:, 0] + rng.normal(size=count) * 0.5
    if name == "three classes":
        return x, np.digitize(score, [-0.5, 0.5])
    return x, score if name in ("regression", "quantile") else (score > 0.0).astype(int)


def fitted(name, delta=None, intervals=None, epsilon=10.0, seed=1):
    model = clone(EVERY[name]).set_params(epsilon=epsilon, delta=delta, noise_source=SeededNoise(seed))
    return model.fit(*records(name), intervals=intervals)


def test_quantiles_are_those_of_laws_that_are_known():
    one, nothing = np.ones(1), np.zeros((1, 1))
    found = quantiles(one, nothing, np.ones(1), 0.95)[0]
    assert found == pytest.approx(norm.ppf(0.975), rel=2e-3)
    found = quantiles(np.zeros(1), np.full((1, 1), 2.0), np.ones(1), 0.9)[0]  # one coefficient: Laplace
    assert found == pytest.approx(laplace.ppf(0.95), rel=2e-3)
    # A coordinate of the density exp(-|b|) in three dimensions exceeds x with probability (1 + x/2) exp(-x).
    wanted = brentq(lambda x: (1.0 + x / 2.0) * np.exp(-x) - 0.1, 0.0, 20.0)
    found = quantiles(np.zeros(1), np.full((1, 1), 4.0), np.full(1, 2.0), 0.9)[0]
    assert found == pytest.approx(wanted, rel=2e-3)
    found = quantiles(one, np.full((1, 1), 3.0), np.array([np.inf]), 0.9)[0]  # normal noise, with a delta
    assert found == pytest.approx(2.0 * norm.ppf(0.95), rel=2e-3)


def test_an_error_of_the_gradient_moves_a_descent_as_stated():
    """Against the descent of a quadratic, step by step, with an error in one step or in all."""
    descent, loss, curvature = Descent(1e-6, 30, 1.0), logistic_loss(), 0.07

    def end(errors):
        w = velocity = total = 0.0
        for turn, error in enumerate(errors):
            velocity = 0.9 * velocity + (curvature + 1e-3 * loss.curvature) * w + error
            w -= velocity / (4.0 * loss.curvature)
            total += w * (turn >= 15)
        return total / 15.0

    steady, single = responses(descent, loss, np.array([curvature]))
    assert steady[0] == pytest.approx(end(np.ones(30)), rel=1e-12)
    effects = [end(np.eye(30)[turn]) for turn in range(30)]
    assert single[0] == pytest.approx(np.linalg.norm(effects), rel=1e-12)


@every
@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("source", ["public rows", "stand-in", "Hessian"])
def test_every_model_has_intervals_around_its_coefficients_and_predictions(name, delta, source):
    model = fitted(name, delta, 0.4 if source == "Hessian" else None, epsilon=30.0)
    rows = records(name, seed=6) if source == "public rows" else None
    low, high, approximate = model.coef_interval(0.9, rows)
    assert low.shape == high.shape == model.coef_.shape
    assert (low < model.coef_).all()
    assert (model.coef_ < high).all()
    assert approximate == (source == "stand-in")
    x = records(name)[0][:7]
    around = model.predict_interval(x, 0.9, rows)
    if "classes" in name:
        predicted = model.predict_proba(x)
    else:
        predicted = model.decision_function(x) if name == "support vectors" else model.predict(x)
    assert around.low.shape == predicted.shape
    assert (around.low < predicted).all()
    assert (predicted < around.high).all()
    wider = model.coef_interval(0.95, rows)
    assert (wider.low < low).all()
    if source == "stand-in":
        known = model.summary(public_rows=records(name, seed=6))
        guessed = model.summary()
        assert (guessed.high - guessed.low > known.high - known.low).all()
        assert "approximate" in repr(guessed)
    # A published model has the same intervals: nobody's epsilon or weight is used.
    assert np.array_equal(model.published().coef_interval(0.9, rows).low, low)


def test_the_interval_holds_the_population_target_as_often_as_it_says():
    """Sixty seeded fits: an interval with half of its width, or for another target, fails."""
    x, y = records(count=3_000)
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chosen, public = rng.integers(3_000, size=(2, 400))
        model = PrivateLogisticRegression((0, 1), epsilon=2.0, noise_source=SeededNoise(seed))
        model.fit(x[chosen], y[chosen])
        factor, constant = model.shrinkage_correction_, model.intercept_scaling_
        rows = np.column_stack([x, np.full(3_000, constant)])
        whole = LogisticRegression(C=1.0 / (3_000 * model.l2_), fit_intercept=False, tol=1e-10).fit(rows, y)
        low, high, _ = model.coef_interval(0.9, x[public])
        target = whole.coef_[:, :2] * factor
        hits.append((low <= target) & (target <= high))
    assert 0.83 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("separate", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_noise_has_the_power_that_its_norm_states(separate, fit_intercept, name):
    model = clone(EVERY[name]).set_params(noise_norm=NoiseNorm(separate), fit_intercept=fit_intercept)
    x, y = records(name)
    model.set_params(epsilon=10.0).fit(x / 2.0, y)
    spread, norm_ = spread_of(model), model.release_.norm
    assert spread.variances.size == model.release_.loss.outputs * norm_.n_coefficients
    power = model.release_.loss.outputs * norm_.power / model.noise_rate_**2
    assert spread.variances.sum() == pytest.approx(power, rel=1e-12)
    joint = np.bincount(spread.blocks, minlength=spread.shapes.size)
    assert all(shape == (m + 1) / 2 for shape, m in zip(spread.shapes, joint, strict=True))
    assert len(model.summary().names) == spread.variances.size


def test_a_summary_is_a_table_a_frame_and_a_figure():
    model = fitted("three classes")
    found = model.summary(0.9, records("three classes", seed=6)[0])
    lines, frame = repr(found).splitlines(), found.to_frame()
    assert (
        lines[1].split() == frame.columns == ["coefficient", "estimate", "noise", "sampling", "low", "high"]
    )
    assert lines[2].startswith("0: x0")
    assert lines[-1].startswith("2: intercept")
    assert np.allclose(frame["estimate"], [*model.coef_.ravel(), *model.intercept_])
    assert "<th>sampling</th>" in found._repr_html_()
    axes = found.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == list(found.names)


# --- privacy ----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_intervals_of_neighbours_differ_by_what_is_released_alone(name, delta):
    """With a planted record in place of another, and the same released numbers, not one bit differs."""
    x, y = records(name)
    planted_x, planted_y = x.copy(), y.copy()
    planted_x[7], planted_y[7] = (0.9, -0.4), y.max() if y[7] != y.max() else y.min()
    fits = []
    for features, labels in ((x, y), (planted_x, planted_y)):
        model = clone(EVERY[name]).set_params(delta=delta, noise_source=SeededNoise(1), epsilon=30.0)
        fits.append(model.fit(features, labels, intervals=0.4))
    one, other = fits
    assert not np.array_equal(one.hessian_.cells, other.hessian_.cells)
    for attribute in ("coef_", "intercept_", "hessian_"):
        setattr(other, attribute, getattr(one, attribute))
    for public in (None, records(name, seed=6)):
        first, second = one.summary(0.9, public), other.summary(0.9, public)
        assert first.low.tobytes() == second.low.tobytes()
        assert first.high.tobytes() == second.high.tobytes()
        ends = [model.predict_interval(x[:5], 0.9, public) for model in (one, other)]
        assert ends[0].low.tobytes() == ends[1].low.tobytes()
    del one.hessian_, other.hessian_
    assert one.summary().low.tobytes() == other.summary().low.tobytes()


@pytest.mark.parametrize("loss", [logistic_loss(), log_cosh_loss(0.3), hinge_loss(), Softmax(3)])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_no_planted_record_moves_the_whole_hessian_further_than_is_charged(loss, clip):
    """A person of weight w moves the sum by at most 2 w 2^16 cells, whatever the record: cost w * unit."""
    rng = np.random.default_rng(2)
    norm_, epsilons = NoiseNorm.euclidean(2, constant=0.5), np.full(50, 40.0)
    plan = split_epsilons(loss, norm_, 0.5, epsilons, clip=clip).plan
    w = rng.normal(size=(loss.outputs, 3)) * 3.0
    rows = np.vstack(
        [rng.normal(size=(40, 2)), [[1.0, 0.0], [1e3, -1e8], [1e300, 1e300], [0.0, 0.0], [0.0, 1e-300]]]
    )
    labels = rng.integers(0, 2, len(rows)).astype(float)
    columns = np.vstack([rows.T, np.full(len(rows), 0.5)])
    with np.errstate(over="ignore", invalid="ignore"):
        cells = whole_hessians(plan, columns, labels, np.arange(len(rows)), w)
        alone = [
            whole_hessians(plan, columns[:, k : k + 1], labels[k : k + 1], np.zeros(1, int), w)
            for k in range(45)
        ]
    exact = [[int(value) for value in row] for row in cells]
    assert np.array_equal(cells, np.vstack(alone))  # a function of one person's records alone
    assert all(sum(value * value for value in row) <= CELLS**2 for row in exact)


def test_noise_of_the_hessian_has_the_charged_rate():
    """The noise of one released number is Laplace, rounded down, of scale 2 * 2^16 / unit cells."""
    split = split_epsilons(logistic_loss(), NoiseNorm.euclidean(1), 0.5, np.full(20, 4.0), clip=None)
    people = People(
        np.full((20, 1), 0.5), np.ones(20), np.arange(20), split.weights, int(split.weights.sum()), None
    )
    source = SeededNoise(3).bits()
    w = np.zeros((1, 1))
    noise = [release_hessian(split.plan, people, w, source).cells[0] for _ in range(2_000)]
    scale = 2.0 * CELLS / float(split.plan.unit)
    sums = int(
        (split.weights @ whole_hessians(split.plan, np.full((1, 20), 0.5), np.ones(20), np.arange(20), w))[0]
    )
    # Mean absolute values of 2,000 draws are within 7 standard errors: a false alarm in 4e11 runs.
    assert np.mean(np.abs(np.array(noise) - sums)) / scale == pytest.approx(1.0, abs=7.0 / 2_000**0.5)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_model_and_hessian_together_cost_no_more_than_the_epsilon(delta):
    x, y = records()
    epsilons = np.where(np.arange(400) % 3 == 0, 0.0, 30.0)
    epsilons[:5] = 1e-7, 1e-6, 0.5, 3.0, 100.0
    account = Account(100.0, 1e-6)
    model = PrivateLogisticRegression((0, 1), delta=delta, noise_source=SeededNoise(1))
    model.fit(x, y, epsilons=epsilons, account=account, intervals=0.4)
    assert (model.epsilons_ <= epsilons).all()
    assert (model.epsilons_[epsilons > 1e-5] >= 0.999 * epsilons[epsilons > 1e-5]).all()
    assert (model.epsilons_[epsilons == 0.0] == 0.0).all()
    assert np.allclose(account.spent(range(400)), model.epsilons_, rtol=1e-6)
    assert not model.certifiable_
    with pytest.raises(Infeasible, match="exceed their limit"):
        model.fit(x, y, epsilons=epsilons, account=account, intervals=0.4)


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_records_without_an_epsilon_have_no_influence_on_the_hessian(delta):
    x, y = records()
    epsilons = np.where(np.arange(400) < 20, 0.0, 30.0)
    other = x.copy()
    other[:20] = 0.7
    model = PrivateLogisticRegression((0, 1), delta=delta, noise_source=SeededNoise(1))
    cells = [model.fit(rows, y, epsilons=epsilons, intervals=0.4).hessian_.cells for rows in (x, other)]
    assert cells[0] == cells[1]


# --- refusals ---------------------------------------------------------------------------------------


def test_what_cannot_be_answered_is_refused_in_a_sentence():
    model = fitted("two classes")
    x, y = records(seed=6)
    for level in (0.0, 1.0, 0.9999, "high"):
        with pytest.raises(InvalidInput, match="level"):
            model.coef_interval(level)
    with pytest.raises(InvalidInput, match="at least 6 public rows"):
        model.coef_interval(0.9, x[:5])
    with pytest.raises(InvalidInput, match="label for each of 400"):
        model.coef_interval(0.9, (x, y[:5]))
    with pytest.raises(InvalidInput, match="3 features"):
        model.coef_interval(0.9, np.ones((50, 3)))
    with pytest.raises(InvalidInput, match="pair of rows and labels"):
        fitted("support vectors").coef_interval(0.9, x)
    with pytest.raises(InvalidInput, match="pass it as public_rows"):
        PrivateLogisticRegression((0, 1), epsilon=9.0, private="labels").fit(x, y, intervals=0.3)
    for share in (0.0, 1.0, -1, float("nan")):
        with pytest.raises(InvalidInput, match="intervals"):
            PrivateLogisticRegression((0, 1), epsilon=9.0).fit(x, y, intervals=share)


def test_epsilons_too_small_for_a_hessian_are_refused_before_anybody_is_charged():
    x, y = records()
    account = Account(1.0)
    model = PrivateLogisticRegression((0, 1), epsilon=0.01)
    with pytest.raises(Infeasible, match="too small for a noisy Hessian"):
        model.fit(x, y, account=account, intervals=0.3)
    assert (account.left(range(400)) == 1.0).all()
    with pytest.raises(InvalidInput, match="at most 100 coefficients"):
        PrivateLogisticRegression((0, 1), epsilon=10.0).fit(np.zeros((400, 150)), y, intervals=0.3)
