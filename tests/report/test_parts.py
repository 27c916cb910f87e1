"""The parts of a report: groups, the rule behind an outcome, promises in words, scores."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket import InvalidInput
from dpmarket.costs import parse_distribution
from dpmarket.report.groups import group_ends, group_sellers
from dpmarket.report.score import score_labels, score_numbers
from dpmarket.report.summary import guess_after, meaning


@given(st.lists(st.floats(0.0, 10.0), min_size=0, max_size=80), st.integers(2, 15))
def test_no_group_is_smaller_than_ten_and_nobody_is_lost(costs, count):
    costs = np.array(costs)
    ends = np.linspace(1.0, 5.0, count)
    groups = group_sellers(costs, 2.0 * costs, 3.0 * costs, ends)
    assert sum(group.sellers for group in groups) == costs.size
    if costs.size >= 10:
        assert min(group.sellers for group in groups) >= 10
    assert {end for group in groups for end in (group.low, group.high)} <= set(ends.tolist())
    assert all(first.high <= second.low for first, second in itertools.pairwise(groups))
    for group in groups:
        assert group.mean_epsilon == pytest.approx(2.0 * group.mean_cost)
        assert group.mean_payment == pytest.approx(3.0 * group.mean_cost)


@pytest.mark.parametrize("formula", ["uniform(1, 5)", "expon()", "0.5*uniform(0, 1) + 0.5*uniform(2, 3)"])
@pytest.mark.parametrize("cutoff", [0.5, 2.0, 100.0])
def test_ends_of_groups_rise_start_at_the_support_and_contain_the_cutoff(formula, cutoff):
    dist = parse_distribution(formula)
    ends = group_ends(dist, cutoff)
    assert (np.diff(ends) > 0).all()
    assert ends[0] == dist.support[0]
    assert np.isfinite(ends).all()
    if ends[0] < cutoff < ends[-1]:
        assert cutoff in ends


@given(st.floats(0.0, 8.0), st.floats(0.001, 0.999))
def test_the_limit_of_a_guess_is_reached_by_randomised_response_and_never_exceeded(epsilon, before):
    """Bayes' rule for somebody who tells one bit truly with probability e^eps/(1+e^eps): the worst case."""
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    after = before * truth / (before * truth + (1.0 - before) * (1.0 - truth))
    assert guess_after(before, epsilon) == pytest.approx(after, rel=1e-9)
    odds = (after / (1.0 - after)) / (before / (1.0 - before))
    assert meaning("somebody", epsilon).odds_factor == pytest.approx(odds, rel=1e-6)


def test_no_epsilon_teaches_nothing_and_bad_epsilons_are_refused():
    assert meaning("nobody", 0.0).guesses == (0.01, 0.1, 0.5)
    for wrong in (-1.0, math.nan, math.inf, "1"):
        with pytest.raises(InvalidInput):
            meaning("nobody", wrong)


def test_a_score_counts_mistakes_and_compares_them_with_a_constant_guess():
    truth = np.array([0] * 60 + [1] * 40)
    groups = {"a": np.arange(100) < 50, "b": np.arange(100) >= 50}
    score = score_labels("public.csv", ["no", "yes"], truth, truth, "town", groups)
    assert (score.wrong, score.guessing, score.is_better_than_guessing) == (0, 0.4, True)
    assert [group.records for group in score.groups] == [50, 50]
    constant = score_labels("public.csv", ["no", "yes"], np.zeros(100, dtype=int), truth)
    assert constant.error == constant.guessing
    assert not constant.is_better_than_guessing


def test_a_regressions_score_is_the_share_of_the_spread_that_it_explains():
    truth = np.arange(100.0)
    assert score_numbers("public.csv", truth, truth).r_squared == 1.0
    mean = score_numbers("public.csv", np.full(100, truth.mean()), truth)
    assert mean.r_squared == pytest.approx(0.0, abs=1e-12)
    assert mean.error == pytest.approx(25.0)
    assert not score_numbers("public.csv", -truth, truth).is_better_than_guessing
