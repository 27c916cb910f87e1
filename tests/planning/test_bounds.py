"""The error bound: the corrected constants keep their promise, the printed ones need not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, gammaincc

import dpmarket as dpm
from dpmarket import InvalidInput
from dpmarket.planning import (
    bound_constants,
    paper_bound_constants,
    paper_bound_constants_in_bits,
    sharp_bound_constants,
)


def even(records, noise_rate):
    return np.full(records, 1.0 / records), noise_rate


def test_the_constants_are_those_worked_by_hand():
    corrected = bound_constants(2.0, 0.1, 0.05, 3)
    log2 = math.log(1 + math.exp(2.0)) / math.log(2)
    worked = 3 * math.sqrt(math.log(20) / 2) * log2 + 4.0 / math.log(2)
    assert corrected.concentration == pytest.approx(worked, rel=1e-14)
    assert float(gammaincc(3, corrected.noise / 2.0 / 2.0)) == pytest.approx(0.05, rel=1e-12)
    printed = paper_bound_constants(2.0, 0.1, 0.05, 3)
    rate = math.log(10) / math.sqrt(2)
    worked = 3 * rate * math.log(1 + math.exp(2.0)) + 2.0 / math.log(2)
    assert printed.concentration == pytest.approx(worked, rel=1e-14)
    assert printed.noise == pytest.approx((6 * rate + 1) * 2 * corrected.noise, rel=1e-14)
    assert sharp_bound_constants(2.0, 0.1, 0.05, 3).concentration < corrected.concentration
    assert tuple(corrected) == (corrected.concentration, corrected.noise)


def test_longer_rows_cost_what_longer_coefficients_do_except_for_the_noise():
    long_rows, long_coefficients = (
        bound_constants(1.0, 0.1, 0.1, 3, row_bound=2.0),
        bound_constants(2.0, 0.1, 0.1, 3),
    )
    assert long_rows.concentration == long_coefficients.concentration
    assert 2.0 * long_rows.noise == pytest.approx(long_coefficients.noise)


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


@pytest.mark.parametrize("constants", [bound_constants, sharp_bound_constants])
def test_the_noise_part_covers_the_noise_exactly_as_often_as_promised(constants):
    # P(|b'|*beta > sigma/eta) must be 0.2; 20,000 draws, six standard errors (2e-9); a tenth more is noticed.
    found = constants(1.5, 0.1, 0.2, 4)
    lengths = 2.0 / 7.0 * np.random.default_rng(0).gamma(4.0, size=20_000)
    share = np.mean(1.5 * lengths > found.noise / 7.0)
    assert abs(share - 0.2) < 6 * math.sqrt(0.16 / 20_000)
    assert abs(np.mean(1.5 * lengths > 1.1 * found.noise / 7.0) - 0.2) > 6 * math.sqrt(0.16 / 20_000)


@pytest.mark.parametrize("uneven", [0.0, 2.0])
def test_the_corrected_bound_holds_for_the_worst_coefficients_at_least_as_often_as_promised(uneven):
    # Rows 1 and labels by a coin: for every w the true loss is known, and the worst w is an end of
    # [-beta, beta]. Of 4,000 samples at most delta may break the bound (one-sided, 1e-6).
    rng = np.random.default_rng(1)
    weights = rng.exponential(size=60) ** uneven
    weights /= weights.sum()
    beta, delta = 3.0, 0.1
    labels = rng.choice([-1.0, 1.0], (4000, 60))
    worst = np.full(4000, -np.inf)
    for w in (-beta, beta):
        true = (np.logaddexp(0, -w) + np.logaddexp(0, w)) / 2 / math.log(2)
        trained = np.logaddexp(0, -labels * w) @ weights / math.log(2)
        worst = np.maximum(worst, true - trained)
    allowed = stats.binom.isf(1e-6, 4000, delta)
    for constants in (bound_constants, sharp_bound_constants):
        mu = constants(beta, delta, 0.1, 1).concentration
        assert np.sum(worst > mu * np.linalg.norm(weights)) <= allowed
    # A mu of a fifth of the sharp one would be caught: the test can fail.
    assert (
        np.sum(
            worst > 0.2 * sharp_bound_constants(beta, delta, 0.1, 1).concentration * np.linalg.norm(weights)
        )
        > allowed
    )


def trained_models(runs, l2, noise_rate, rng):
    """Coefficient and noise of runs with one feature x = 1 and label 1 always."""
    noise = 2.0 / noise_rate * rng.gamma(1.0, size=runs) * rng.choice([-1.0, 1.0], runs)
    for b in noise:
        w = 0.0
        for _ in range(5):  # a contraction by 1/(4 l2)
            w = (expit(-w) - b) / l2
        yield w, b


def test_the_literal_bound_fails_far_more_often_than_it_admits_and_the_corrected_one_does_not():
    # All labels are 1, so that a negative coefficient errs always. Much noise, a large penalty: |w| <= 1e-3.
    # The natural logarithm of 2 is 0.69, below an error of 1; admitted failures: 10%.
    rng = np.random.default_rng(2)
    records, total, beta = 10_000, 1.0, 1e-3
    literal, corrected = (make(beta, 0.05, 0.05, 1) for make in (paper_bound_constants, bound_constants))
    sharp = sharp_bound_constants(beta, 0.05, 0.05, 1)
    failures = dict.fromkeys(("literal", "corrected", "sharp"), 0)
    runs = 300
    for w, b in trained_models(runs, 1e5, total, rng):
        assert abs(w) <= beta
        error = 1.0 if w <= 0.0 else 0.0
        loss = np.logaddexp(0, -w)
        size = 1 / math.sqrt(records)
        bound = loss + b * w + 5e4 * w * w + literal.concentration * size + literal.noise / total
        failures["literal"] += error > bound
        for name, constants in (("corrected", corrected), ("sharp", sharp)):
            bits = loss / math.log(2) + b * w + constants.concentration * size + constants.noise / total
            failures[name] += error > bits
    assert failures["literal"] > 0.25 * runs
    assert failures["corrected"] == failures["sharp"] == 0


def test_the_excess_risk_is_that_of_the_objective_and_infinite_if_nothing_is_bought():
    objective = dpm.BuyerObjective(0.7, 1.3, 0.01)
    allocation = dpm.allocate([1.0, 2.0, 5.0], objective)
    parts = allocation.concentration_part + allocation.noise_part
    risk = dpm.planning.excess_risk(allocation.loss_weights, allocation.total_promise, objective)
    assert risk == pytest.approx(parts, rel=1e-14)
    nothing = dpm.mechanisms.PostedPrice(dpm.Uniform(1, 5), 0.1, 0.5).run([2.0, 3.0])
    risk = dpm.planning.excess_risk(nothing.planned_weights, nothing.planned_noise_rate, objective)
    assert risk == math.inf


def public(features, labels):
    return dpm.PublicData(features, labels, (-1, 1), low=-1.0, high=1.0, name="made up", source="here")


def test_the_error_bound_adds_up_on_public_data():
    data = public([[0.5], [-1.0], [0.25], [1.0]], [1, -1, -1, 1])
    constants = bound_constants(2.0, 0.1, 0.1, 1)
    bound = dpm.planning.error_bound(data, [2.0], *even(4, 10.0), constants, noise=[0.5])
    worked = np.mean(np.log2(1 + np.exp(-2.0 * np.array([0.5, 1.0, -0.25, 1.0]))))
    assert bound.training_loss == pytest.approx(worked)
    assert bound.noise_loss == 1.0
    assert bound.noise_part == constants.noise / 10.0
    assert bound.value == pytest.approx(worked + 1.0 + constants.concentration / 2 + constants.noise / 10)
    assert bound.probability == pytest.approx(0.8)
    assert bound.to_dict()["schema"] == "dpmarket.error-bound/1"


def test_the_error_bound_is_refused_for_private_records_and_where_it_does_not_hold():
    data, constants = public([[0.5], [-1.0]], [1, -1]), bound_constants(2.0, 0.1, 0.1, 1)
    cases = [
        ((np.array([[0.5], [-1.0]]), [1.0], *even(2, 1.0), constants, [0.0]), "PublicData"),
        ((data, [2.1], *even(2, 1.0), constants, [0.0]), "coef_radius"),
        ((data, [1.0, 2.0], *even(2, 1.0), constants, [0.0]), "as many coefficients"),
        ((data, [1.0], *even(3, 1.0), constants, [0.0]), "same length"),
        ((data, [1.0], *even(2, 0.0), constants, [0.0]), "noise_rate"),
        ((data, [1.0], np.zeros(2), 1.0, constants, [0.0]), "sum to 1"),
        ((data, [1.0], np.array([0.5, 0.4]), 1.0, constants, [0.0]), "sum to 1"),
        ((data, [1.0], *even(2, 1.0), paper_bound_constants(2.0, 0.1, 0.1, 1), [0.0]), "paper prints"),
        ((public([[2.5], [1.0]], [1, -1]), [1.0], *even(2, 1.0), constants, [0.0]), "row_bound"),
    ]
    for arguments, words in cases:
        with pytest.raises(InvalidInput, match=words):
            dpm.planning.error_bound(*arguments)


@pytest.mark.parametrize("make", [bound_constants, sharp_bound_constants, paper_bound_constants])
@pytest.mark.parametrize(
    "arguments",
    [(0.0, 0.1, 0.1, 1), (1.0, 0.0, 0.1, 1), (1.0, 1.0, 0.1, 1), (1.0, 0.1, np.nan, 1), (1.0, 0.1, 0.1, 0),
     (1.0, 0.1, 0.1, 1.5), ("1", 0.1, 0.1, 1)],
)  # fmt: skip
def test_constants_that_make_no_sense_are_refused(make, arguments):
    with pytest.raises(InvalidInput, match="expected"):
        make(*arguments)
