"""Releases: charges against exact densities and against version 0.2.0, weights, grids, descriptions."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpmarket.audit import Claim, audit_spending
from dpmarket.audit.density import (
    Group,
    log_density,
    log_ratio,
    longest,
    worst_of_one_output,
    worst_of_softmax,
)
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy.loss import (
    SigmoidLoss,
    Softmax,
    hinge_loss,
    log_cosh_loss,
    logistic_loss,
    quantile_loss,
)
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release, default_l2, least_l2, shrinkage_correction

GOLDEN = json.loads(Path(__file__).with_name("golden_releases.json").read_text())
EUCLIDEAN, SUMS = NoiseNorm.euclidean(2), NoiseNorm([True, True])
HALVES = NoiseNorm([True, True], math.sqrt(0.5) * 1.0000001)  # rows of two equal entries are the longest
NORMS = {"Euclidean": EUCLIDEAN, "sum": SUMS, "sum of halves": HALVES}
LOSSES = {
    "logistic": (logistic_loss(), (0.0, 1.0)),
    "binomial": (logistic_loss(), (0.0, 0.5)),
    "hinge": (hinge_loss(0.3), (0.0, 1.0)),
    "low quantile": (quantile_loss(0.2, 0.1), (0.0,)),
    "high quantile": (quantile_loss(0.8, 0.1), (0.0,)),
    "log-cosh": (log_cosh_loss(0.5), (0.0,)),
    "softmax of 3": (Softmax(3), None),
    "softmax of 5": (Softmax(5), None),
}
FEW = ("logistic", "log-cosh", "softmax of 3")
# Weight, noise rate, penalty: determinant and noise; both, with a strong penalty; noise alone.
SETTINGS = [(0.05, 20.0, 1e-5), (0.3, 4.0, 0.02), (0.2, 2000.0, 1e-4)]


def release_of(case):
    loss = Softmax(case["classes"]) if case["kind"] == "softmax" else logistic_loss()
    return Release(loss, NoiseNorm.from_dict(case["norm"]), case["l2"], case["rows"])


@pytest.mark.parametrize("case", GOLDEN["releases"], ids=lambda case: f"{case['kind']}-{case['rows']}")
def test_charges_weights_and_grids_are_those_of_version_0_2(case):
    release = release_of(case)
    if case["weights"] is None:
        with pytest.raises(Infeasible, match="works"):
            release.weights(case["epsilons"])
        return
    weights, rate = release.weights(case["epsilons"])
    assert weights == pytest.approx(case["weights"], rel=1e-9)
    assert rate == pytest.approx(case["noise_rate"], rel=1e-9)
    charges = release.epsilons(case["weights"], case["noise_rate"])
    assert charges == pytest.approx(case["charges"], rel=1e-9)
    plan = release.grid_plan(1e-6, case["noise_rate"])
    assert plan.grid == case["grid"]
    assert plan.gradient_bound == pytest.approx(case["gradient_bound"], rel=1e-9)


def found_against_charged(name, norm, rows, settings):
    loss, labels = LOSSES[name]
    found = []
    for weight, rate, l2 in settings:
        release = Release(loss, norm, l2, rows)
        charge = release.epsilons([weight], rate)[0]
        if labels is None:
            worst = worst_of_softmax(release, rate, weight, 1.0 - weight, evaluations=150)
        else:
            worst = worst_of_one_output(release, rate, weight, 1.0 - weight, labels, evaluations=100)
        found.append(worst / charge)
    return found


@pytest.mark.parametrize(
    ("name", "norm"), [*((name, "Euclidean") for name in LOSSES), *((name, "sum") for name in FEW)]
)
def test_no_exact_density_ratio_exceeds_the_charge_and_the_best_case_reaches_it(name, norm):
    found = found_against_charged(name, NORMS[norm], 1, SETTINGS[:1])
    assert 0.95 <= max(found) <= 1.0 + 1e-9


@pytest.mark.parametrize("name", FEW)
def test_two_rows_of_one_person_stay_within_the_charge_and_reach_it(name):
    found = found_against_charged(name, EUCLIDEAN, 2, SETTINGS[2:])
    assert 0.95 <= max(found) <= 1.0 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", LOSSES)
def test_nor_does_one_with_other_weights_norms_and_rows(name, norm, rows):
    found = found_against_charged(name, NORMS[norm], rows, SETTINGS)
    assert max(found) <= 1.0 + 1e-9
    if "softmax" not in name or norm != "sum of halves":  # its search knows no rows of two equal entries
        assert max(found) >= 0.95


def test_the_search_notices_a_charge_without_its_determinant():
    release = Release(logistic_loss(), EUCLIDEAN, 1e-5)
    assert worst_of_one_output(release, 20.0, 0.05, 0.95, (0.0, 1.0)) > 1.2 * (0.05 * 20.0)


@pytest.mark.parametrize("loss", [logistic_loss(), Softmax(3)], ids=["logistic", "softmax"])
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_another_label_alone_is_charged_what_it_can_reveal(loss, norm):
    release = Release(loss, norm, 1e-3, private="labels")
    weight, rate = 0.2, 7.0
    charge = release.epsilons([weight], rate)[0]
    assert charge == pytest.approx(weight * rate * (0.5 if loss.outputs == 1 else 1.0), rel=1e-12)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        w = rng.normal(size=(loss.outputs, 2)) * np.exp(rng.uniform(-3.0, 6.0))
        row, other = (longest(rng.normal(size=2), norm) for _ in range(2))
        if rng.random() < 0.5:  # all in one direction, of small coefficients: where labels show most
            other, w = row, 1e-9 * w
        groups = [Group(row[None, :], np.array([label]), weight) for label in (0.0, 1.0)]
        others = Group(other[None, :], np.array([float(rng.integers(2))]), 1.0 - weight)
        found.append(log_ratio(release, rate, w, *groups, others))
    assert max(found) <= charge * (1.0 + 1e-9)
    if norm is not HALVES:
        assert max(found) >= 0.95 * charge


@pytest.mark.parametrize("loss", [hinge_loss(0.3), quantile_loss(0.5), log_cosh_loss(0.3)])
def test_label_only_privacy_is_refused_where_labels_move_the_curvature(loss):
    with pytest.raises(InvalidInput, match="curvature depends on the label"):
        Release(loss, EUCLIDEAN, 1.0, private="labels")


def test_no_weight_above_0_is_free_not_even_where_products_leave_the_range_of_floats():
    release = Release(logistic_loss(), EUCLIDEAN, 1e45)
    weights = np.array([0.0, 5e-324, 1e-290, 1.0])
    charged = release.epsilons(weights, 1e40)
    assert charged[0] == 0.0
    assert (charged >= weights * 1e40).all()  # what the noise alone costs


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("people", "least"), [(1, -6.0), (7, -6.0), (3_000, -6.0), (3_000, -60.0)])
def test_weights_spend_every_epsilon_exceed_none_and_add_up_to_one(name, rows, people, least):
    rng = np.random.default_rng(people)
    epsilons = np.exp(rng.uniform(least, 2.0, people))
    epsilons[3:4] = 0.0
    loss = LOSSES[name][0]
    for share in (0.6, 1.0, 3.0):
        release = Release(loss, EUCLIDEAN, share * least_l2(loss, EUCLIDEAN, epsilons.sum()), rows)
        weights, rate = release.weights(epsilons)
        spent = release.epsilons(weights, rate)
        assert (spent <= epsilons).all()
        assert spent == pytest.approx(epsilons, rel=1e-9 if people > 7 else 1e-11, abs=0.0)
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_what_cannot_be_kept_is_refused_with_a_penalty_that_works(name):
    loss = LOSSES[name][0]
    release = Release(loss, EUCLIDEAN, 1e-3 * least_l2(loss, EUCLIDEAN, 0.8))
    with pytest.raises(Infeasible, match="no amount of noise") as refusal:
        release.weights([0.1, 0.2, 0.5])
    named = float(str(refusal.value).split("l2 = ")[-1].split()[0])
    Release(loss, EUCLIDEAN, named).weights([0.1, 0.2, 0.5])


@pytest.mark.parametrize("norm", [*NORMS.values(), NoiseNorm([False, True], 0.9, 0.25)])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rows", [1, 9])
def test_a_description_says_everything_and_comes_back(name, norm, rows):
    release = Release(LOSSES[name][0], norm, 0.37, rows)
    described = json.loads(json.dumps(release.to_dict()))
    assert Release.from_dict(described) == release
    # Charged again by other code, from the constants alone.
    charge = release.epsilons([0.1], 5.0)
    again = audit_spending(Claim(Release.from_dict(described), np.array([0.1]), 5.0), charge)
    assert again.passed
    assert again.found == pytest.approx(charge, rel=1e-12)
    constants = described["constants"]
    for name_of_constant in constants:
        forged = copy.deepcopy(described)
        forged["constants"][name_of_constant] = 0.123
        with pytest.raises(InvalidInput, match="constants"):
            Release.from_dict(forged)


OTHER = {
    "l2": -1.0, "rows_per_person": 0, "private": "features", "loss": {"kind": "cubic"}, "norm": {},
    "schema": "dpmarket.release/0",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_other_descriptions_are_refused(name):
    described = Release(logistic_loss(), EUCLIDEAN, 1.0).to_dict()
    with pytest.raises(InvalidInput, match=name):
        Release.from_dict(described | {name: OTHER[name]})


@pytest.mark.parametrize("name", LOSSES)
def test_the_stated_derivatives_stay_within_the_stated_bounds(name):
    loss, labels = LOSSES[name]
    rng = np.random.default_rng(1)
    outputs = rng.normal(size=(4000, loss.outputs)) * np.exp(rng.uniform(-2.0, 2.0, (4000, 1)))
    y = rng.integers(loss.outputs, size=4000) * 1.0 if labels is None else rng.choice(labels, 4000)
    slopes = loss.derivatives(outputs, y)
    diagonal, vector = loss.curvatures(outputs, y)
    second = diagonal[:, :, None] * np.eye(loss.outputs) - vector[:, :, None] * vector[:, None, :]
    assert np.abs(slopes).sum(axis=1).max() <= loss.reach
    assert np.linalg.norm(slopes, axis=1).max() <= loss.reach_2
    assert np.linalg.eigvalsh(second).max() <= loss.curvature * (1.0 + 1e-12)
    moves = rng.uniform(-1.0, 1.0, outputs.shape)
    moved = np.einsum("ikl,il->ik", second, moves)
    assert np.abs(moved).sum(axis=1).max() <= loss.curvature_1 * (1.0 + 1e-12)
    # Both derivatives agree with differences of the one before.
    ahead, behind = (loss.derivatives(outputs + sign * 1e-6 * moves, y) for sign in (1.0, -1.0))
    assert (ahead - behind) / 2e-6 == pytest.approx(moved, abs=1e-7 * loss.curvature * 4.0)
    over = [loss.curvatures(outputs + sign * 1e-5 * moves, y) for sign in (1.0, -1.0)]
    changes = [d[:, :, None] * np.eye(loss.outputs) - v[:, :, None] * v[:, None, :] for d, v in over]
    change = (changes[0] - changes[1]) / 2e-5
    assert np.abs(np.linalg.eigvalsh(change)).sum(axis=1).max() <= loss.third * (1.0 + 1e-4)
    for sign in (1.0, -1.0):
        rest = loss.relative_third * second - sign * change
        assert np.linalg.eigvalsh(rest).min() >= -1e-5 * loss.third


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_the_log_density_is_no_steeper_than_the_grid_is_charged_for(name, norm):
    loss, labels = LOSSES[name]
    release, rate = Release(loss, norm, 0.05), 3.0
    rng = np.random.default_rng(2)
    steepest = 0.0
    for _ in range(200):
        rows = np.array([longest(rng.normal(size=2), norm) for _ in range(3)])
        y = rng.choice(labels or (0.0, 1.0, 2.0), 3)
        data = Group(rows, y, 1.0 / 3.0)
        w = rng.normal(size=(loss.outputs, 2)) * np.exp(rng.uniform(-3.0, 3.0))
        move = 1e-6 * rng.choice([-1.0, 1.0], w.shape)
        ends = [log_density(release, rate, w + sign * move, data) for sign in (1.0, -1.0)]
        steepest = max(steepest, abs(float(ends[0] - ends[1])) / 2e-6)
    plan = release.grid_plan(1e-6, rate)
    slope = release.grid_cost(plan, rate) - 2.0 * loss.outputs * 2 * math.atanh(_share(plan, release))
    assert steepest <= slope / (_share(plan, release) * plan.grid)


def _share(plan, release):
    return 2.0 * (plan.gradient_bound + plan.noise_accuracy) / release.l2 / plan.grid


def test_defaults_are_functions_of_public_sizes_with_known_values():
    norm = NoiseNorm.euclidean(20)
    assert default_l2(logistic_loss(), norm, 1e9) == pytest.approx(least_l2(logistic_loss(), norm, 1e9))
    assert default_l2(log_cosh_loss(0.3), norm, 100.0, share=0.25) > 0.0
    assert default_l2(logistic_loss(), norm, 100.0, "labels") < 0.5 * default_l2(logistic_loss(), norm, 100.0)
    release = Release(logistic_loss(), norm, 0.1)
    factors = [shrinkage_correction(release, rate) for rate in (1e-3, 100.0, 1e9)]
    assert factors[0] == pytest.approx(1.0, abs=1e-3)
    assert factors == sorted(factors)
    # Beyond all noise the whole penalty is undone: (h + l2) / h with h = 1 / 80.
    assert factors[2] == pytest.approx(9.0, rel=1e-3)


def simple(l2=1.0):
    return Release(logistic_loss(), EUCLIDEAN, l2)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: SigmoidLoss(0.0, 1.0, (0, 0), (0, 1), (0, 1)), "scale"),
        (lambda: SigmoidLoss(1.0, 1.0, (0, 0), (0, 2), (0, 1)), "targets"),
        (lambda: SigmoidLoss(1.0, 1.0, (0, 0), (0, 1), (1, 0)), "labels"),
        (lambda: SigmoidLoss(1.0, 1.0, (0, 0, 0), (0, 1), (0, 1)), "two numbers"),
        (lambda: Softmax(1), "outputs"), (lambda: quantile_loss(1.0), "share"),
        (lambda: log_cosh_loss(0.0), "width"), (lambda: NoiseNorm([1, 0]), "separate"),
        (lambda: NoiseNorm([True], 2.0), "euclidean_bound"),
        (lambda: NoiseNorm([True], 1.0, 0.3), "power of two"), (lambda: simple(math.nan), "l2"),
        (lambda: simple().weights([0.0, 0.0]), "epsilon above"),
        (lambda: simple().weights([1.0, -1.0]), "epsilons"),
        (lambda: simple().epsilons([0.5], 0.0), "noise_rate"),
        (lambda: simple(1e-40).epsilons([1e90], 1.0), "1e100"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, match):
    with pytest.raises(InvalidInput, match=match):
        make()
