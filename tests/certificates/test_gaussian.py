"""Certificates of models with a delta, and a verifier with its own idea of what they cost."""

import copy
import hashlib
import json
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates.verifier.gaussian import (
    _tail,
    gaussian_covers,
    gaussian_release_up,
    gaussian_short,
)
from dpmarket.errors import NotCertifiable
from dpmarket.privacy import NoiseShape, gaussian_plan_release, gaussian_privacy_loss, gaussian_release_cost
from dpmarket.privacy.gaussian_weights import exact_delta
from support.certificates import (
    body_of,
    canonical,
    every_check_holds,
    failing,
    release_of,
    small_market,
    with_release,
)
from support.forged_receipts import GAUSSIAN
from support.forging import Papers

DELTA = 1e-5


def release(classes=2, n=3, rows=1, **changed):
    plan = gaussian_plan_release(1e-6, n, 5.0, 0.5, n_classes=classes, row_bound=1.25)
    stated = {
        "kind": "gaussian binary model" if classes == 2 else "gaussian softmax model", "delta": DELTA,
        "classes": list(range(classes)), "coef_grid": [0] * n if classes == 2 else [[0] * n] * classes,
        "n_coefficients": n, "l2": 0.5, "noise_rate": 5.0, "row_bound": 1.25, "rows_per_person": rows,
    }  # fmt: skip
    return release_of(plan, **stated | changed), plan


@pytest.mark.parametrize("x", ["-3", "0", "0.1", "4.25", "13", "37.5"])
def test_the_verifiers_normal_law_has_sixty_digits(x):
    with mpmath.workdps(90), localcontext() as context:
        context.prec = 120
        exact = mpmath.ncdf(-mpmath.mpf(x))
        found = mpmath.mpf(str(_tail(Decimal(x))))
        assert abs(found - exact) <= exact * mpmath.mpf(10) ** -60


@pytest.mark.parametrize(("classes", "rows"), [(2, 1), (2, 3), (3, 1), (5, 2)])
def test_the_verifier_finds_the_charge_by_itself(classes, rows):
    found, plan = release(classes, rows=rows)
    kappa = Fraction(plan.numerical_epsilon)
    weights = np.array([1e-4, 0.01, 0.2])
    inner = exact_delta(DELTA, plan.numerical_epsilon)
    options = {"row_bound": 1.25, "rows_per_person": rows, "n_classes": classes}
    charges = gaussian_privacy_loss(weights, 5.0, 0.5, inner, **options)
    for weight, charge in zip(weights.tolist(), charges.tolist(), strict=True):
        assert gaussian_covers(weight, Fraction(charge), kappa, found)
        assert not gaussian_covers(weight, Fraction(charge) * (1 - Fraction(1, 10**7)), kappa, found)
    spent = charges + plan.numerical_epsilon
    assert not gaussian_short(spent, weights, plan.numerical_epsilon, found).any()
    assert gaussian_short(spent * (1.0 - 1e-4), weights, plan.numerical_epsilon, found).all()
    assert not gaussian_short(np.zeros(1), np.zeros(1), plan.numerical_epsilon, found).any()


@pytest.mark.parametrize("classes", [2, 4])
def test_the_verifier_finds_the_cost_of_the_release_by_itself(classes):
    found, plan = release(classes)
    own = gaussian_release_up(found)
    assert own <= Fraction(plan.numerical_epsilon)
    cost = gaussian_release_cost(plan, 3, 5.0, 0.5, n_classes=classes, row_bound=1.25)
    assert float(own) == pytest.approx(cost, rel=1e-9)
    assert gaussian_release_up(release(classes, gradient_bound=1.0)[0]) is None


def test_what_releasing_takes_of_delta_is_counted():
    # At a delta of the release alone nothing is left for the output, however little it weighs.
    found, plan = release(delta=2.0**-60)
    assert not gaussian_covers(1e-9, Fraction(1), Fraction(plan.numerical_epsilon), found)
    found, plan = release(delta=2.0**-59)
    assert gaussian_covers(1e-9, Fraction(1), Fraction(plan.numerical_epsilon), found)


@pytest.fixture(scope="module", params=[2, 3])
def certified(request):
    return small_market(tuple(range(request.param)), delta=DELTA)


def test_a_model_with_a_delta_is_certified_and_every_check_holds(certified):
    outcome, model, certificate = certified
    assert every_check_holds(outcome, certificate)
    told = body_of(certificate)["release"]
    assert told["kind"] == f"gaussian {'binary' if len(model.classes) == 2 else 'softmax'} model"
    assert told["delta"] == DELTA


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda release: release.update(kind=release["kind"].removeprefix("gaussian ")), "public numbers"),
        (lambda release: release.update(delta=0.0), "public numbers"),
        (lambda release: release.update(delta=0.01), "public numbers"),
        (lambda release: release.update(gradient_bound=release["gradient_bound"] * 1.1), "release"),
        (lambda release: release.update(kind="gaussian model"), "layout"),
    ],
)
def test_a_forged_release_is_noticed(certified, change, check):
    forged, _ = with_release(certified[2], change)
    assert check in failing(dpm.verify(forged))


