"""Every case of the walk alone: segments, the three events between them, and points of the path."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from dpmarket.allocation.kernels import segments, walk
from dpmarket.allocation.kernels.segments import Segment
from dpmarket.allocation.kernels.walk import Rules, Sight
from dpmarket.allocation.simplex import UNCAPPED, split_cap

RHO = 0.7
# Upward crossing inside; above 0 at both ends with a dip between; below 0 throughout; above 0 throughout.
CROSSING = Segment(0.1, 5.0, weight=0.5, level=2.0, V=0.3)
LOW_DIP = Segment(0.05, 5.0, weight=0.5, level=2.0, V=0.3)
BELOW = Segment(0.5, 1.0, weight=0.5, level=2.0, V=0.3)
ABOVE = Segment(3.0, 5.0, weight=0.5, level=2.0, V=0.3)


def scaled_slope(segment, s):
    return RHO * segment.weight * s**3 - (segment.level - RHO * segment.V) * s + segment.V


@pytest.mark.parametrize("segment", [CROSSING, ABOVE])
def test_the_upper_root_is_the_larger_root_of_the_cubic(segment):
    root = segments.upper_root(segment.weight, segment.level, segment.V, RHO)
    coefficients = [RHO * segment.weight, 0.0, -(segment.level - RHO * segment.V), segment.V]
    assert root == pytest.approx(max(np.roots(coefficients).real), rel=1e-14)


def test_a_cubic_without_a_root_is_answered_by_0():
    assert segments.upper_root(0.5, 0.1, 3.0, RHO) == 0.0


@pytest.mark.parametrize(
    ("segment", "crosses", "under"),
    [
        (CROSSING._replace(start=0.3), True, False),
        (LOW_DIP, True, False),
        (BELOW, False, True),
        (ABOVE, False, False),
        (BELOW._replace(end=np.inf), True, False),
    ],
)
def test_upward_crossings_are_told_from_the_rest(segment, crosses, under):
    starts_under = scaled_slope(segment, segment.start) < 0
    assert segments.crosses_upwards(segment, starts_under, RHO) == (crosses, under)
    if crosses:
        s = segments.crossing_on(segment, RHO)
        assert segment.start < s < segment.end
        assert scaled_slope(segment, s * (1 - 1e-6)) < 0 < scaled_slope(segment, s * (1 + 1e-6))


def test_a_segment_is_cut_where_the_bound_on_the_total_promise_is_kept():
    least = 2.0
    cut = segments.from_bound(CROSSING, least)
    assert segments.square_rate(cut, cut.start) == pytest.approx(least, rel=1e-15)
    assert cut[1:] == CROSSING[1:]
    assert segments.from_bound(CROSSING, 1e-9).start == CROSSING.start


def test_a_minimum_at_the_bound_is_seen_only_where_the_slope_is_not_below_0():
    rules = Rules(*UNCAPPED, rho=RHO, least_rate=np.sqrt(segments.square_rate(ABOVE, 4.0)))
    seen = walk.minima_on(ABOVE, rules, Sight(True, False, np.nan, np.nan))
    assert seen.at_bound == pytest.approx(4.0)
    assert np.isnan(seen.crossing)
    assert seen.bounded
    rules = rules._replace(least_rate=np.sqrt(segments.square_rate(BELOW, 0.7)))
    seen = walk.minima_on(BELOW, rules, Sight(True, False, np.nan, np.nan))
    assert np.isnan(seen.at_bound)
    assert seen.under


def test_values_along_a_segment_are_least_at_its_crossing():
    row = np.empty(segments.COLUMNS)

    def value(s):
        segments.describe(row, CROSSING, s, RHO)
        return row[segments.VALUE]

    found = segments.crossing_on(CROSSING, RHO)
    best = optimize.minimize_scalar(value, bounds=(0.5, 5.0), method="bounded", options={"xatol": 1e-10})
    assert found == pytest.approx(best.x, rel=1e-6)


def test_a_full_table_grows_and_keeps_its_rows():
    table = np.arange(2.0 * segments.COLUMNS).reshape(2, segments.COLUMNS)
    assert segments.with_room(table, 1) is table
    longer = segments.with_room(table, 2)
    assert longer.shape[0] > 2
    np.testing.assert_array_equal(longer[:2], table)


# --- events --------------------------------------------------------------------------------------

LAYOUTS = {
    "no cap": UNCAPPED,
    "cap": split_cap(Fraction(1, 7) * Fraction(5, 3)),
    "plateau": split_cap(Fraction(1, 5)),
}


def rules_of(layout):
    return Rules(*LAYOUTS[layout], rho=0.02, least_rate=0.0)


def some_costs(seed):
    rng = np.random.default_rng(seed)
    return np.sort(
        np.concatenate((rng.uniform(1, 3, 25), np.full(4, 1.7), np.round(rng.uniform(1, 3, 8), 1)))
    )


def assert_sums_are_those_of_the_members(psi, rules, members):
    inner, held = psi[members.N : members.l], psi[: members.N]
    assert members.n == inner.size
    assert members.V + members.V_low == pytest.approx(
        ((inner - inner.mean()) ** 2).sum(), rel=1e-12, abs=1e-15
    )
    assert members.S + members.S_low == pytest.approx(inner.sum(), rel=1e-14)
    assert members.S_c + members.S_c_low == pytest.approx(held.sum(), rel=1e-14, abs=1e-14)
    assert members.above + members.above_low == pytest.approx((inner[-1] - inner).sum(), rel=1e-13, abs=1e-14)
    if members.N > 0:
        assert members.below + members.below_low == pytest.approx(
            (inner - inner[0]).sum(), rel=1e-13, abs=1e-14
        )
    assert members.rest == pytest.approx(1 - members.N * rules.cap, rel=1e-13)
    assert members.dearest == inner[-1]
    assert members.per_n == pytest.approx(1 / members.n)
    assert members.per_rest == pytest.approx(1 / members.rest)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("event", ["entered", "left_cap"])
def test_every_event_keeps_the_sums_over_the_members(layout, event):
    psi, rules = some_costs(1), rules_of(layout)
    members = walk.first_members(psi, rules)
    if members.n == 0:
        members = walk.entered(psi, walk.plateau_ended(psi, rules, members))
    for _ in range(6):
        if event == "left_cap" and members.N > 0:
            members = walk.left_cap(psi, rules, members)
        else:
            members = walk.entered(psi, members)
        assert_sums_are_those_of_the_members(psi, rules, members)


def test_a_plateau_ends_with_its_dearest_and_the_next_between():
    psi, rules = some_costs(2), rules_of("plateau")
    first = walk.first_members(psi, rules)
    assert (first.N, first.l, first.n) == (5, 5, 0)
    assert walk.next_events(psi, rules, first) == ((psi[5] - psi[4]) / rules.cap, np.inf)
    ended = walk.entered(psi, walk.plateau_ended(psi, rules, first))
    assert (ended.N, ended.l, ended.n) == (4, 6, 2)
    assert_sums_are_those_of_the_members(psi, rules, ended)


def weights_at(psi, cap, spread):
    """The projection, by halving the cutoff."""

    def excess(r):
        return np.clip((r - psi) / spread, 0, cap).sum() - 1

    r = optimize.brentq(excess, psi[0], psi[-1] + 2 * spread, xtol=1e-14)
    return np.clip((r - psi) / spread, 0, cap), r


@pytest.mark.parametrize("layout", LAYOUTS)
def test_points_of_the_path_are_projections(layout):
    psi, rules = some_costs(3), rules_of(layout)
    spreads = np.geomspace(0.05, 60.0, 25)
    for s, point in zip(spreads, walk.path_points(psi, rules, spreads), strict=True):
        capped, bought, base, gap, weight, level, V = point
        a, r = weights_at(psi, rules.cap, s)
        if bought - capped >= 2:
            assert base + gap == pytest.approx(r, rel=1e-10)
        assert weight + V / s**2 == pytest.approx(a @ a, rel=1e-10)
        assert level - V / s == pytest.approx(a @ psi, rel=1e-10)
        assert base == psi[int(bought) - 1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_point_of_the_path_is_better_than_the_best_minimum_of_the_walk(layout):
    psi, rules = some_costs(4), rules_of(layout)
    table, at_infinity, _, status = walk.walk_path(psi, psi.size, rules, psi.mean())
    assert status == walk.COMPLETE
    assert at_infinity == np.inf
    spreads = np.geomspace(1e-3, 1e3, 4000)
    _, _, _, _, weight, level, V = walk.path_points(psi, rules, spreads).T
    t = np.sqrt(weight * spreads**2 + V)
    values = t / spreads + rules.rho * t + (level - V / spreads) / t
    assert table[:, segments.VALUE].min() == pytest.approx(values.min(), rel=1e-5)
    assert table[:, segments.VALUE].min() <= values.min() * (1 + 1e-14)


def test_a_prefix_that_is_too_short_is_told():
    psi, rules = some_costs(5), rules_of("no cap")
    _, _, reached, status = walk.walk_path(psi, psi.size, rules, psi.mean())
    assert status == walk.COMPLETE
    table, at_infinity, _, status = walk.walk_path(psi[: reached - 2], psi.size, rules, psi.mean())
    assert status == walk.TOO_SHORT
    assert len(table) == 0
    assert at_infinity == np.inf
