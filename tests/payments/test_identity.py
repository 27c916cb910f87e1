"""The payment identity, for any rule."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket import InvalidInput, NotConverged, payment_identity

reports = st.floats(0.0, 4.0)


@given(reports, st.floats(0.1, 6.0))
def test_a_linear_rule_is_paid_a_triangle(cost, cutoff):
    paid = payment_identity(lambda z: max(cutoff - z, 0.0), cost, 7.0)
    assert float(paid) == pytest.approx(max(cutoff**2 - cost**2, 0.0) / 2, rel=1e-11, abs=1e-13)
    assert paid.epsilon == max(cutoff - cost, 0.0)


@given(reports, st.lists(st.floats(0.01, 6.99), min_size=1, max_size=5))
def test_a_rule_with_jumps_is_paid_the_thresholds(cost, thresholds):
    # One unit below each threshold: the payment is the sum of the thresholds above the report.
    paid = payment_identity(lambda z: float(sum(z < t for t in thresholds)), cost, 7.0)
    expected = sum(t for t in thresholds if cost < t)
    assert paid.payment == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert abs(paid.payment - expected) <= 100 * paid.error + 1e-12


def test_what_is_still_bought_at_the_top_is_paid_the_top():
    assert payment_identity(lambda z: 2.0, 1.0, 5.0).payment == pytest.approx(10.0, rel=1e-12)
    assert payment_identity(lambda z: 2.0, 5.0, 5.0).payment == 10.0


def test_an_unbounded_support_works_where_the_integral_exists():
    assert payment_identity(lambda z: math.exp(-z), 1.0, math.inf).payment == pytest.approx(2 / math.e)
    assert payment_identity(lambda z: max(1 - z, 0.0) ** 0.5, 0.0, math.inf).payment == pytest.approx(2 / 3)
    with pytest.raises(NotConverged, match="top infinite"):
        payment_identity(lambda z: 1 / (1 + z), 1.0, math.inf)


def test_a_kink_close_to_a_piece_of_the_quadrature_is_not_missed():
    for k in range(200):
        cutoff = 1.0 + k / 4000  # around the edges of the first pieces
        paid = payment_identity(lambda z, c=cutoff: max(c - z, 0.0), 0.5, 4.5).payment
        assert paid == pytest.approx((cutoff**2 - 0.25) / 2, rel=1e-11)


def test_a_rule_that_rises_is_refused():
    with pytest.raises(InvalidInput, match="rises by"):
        payment_identity(lambda z: 1.0 + 0.1 * (z > 2), 1.0, 5.0)
    with pytest.raises(InvalidInput, match="rises by"):
        payment_identity(lambda z: z, 1.0, 5.0)


@pytest.mark.parametrize("bad", [float("nan"), -1.0, math.inf, "x", None])
def test_a_rule_that_gives_no_epsilon_is_refused(bad):
    with pytest.raises(InvalidInput, match="rule"):
        payment_identity(lambda z: bad, 1.0, 5.0)


@pytest.mark.parametrize(("cost", "top"), [(-1.0, 5.0), (6.0, 5.0), (float("nan"), 5.0), (1.0, float("nan"))])
def test_a_cost_outside_the_support_is_refused(cost, top):
    with pytest.raises(InvalidInput, match=r"cost|top"):
        payment_identity(lambda z: 1.0, cost, top)
