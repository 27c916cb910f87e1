"""Private linear models at their public boundary: every loss, every noise, with and without a delta."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpmarket as dpm
from dpmarket.errors import InvalidInput
from dpmarket.learning import PublicScaler
from dpmarket.learning.linear import (
    PrivateBinomialRegression,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
)
from dpmarket.privacy import Account, Loss, SigmoidLoss, hinge_loss
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.loss import Term
from dpmarket.privacy.noise import SeededNoise
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release
from support.receipt_page import checks_by_both

GOLDEN = json.loads((Path(__file__).parents[1] / "privacy/golden_releases.json").read_text())["fits"]
SEED = SeededNoise(0)
EVERY = {
    "two classes": PrivateLogisticRegression(classes=(0, 1)),
    "three classes": PrivateLogisticRegression(classes=(0, 1, 2)),
    "support vectors": PrivateLinearSVC(classes=(0, 1)),
    "regression": PrivateLinearRegression(0.5, 1.0),
    "quantile": PrivateQuantileRegressor(0.3, 0.0, 1.0),
    "shares": PrivateBinomialRegression(),
}
every = pytest.mark.parametrize("name", EVERY)


def records(name="", count=300, n=4, seed=5):
    rng = np.random.default_rng(seed)
    x = np.round(rng.uniform(-0.25, 0.25, (count, n)), 6)
    score = 4.0 * x[:, 0] + rng.normal(size=count) * 0.5
    epsilons = np.round(np.exp(rng.uniform(-3.0, 1.0, count)), 6)
    y = np.digitize(score, [-0.4, 0.4]) if name == "three classes" else (score > 0.0).astype(int)
    return x, y if "regression" not in name else score, epsilons


@parametrize_with_checks(
    [
        clone(model).set_params(epsilon=100.0, clip=True, noise_source=SEED)
        for model in (
            PrivateLinearSVC(),
            PrivateLinearRegression(0.0, 50.0),
            PrivateQuantileRegressor(0.5, 0.0, 50.0),
        )
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['kind']}-{case['l2']}")
def test_the_same_noise_gives_the_integers_of_version_0_2(case):
    x, y, epsilons = records("three classes" if case["kind"] == "softmax" else "")
    settings = {"l2": case["l2"], "noise_source": SeededNoise(11)}
    people = None
    if case["kind"] == "mixed":
        settings["noise_norm"] = NoiseNorm([False, True, True, True], 0.8)
    if case["kind"] == "rows":
        settings["rows_per_person"] = 3
        people, epsilons = np.arange(300) // 3, epsilons[:100]
    model = PrivateLogisticRegression(**settings).fit(x, y, epsilons=epsilons, people=people)
    assert model.coef_grid_.tolist() == case["cells"]


@every
@pytest.mark.parametrize("delta", [None, 1e-5])
def test_everybody_is_charged_at_most_the_budget_and_the_description_says_how(name, delta):
    x, y, epsilons = records(name)
    epsilons[4] = 0.0
    model = clone(EVERY[name]).set_params(delta=delta).fit(x, y, epsilons=epsilons)
    assert (model.epsilons_ <= epsilons).all()
    assert model.epsilons_ == pytest.approx(epsilons, rel=1e-4, abs=1e-9)
    assert model.certifiable_
    described = json.loads(json.dumps(model.description_))
    if delta is None:
        release = Release.from_dict(described["release"])
        charged = release.epsilons(model.loss_weights_, described["noise_rate"])
        assert model.epsilons_ == pytest.approx(charged + described["numerical_epsilon"] * (charged > 0.0))
        values = np.array(described["cells"]) * described["grid"] * model.shrinkage_correction_
        values = values - values.mean(axis=0) if len(values) > 1 else values
        constant = described["release"]["norm"]["constant"]
        scale = getattr(model, "scale", 1.0)
        assert np.atleast_2d(model.coef_) == pytest.approx(scale * values[:, :-1])
        offset = getattr(model, "center", 0.0)
        assert np.ravel(model.intercept_) == pytest.approx(offset + scale * constant * values[:, -1])
    else:
        assert model.delta_ == delta
        weights = np.round(model.loss_weights_ * 2.0**36).astype(int)
        assert Descent.from_dict(described["release"]).epsilons(weights) == pytest.approx(
            model.epsilons_, rel=1e-6
        )


def test_diabetes_is_predicted_as_well_as_the_design_says():
    x, y = load_diabetes(return_X_y=True)
    scaler = PublicScaler(-0.095, 0.095, radius=1.5).fit(x)
    scores = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:266], order[266:]
        model = PrivateLinearRegression(center=150.0, scale=77.0, epsilon=3.0, noise_source=SeededNoise(seed))
        model.fit(scaler.transform(x[train]), y[train])
        scores.append(model.score(scaler.transform(x[test]), y[test]))
    assert np.mean(scores) > 0.39  # without privacy .41; noisy sufficient statistics .31


def test_a_quantile_has_its_share_of_labels_below():
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.5, 0.5, (20_000, 2))
    y = 5.0 + 3.0 * x[:, 0] + rng.normal(size=20_000)
    for share in (0.1, 0.5, 0.9):
        model = PrivateQuantileRegressor(share, center=5.0, scale=1.3, epsilon=1.0).fit(x, y)
        assert (y < model.predict(x)).mean() == pytest.approx(share, abs=0.04)


class NoNoise:
    """A source that must not be asked."""

    certifiable = True

    def bits(self):
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_everybody_is_charged_before_noise_is_drawn(delta):
    x, y, epsilons = records()
    account = Account(9.0, delta=1e-4)
    model = PrivateLogisticRegression(classes=(0, 1), noise_source=NoNoise(), delta=delta)
    with pytest.raises(AssertionError, match="noise was drawn"):
        model.fit(x, y, epsilons=epsilons, account=account)
    assert (account.spent(range(300)) > 0.0).all()


def test_labels_outside_what_a_model_takes_are_refused_without_a_value():
    x, y, epsilons = records()
    with pytest.raises(InvalidInput, match="share from 0 to 1") as refusal:
        PrivateBinomialRegression(epsilon=1.0).fit(x, y + 0.123)
    assert "1.123" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="two classes"):
        PrivateLinearSVC(epsilon=1.0).fit(*load_iris(return_X_y=True))
    with pytest.raises(TypeError, match="sample_weight"):
        PrivateLinearRegression(0.0, 1.0).fit(x, y, epsilons=epsilons, sample_weight=epsilons)


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateQuantileRegressor])
def test_a_regression_has_no_guess_of_its_own_where_labels_lie(kind):
    """Labels around 320 would be fitted around 0, badly and without a word."""
    with pytest.raises(TypeError, match="'center' and 'scale'"):
        kind(**{"quantile": 0.5} if kind is PrivateQuantileRegressor else {}, epsilon=1.0)


class CautiousSVC(PrivateLinearSVC):
    """Asks for a margin of 2 from one class and of 1 from the other."""

    def _loss(self):
        return SigmoidLoss(1.0, 1.0 / self.width, (1.0 / self.width, -3.0 / self.width), (0, 1), (0, 1))


class TwiceTheHinge(Loss):
    """A loss of no family, with constants and derivatives as the contract asks."""

    def __init__(self):
        once = hinge_loss()
        for name in ("outputs", "rank", "relative_third"):
            setattr(self, name, getattr(once, name))
        for name in ("reach", "reach_2", "span", "curvature", "curvature_1", "third", "variance"):
            setattr(self, name, getattr(once, name) and 2.0 * getattr(once, name))
        self.terms = tuple(Term(one.times, *(2.0 * value for value in one[1:])) for one in once.terms)

    def derivatives(self, outputs, labels):
        return 2.0 * hinge_loss().derivatives(outputs, labels)

    def curvatures(self, outputs, labels):
        diagonal, vector = hinge_loss().curvatures(outputs, labels)
        return 2.0 * diagonal, vector

    def to_dict(self):
        return {"kind": "twice the hinge"}


class OtherSVC(PrivateLinearSVC):
    def _loss(self):
        return TwiceTheHinge()


def test_a_loss_whose_rounding_is_not_bounded_is_refused_before_anybody_is_charged_and_descends():
    x, y, epsilons = records()
    account = Account(9.0)
    with pytest.raises(InvalidInput, match="TwiceTheHinge"):
        OtherSVC(classes=(0, 1), noise_source=NoNoise()).fit(x, y, epsilons=epsilons, account=account)
    assert not account.spent(range(300)).any()
    model = OtherSVC(classes=(0, 1), delta=1e-4, noise_source=SEED).fit(x, y, epsilons=epsilons * 100.0)
    assert (model.predict(x) == y).mean() > 0.8


@pytest.mark.parametrize("delta", [None, 1e-3])
def test_a_loss_that_nobody_knew_is_certified_and_checked_by_verifier_and_receipt_page(delta):
    rng = np.random.default_rng(0)
    mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(3, payment_weight=1e-3))
    costs, x = rng.uniform(1.0, 5.0, 60), rng.uniform(-0.5, 0.5, (60, 3))
    outcome = mechanism.run(costs)
    model = CautiousSVC(classes=(0, 1), delta=delta).fit(
        x, (x[:, 0] > 0.0).astype(int), epsilons=outcome.epsilons
    )
    made = dpm.certify(outcome, model, mechanism.rules(), seller_ids=[f"s{k}" for k in range(60)])
    first, receipt = bytes(made).split(b"\n")[0] + b"\n", made.receipt("s0")
    (checks,) = checks_by_both([(first, receipt, float(costs[0]))])
    verdicts = {check.name: check.verdict for check in checks}
    assert verdicts["receipt's epsilon used"] == "holds"
    assert "FAILS" not in verdicts.values()