@pytest.mark.parametrize(("name", "factor"), [("delta", 0.5), ("noise_rate", 1.1)])
def test_a_line_that_is_charged_too_little_is_noticed(certified, name, factor):
    """Half the delta, or less noise, costs more than was spent: neither issued nor believed."""
    outcome, model, certificate = certified
    stolen = copy.copy(model)
    setattr(stolen, f"{name}_", getattr(model, f"{name}_") * factor)
    with pytest.raises(NotCertifiable, match="follow from the model's weights"):
        dpm.certify(outcome, stolen)
    forged, openings = with_release(
        certificate, lambda release: release.update({name: release[name] * factor})
    )
    found = failing(dpm.verify(forged, openings=openings))
    assert any("spent" in check for check in found)


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0 - 1e-6])
def test_a_smaller_delta_written_into_a_certificate_is_refused(name, factor):
    """A better promise than was kept; digests, receipts and openings follow from the change."""
    papers = Papers.read("other-kinds", name)
    k = max(range(len(papers.lines)), key=lambda k: papers.lines[k]["weight"])
    assert dpm.verify(papers.certificate, receipt=papers.receipt(k)).passed
    forged = papers.changed("release", "delta", to=papers.body["release"]["delta"] * factor)
    assert failing(dpm.verify(forged.certificate, receipt=forged.receipt(k))) == {"receipt's spent epsilon"}
    if factor < 0.9:  # all lines are compared in floats, to six digits of delta
        assert failing(dpm.verify(forged.certificate, openings=forged.openings)) == {"spent epsilons"}


def test_a_large_epsilon_of_somebody_with_several_rows_is_not_believed_because_numbers_end():
    """Beyond 60 standard deviations a tail was taken for larger than it is, and its excess for nothing."""
    found, plan = release(rows=3, noise_rate=50.0)
    kappa = Fraction(plan.numerical_epsilon)
    weight = 31.0 / (50.0 * 1.25)
    with mpmath.workdps(60):
        x = mpmath.mpf(1900) / 31
        least = mpmath.expm1(1900) / 1900 * 31 * (mpmath.npdf(x) - x * mpmath.ncdf(-x))
        assert least > 1
    assert not gaussian_covers(weight, Fraction(1900), kappa, found)
    assert gaussian_short(np.array([1900.0]), np.array([weight]), plan.numerical_epsilon, found).all()
    assert gaussian_covers(weight / 3.0, Fraction(1900), kappa, found)
    assert not gaussian_covers(1e-3, Fraction(10**7), kappa, found)
    assert not gaussian_covers(1e-3, Fraction(10**7), Fraction(10**6), release()[0])


def test_rows_of_another_norm_with_a_delta_get_no_certificate():
    rng = np.random.default_rng(0)
    outcome = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.01)).run(
        rng.uniform(1.0, 5.0, 12)
    )
    shape = NoiseShape([True, True], euclidean_bound=0.8)
    model = dpm.PrivateLogisticRegression(classes=(0, 1), delta=DELTA, noise_shape=shape)
    model.fit(rng.uniform(-0.4, 0.4, (12, 2)), np.arange(12) % 2, epsilons=outcome.epsilons)
    with pytest.raises(NotCertifiable, match="Euclidean norm with a delta"):
        dpm.certify(outcome, model)


def delta_verdict(certificate, **given):
    return {check.name: check.verdict for check in dpm.verify(certificate, **given).checks}.get("delta")


def test_a_delta_that_only_few_sellers_allow_is_not_called_checked_without_the_openings(certified):
    """Who holds a receipt cannot count the lines that were bought from, only all of them."""
    outcome, _, certificate = certified
    receipt = certificate.receipt(outcome.seller_ids.tolist()[0])
    assert delta_verdict(certificate, receipt=receipt) == delta_verdict(certificate) == "holds"
    assert delta_verdict(certificate, openings=certificate.openings()) is None  # there it is a total's check
    body = body_of(certificate)
    before = canonical(body)
    body["release"]["delta"], body["totals"]["bought_from"] = 0.04, 2
    forged = bytes(certificate).replace(before, canonical(body))
    assert delta_verdict(forged) == "not made"
    openings = json.loads(certificate.openings()) | {
        "certificate": hashlib.sha256(canonical(body)).hexdigest()
    }
    assert "totals" in failing(dpm.verify(forged, openings=canonical(openings) + b"\n"))
    body["totals"]["bought_from"] = 3
    assert "public numbers" in failing(dpm.verify(bytes(certificate).replace(before, canonical(body))))
