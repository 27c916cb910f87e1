"""Virtual costs: closed forms, an independent implementation, and reports outside the support."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpmarket import FromScipy, InvalidInput, Mixture, Uniform, virtual_costs
from dpmarket.costs import PiecewiseLinear, virtual_cost_density


@given(st.integers(0, 50), st.integers(1, 50), st.integers(0, 1000))
def test_uniform_virtual_cost_is_twice_the_cost_less_the_lower_end_exactly(low, width, k):
    dist = Uniform(low, low + width)
    cost = low + width * k / 1000
    assert dist.virtual_cost(cost) == 2 * cost - low
    assert virtual_costs(np.array([cost, cost]), dist).tolist() == [2 * cost - low] * 2


def test_exponential_matches_high_precision_arithmetic():
    dist = FromScipy(stats.expon())
    with mpmath.workdps(40):
        for cost in (1e-12, 1e-6, 0.1, 1.0, 7.5, 30.0):
            c = mpmath.mpf(cost)
            exact = c + (1 - mpmath.exp(-c)) / mpmath.exp(-c)
            assert abs(dist.virtual_cost(cost) / exact - 1) < 1e-10


@pytest.mark.parametrize("high", [np.inf, 10.0])
def test_log_normal_matches_high_precision_arithmetic(high):
    s, scale = 0.7, 2.0
    dist = FromScipy(stats.lognorm(s=s, scale=scale), 0, high)
    with mpmath.workdps(60):
        # 1e-9 is 31 standard deviations down: the cdf is 1e-208, and its square underflows.
        for cost in (1e-9, 1e-3, 0.2, 1.0, 3.0, 9.9):
            c = mpmath.mpf(cost)
            z = mpmath.log(c / scale) / s
            density = mpmath.npdf(z) / (s * c)
            assert abs(dist.virtual_cost(cost) / (c + mpmath.ncdf(z) / density) - 1) < 1e-10


def test_truncation_below_matches_high_precision_arithmetic():
    dist = FromScipy(stats.expon(), 10, 12)
    with mpmath.workdps(40):
        for cost in (10.001, 10.5, 11.9):
            c = mpmath.mpf(cost)
            exact = c + (mpmath.exp(-10) - mpmath.exp(-c)) / mpmath.exp(-c)
            assert abs(dist.virtual_cost(cost) / exact - 1) < 1e-10


def test_a_far_tail_where_density_and_cdf_underflow_still_has_a_virtual_cost():
    dist = FromScipy(stats.lognorm(s=0.1))
    cost = 1e-3  # 69 standard deviations below the median
    with mpmath.workdps(60):
        z = mpmath.log(cost) / mpmath.mpf("0.1")
        exact = cost + mpmath.ncdf(z) * mpmath.mpf("0.1") * cost / mpmath.npdf(z)
    assert dist.virtual_cost(cost) == pytest.approx(float(exact), rel=1e-9)


def test_ironing_two_separate_groups_matches_the_chord_worked_by_hand():
    # F = c/2 on [0,1], then flat to 2, then (c-1)/2. c*F: 1/2 at 1, 1 at 2 (a jump), 3 at 3.
    # The hull leaves (1/2, 1/2) for (1, 3): slope 5, below the right branch's own psi = 2c - 1 >= 3?
    # The branch from (1/2, 1) has slope 3 at 2 and 5 at 3, so the chord meets it only at its end.
    (interval,) = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]).ironed_intervals
    assert interval.low == pytest.approx(1.0)
    assert interval.high == 3.0
    assert interval.virtual_cost == pytest.approx(5.0)


def test_ironing_a_density_that_jumps_up_matches_the_tangent_worked_by_hand():
    # Density 0.2 on [0,1], 0.8 on [1,2]: psi = 2c, then c + (0.2 + 0.8(c-1))/0.8 = 2c - 0.75.
    # psi falls from 2 to 1.25 at 1. Level p: from p/2 to (p+0.75)/2 the chord of c*F has slope p.
    dist = Mixture([Uniform(0, 1), Uniform(1, 2)], [0.2, 0.8])
    (interval,) = dist.ironed_intervals
    p = interval.virtual_cost
    assert interval.low == pytest.approx(p / 2)
    assert interval.high == pytest.approx((p + 0.75) / 2)
    assert 1.25 < p < 2.0


def test_a_fall_of_psi_as_narrow_as_rounding_is_ironed_away():
    # Fitted to simulated costs; psi falls over a stretch of 1e-7. Warnings are errors here.
    knots = """
        0.0 0.06754718525056748 0.0993952073406664 0.1304630871026181 0.17670808601060986
        0.21279493034877522 0.2375423103884603 0.260405582732538 0.2989734196406775 0.33643336550602965
        0.38616683410688957 0.45080435206594105 0.5018127713820175 0.5701252629048631 0.6450780370596771
        0.7102323667984698 0.7866474066243024 0.894568700136955 1.0022405431787815 1.1222289470486244
        1.2836852846697746 1.4528481616340922 1.7087829915885528 2.0274504990583795 2.55804185541216
        3.667269506849957 10.0
    """
    heights = """
        0.08619776355102425 0.11715688227924191 0.25449281280680963 0.30123914167636334
        0.3359147123118455 0.5264025306924214 0.7948999661446285 0.710847041544611 0.6509533326909502
        0.6343707860839388 0.5345356634395605 0.5664028062678959 0.5977544020357357 0.5384907196223133
        0.5817965397430406 0.6169148369458297 0.5053732986713422 0.45911052053368173 0.4603504339097228
        0.39306440463762443 0.34781016016809563 0.28420557513256794 0.22039164538177552
        0.15425728525506088 0.08344017386361675 0.019168234575667416 0.01149270506036774
    """
    dist = PiecewiseLinear(*(np.array(text.split(), dtype=float) for text in (knots, heights)))
    assert not dist.is_regular
    psi = dist.virtual_cost(np.linspace(0, 10, 20_001))
    assert (np.diff(psi) >= -1e-12).all()


def test_where_one_group_ends_and_the_next_begins_nobody_is_preferred():
    dist = Mixture([Uniform(0, 1), Uniform(1, 2)], [0.5, 0.5])
    assert dist.is_regular
    assert dist.pdf(1.0) == pytest.approx(0.5)
    np.testing.assert_allclose(dist.virtual_cost(np.array([0.999, 1.0, 1.001])), [1.998, 2.0, 2.002])


def test_reports_below_the_support_count_as_its_lower_end_and_above_are_never_bought():
    dist = Uniform(1, 5)
    assert virtual_costs(np.array([0.0, 0.5, 1.0, 5.0, 5.1]), dist).tolist() == [1, 1, 1, 9, np.inf]
    assert virtual_costs(7.0, dist) == np.inf


def test_a_report_is_never_changed_in_place():
    costs = np.array([0.0, 2.0, 9.0])
    virtual_costs(costs, Uniform(1, 5))
    assert costs.tolist() == [0.0, 2.0, 9.0]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([1.0, -2.0, np.nan], "2 of 3 .*1 NaN, 1 negative.*position 1"),
        ([np.inf], "1 infinite"),
        (-3.0, "finite and >= 0"),
        (["1"], "elements of type"),
        ([True], "elements of type bool"),
    ],
)
def test_reports_that_are_no_costs_are_refused_without_showing_them(bad, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        virtual_costs(bad, Uniform(1, 5))
    assert "-2" not in str(refusal.value)
    assert "-3" not in str(refusal.value)


def test_no_reports_give_no_virtual_costs():
    assert virtual_costs(np.array([]), Uniform(1, 5)).shape == (0,)


def test_density_of_psi_for_uniform_costs_is_half_the_density_of_costs():
    assert virtual_cost_density(0.0, Uniform(0, 1)) == pytest.approx(0.5)
    assert virtual_cost_density(np.array([0.5, 2.5]), Uniform(0, 1)).tolist() == pytest.approx([0.5, 0.0])
    assert virtual_cost_density(0.0, Uniform(1, 5)) == 0.0  # the paper's online experiment has no mass there


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Uniform(2, 2), "low < high"),
        (lambda: Uniform(-1, 2), "low"),
        (lambda: Uniform(0, np.inf), "high"),
        (lambda: Uniform("0", 1), "low"),
        (lambda: FromScipy(stats.norm()), "pass low=0"),
        (lambda: FromScipy(stats.norm(), -1, 2), "at least 0"),
        (lambda: FromScipy(stats.poisson(3)), "continuous"),
        (lambda: FromScipy(stats.expon), "frozen"),
        (lambda: FromScipy(stats.expon(scale=[1, 2])), "scalar"),
        (lambda: FromScipy(stats.lognorm(s=-1)), "valid"),
        (lambda: FromScipy(stats.expon(), 5, 3), "low < high"),
        (lambda: FromScipy(stats.beta(2, 2), 2, 3), "own support"),
        (lambda: FromScipy(stats.expon(), 100, 101), "probability"),
        (lambda: Mixture([], []), "one or more"),
        (lambda: Mixture([Uniform(0, 1)], [0.5]), "sum to 1"),
        (lambda: Mixture([Uniform(0, 1), 3], [0.5, 0.5]), "cost distributions"),
        (lambda: Mixture([Uniform(0, 1)], [0.5, 0.5]), "same length"),
        (lambda: Mixture([Uniform(0, 1), Uniform(0, 2)], [1.0, 0.0]), "positive"),
        (lambda: Uniform(1, 5).sample(-1, np.random.default_rng(0)), "size"),
    ],
)
def test_distributions_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_the_slope_at_the_edge_of_a_gap_is_that_of_the_side_where_people_are():
    groups = Mixture([Uniform(0.5, 1.0), Uniform(2.0, 3.0)], [0.5, 0.5])
    assert groups.virtual_cost_slope(1.0) == pytest.approx(2.0, rel=1e-7)
    assert np.isfinite([groups.virtual_cost_slope(c) for c in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)]).all()
