"""Certificates of models with shaped noise: the norm, both row bounds and the encoder are certified."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.audit import audit_accounting, audit_privacy_exact, weights_of
from dpmarket.certificates import ReleasedModel, certify, verify
from dpmarket.certificates.verifier.losses import loss_up, release_up
from dpmarket.certificates.verifier.shapes import declared_alike, misshapen
from dpmarket.learning import Categories, Numbers
from dpmarket.privacy import Weights, plan_release, privacy_loss, release_cost
from support.certificates import DIST, OBJECTIVE, constants, failing, verdicts

COLUMNS = {"age": Numbers(0, 1)} | {f"c{k}": Categories(tuple("abcdefghij")) for k in range(5)}


def encoded(count=60):
    rng = np.random.default_rng(6)
    table = {"age": rng.uniform(size=count).tolist()}
    table |= {f"c{k}": rng.choice(list("abcdefghij"), count).tolist() for k in range(5)}
    return dpm.PublicEncoder(COLUMNS).fit_transform(table)


@pytest.fixture(scope="module")
def outcome():
    return dpm.OfflineMechanism(DIST, OBJECTIVE).run(DIST.sample(60, np.random.default_rng(4)))


@pytest.fixture(scope="module")
def model(outcome):
    y = np.where(np.arange(60) % 2 == 0, "yes", "no")
    return dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(encoded(), y, epsilons=outcome.epsilons)


def test_a_model_with_shaped_noise_is_certified_and_verifies(outcome, model):
    assert model.noise_shape_ is not None
    certificate = certify(outcome, model)
    release = json.loads(certificate.body)["release"]
    assert release["kind"] == "shaped binary model"
    assert (release["joint_columns"], release["row_bound"]) == (1, model.row_bound_)
    assert release["euclidean_bound"] == model.euclidean_bound_
    found = verify(certificate, openings=certificate.openings())
    assert found.passed
    assert not failing(found)
    # Nothing declared implies the Euclidean bound: it is the buyer's word, and said to be.
    assert verdicts(found)["row lengths"] == "not made"
    for _, receipt in certificate.receipts():
        assert verify(certificate, receipt=receipt).passed


def test_the_verifiers_charge_is_that_of_the_formula_with_two_bounds():
    release = constants(kind="shaped binary model", euclidean_bound=0.6, joint_columns=0, l2=0.01)
    ours = privacy_loss([0.2], 10.0, 0.01, 1.5, euclidean_bound=0.6)[0]
    assert float(loss_up(0.2, release)) == pytest.approx(ours, rel=1e-12)
    assert loss_up(0.2, release) < loss_up(0.2, replace(release, euclidean_bound=1.5))
    assert loss_up(0.2, release) > loss_up(0.2, replace(release, row_bound=1.2))


@pytest.mark.parametrize("joint", [0, 2, 5])
def test_the_verifiers_price_of_releasing_is_that_of_the_plan(joint):
    plan = plan_release(
        1e-6, 5, 50.0, 0.02, 1.25, 1.0, euclidean_bound=0.6 if joint < 5 else 1.25, joint_columns=joint
    )
    bound = 0.6 if joint < 5 else 1.25
    release = constants(
        kind="shaped binary model", coef_grid=[0] * 5, n_coefficients=5, grid=plan.grid, noise_rate=50.0,
        l2=0.02, row_bound=1.25, gradient_bound=plan.gradient_bound, noise_accuracy=plan.noise_accuracy,
        euclidean_bound=bound, joint_columns=joint,
    )  # fmt: skip
    ours = release_cost(plan, 5, 50.0, 0.02, 1.25, 1.0, euclidean_bound=bound, joint_columns=joint)
    assert float(release_up(release)) == pytest.approx(ours, rel=1e-9)


def shaped(**changes):
    usual = {
        "kind": "shaped binary model", "features": {"name": ["age", "job=a", "job=b"]}, "coef_grid": [0] * 4,
        "n_coefficients": 4, "row_bound": 1.5, "euclidean_bound": 0.9, "joint_columns": 0,
        "encoder": {
            "columns": {"age": {"low": 0.0, "high": 1.0}, "job": {"categories": ["a", "b"]}}, "radius": 1.0,
        },
    }  # fmt: skip
    return constants(**usual | changes)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({"joint_columns": 1}, []),
        ({"row_bound": 1.2}, ["row_bound"]),
        ({"euclidean_bound": 0.4}, ["row_bound", "encoder"]),
        ({"euclidean_bound": 0.8}, ["encoder"]),
        ({"joint_columns": 2}, ["encoder"]),
        ({"joint_columns": 4}, ["row_bound"]),
        ({"joint_columns": 5}, ["row_bound", "encoder"]),
        ({"features": {"name": ["age", "job=a", "job=c"]}}, ["encoder"]),
        ({"encoder": {"columns": {"age": {"sort": 1}}, "radius": 1.0}}, ["encoder"]),
        ({"encoder": {"radius": 1.0}}, ["encoder"]),
        ({"encoder": None}, []),
    ],
)
def test_bounds_that_do_not_fit_the_shape_or_the_encoder_are_found(changes, wrong):
    assert misshapen(shaped(**changes), Fraction(1, 2)) == wrong


def test_spending_is_recomputed_with_both_bounds(outcome, model):
    weights = weights_of(model)
    promises = outcome.epsilons
    assert audit_accounting(
        weights, promises, model.release_plan_, len(model.coef_grid_), joint_columns=0
    ).passed
    larger = Weights(
        weights.loss_weights, weights.noise_rate, weights.l2, weights.row_bound * 1.01, 1,
        weights.numerical_epsilon, weights.euclidean_bound,
    )  # fmt: skip
    assert not audit_accounting(larger, promises).passed
    assert audit_privacy_exact(weights, promises).passed
    assert not audit_privacy_exact(larger, promises).passed


def test_a_released_model_says_its_shape(model):
    released = ReleasedModel.of(model)
    assert (released.joint_columns, released.encoder) == (1, None)
    assert released.euclidean_bound == model.euclidean_bound_


def test_published_features_are_compared_with_the_encoder():
    encoder = {
        "columns": {"age": {"low": 0.0, "high": 9.0, "missing": 4.0}, "job": {"categories": ["a", "3"]}}
    }
    features = {
        "age": {"low": 0.0, "high": 9.0, "missing": 4.0},
        "job": {"categories": ["a", 3], "other": False},
    }
    assert declared_alike(features, encoder)
    for name, part in (("age", {"missing": 5.0}), ("age", {"high": 8.0}), ("job", {"categories": ["a", 4]})):
        assert not declared_alike(features | {name: features[name] | part}, encoder)
    assert not declared_alike({"age": features["age"]}, encoder)
