"""Certificates of models with more than two classes, and a verifier with its own idea of what they cost."""

import copy
from fractions import Fraction

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates.verifier.softmax import softmax_loss_up, softmax_losses, softmax_release_up
from dpmarket.errors import NotCertifiable
from dpmarket.privacy import softmax_plan_release, softmax_privacy_loss, softmax_release_cost
from support.certificates import body_of, every_check_holds, failing, release_of, small_market, with_release

CLASSES = ("bus", "car", "train")


def release(classes=4, n=3, rows=1, **changed):
    plan = softmax_plan_release(1e-6, classes, n, 50.0, 0.02, 1.25)
    stated = {
        "kind": "softmax model", "classes": list(range(classes)), "coef_grid": [[0] * n] * classes,
        "n_coefficients": n, "l2": 0.02, "noise_rate": 50.0, "row_bound": 1.25, "rows_per_person": rows,
    }  # fmt: skip
    return release_of(plan, **stated | changed), plan


@pytest.mark.parametrize(("classes", "n", "rows"), [(3, 2, 1), (5, 3, 2), (3, 2, 7), (10, 1, 40)])
@pytest.mark.parametrize("l2", [1e-4, 0.02, 3.0])
def test_the_verifier_finds_the_charge_by_itself(classes, n, rows, l2):
    found, _ = release(classes, n, rows, l2=l2)
    weights = np.array([1e-6, 0.003, 0.2])
    ours = softmax_privacy_loss(weights, 50.0, l2, classes, 1.25, rows, n_coefficients=n)
    exact = [softmax_loss_up(weight, found) for weight in weights.tolist()]
    assert all(Fraction(charge) >= own for charge, own in zip(ours.tolist(), exact, strict=True))
    assert [float(own) for own in exact] == pytest.approx(ours.tolist(), rel=1e-12)
    assert softmax_losses(weights, found) == pytest.approx(ours, rel=1e-11)
    assert softmax_losses(np.array([0.0, 0.1]), found)[0] == 0.0


def test_the_verifier_finds_the_cost_of_the_release_by_itself():
    found, plan = release()
    own = softmax_release_up(found)
    assert own <= Fraction(plan.numerical_epsilon)
    assert float(own) == pytest.approx(softmax_release_cost(plan, 4, 3, 50.0, 0.02, 1.25), rel=1e-9)
    assert softmax_release_up(release(gradient_bound=1.0)[0]) is None


@pytest.fixture(scope="module")
def certified():
    return small_market(CLASSES)


def test_a_model_of_three_classes_is_certified_and_every_check_holds(certified):
    outcome, model, certificate = certified
    assert every_check_holds(outcome, certificate)
    told = body_of(certificate)["release"]
    assert told["kind"] == "softmax model"
    assert told["classes"] == list(CLASSES)
    assert told["coef_grid"] == model.coef_grid_.tolist()


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda release: release.update(kind="binary model"), "public numbers"),
        (lambda release: release["classes"].append("plane"), "public numbers"),
        (lambda release: release["classes"].__setitem__(1, "bus"), "public numbers"),
        (lambda release: release["coef_grid"][1].pop(), "public numbers"),
        (lambda release: release["coef_grid"].pop(), "public numbers"),
        (lambda release: release["coef_grid"][0].__setitem__(0, 0.5), "public numbers"),
        (lambda release: release.update(coef_grid=[]), "layout"),
        (lambda release: release.update(gradient_bound=release["gradient_bound"] * 1.1), "release"),
    ],
)
def test_a_forged_release_is_noticed(certified, change, check):
    forged, _ = with_release(certified[2], change)
    assert check in failing(dpm.verify(forged))


def test_a_line_that_is_charged_too_little_is_noticed(certified):
    """Half the penalty costs more than was spent: neither issued nor believed."""
    outcome, model, certificate = certified
    stolen = copy.copy(model)
    stolen.l2_ = model.l2_ / 2.0
    with pytest.raises(NotCertifiable, match="follow from the model's weights"):
        dpm.certify(outcome, stolen)
    forged, openings = with_release(certificate, lambda release: release.update(l2=release["l2"] / 2.0))
    found = failing(dpm.verify(forged, openings=openings))
    assert "lines" in found or "spent" in " ".join(found)
