"""Promises to weights: used fully, never exceeded, and refused where nothing keeps them."""

import json
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import Weights, privacy_loss, suggest_l2, suggest_stretch, weights_for

promise_lists = st.lists(st.floats(1e-6, 20.0), min_size=1, max_size=12)
bounds = st.floats(0.2, 5.0)
row_counts = st.integers(1, 5)


def assert_used_fully_and_never_exceeded(weights, promises):
    promises = np.asarray(promises)
    losses = weights.privacy_losses()
    assert np.all(losses <= promises)
    assert np.all(losses >= promises * (1 - 1e-12))
    assert np.all(weights.loss_weights[promises == 0] == 0.0)
    assert abs(weights.loss_weights.sum() - 1) <= 1e-12


@given(promise_lists, st.floats(1.0, 50.0), bounds, row_counts)
def test_promises_come_back_where_there_is_no_slack(promises, factor, bound, rows):
    l2 = factor * 2.0 * bound**2 / sum(promises) * (1 + 1e-9)
    weights = weights_for(promises, l2, bound, rows)
    assert_used_fully_and_never_exceeded(weights, promises)
    assert weights.noise_rate == pytest.approx(sum(promises) / bound, rel=1e-14)
    assert weights.loss_weights == pytest.approx(np.array(promises) / sum(promises), rel=1e-13)


@given(promise_lists, st.floats(1e-3, 0.9999), bounds, row_counts)
def test_promises_come_back_where_there_is_slack(promises, position, bound, rows):
    limit = 4 * rows * np.expm1(np.array(promises) / rows).sum() / bound**2
    least, enough = 1.0 / limit, 2.0 * bound**2 / sum(promises)
    l2 = least * (enough / least) ** position
    weights = weights_for(promises, l2, bound, rows)
    assert_used_fully_and_never_exceeded(weights, promises)
    assert weights.noise_rate * l2 < 2.0 * bound


@given(promise_lists, st.floats(0.1, 0.999), bounds, row_counts)
def test_below_the_condition_the_error_names_a_penalty_that_works(promises, factor, bound, rows):
    least = bound**2 / (4 * rows * np.expm1(np.array(promises) / rows).sum())
    with pytest.raises(Infeasible, match=r"4 \* r \* l2 \* sum\(exp\(epsilon / r\) - 1\) >") as caught:
        weights_for(promises, factor * least, bound, rows)
    works = float(re.search(r"l2 = (\S+) works", str(caught.value))[1])
    assert_used_fully_and_never_exceeded(weights_for(promises, works, bound, rows), promises)


def test_the_worked_example_is_infeasible_at_a_fifth_and_feasible_at_three_tenths():
    with pytest.raises(Infeasible):
        weights_for([0.1, 0.2, 0.5], 0.2)
    assert_used_fully_and_never_exceeded(weights_for([0.1, 0.2, 0.5], 0.3), [0.1, 0.2, 0.5])


def test_agrees_with_nested_root_finding():
    promises, l2, bound, rows = np.array([0.3, 0.7, 2.0, 0.05]), 0.4, 1.3, 2

    def weight(epsilon, eta):
        return brentq(lambda a: privacy_loss([a], eta, l2, bound, rows)[0] - epsilon, 1e-12, 50.0, xtol=1e-15)

    eta = brentq(lambda e: sum(weight(p, e) for p in promises) - 1.0, 1e-3, 10.0, xtol=1e-13)
    loss_weights, noise_rate = weights_for(promises, l2, bound, rows)
    assert noise_rate == pytest.approx(eta, rel=1e-9)
    assert loss_weights == pytest.approx([weight(p, eta) for p in promises], rel=1e-9)


def test_zero_promises_get_no_weight_and_change_nothing_for_the_others():
    for l2 in (5.0, 0.3):
        with_zeros = weights_for([0.0, 0.5, 0.0, 1.0], l2)
        without = weights_for([0.5, 1.0], l2)
        assert with_zeros.loss_weights.tolist() == [
            0.0,
            without.loss_weights[0],
            0.0,
            without.loss_weights[1],
        ]
        assert with_zeros.noise_rate == without.noise_rate


@pytest.mark.parametrize("l2", [5.0, 0.3])
@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-101, 1e-99, 1e-20])
def test_absurdly_small_promises_are_not_exceeded(l2, tiny):
    promises = np.array([0.5, 1.0, tiny])
    assert np.all(weights_for(promises, l2).privacy_losses() <= promises)


@pytest.mark.parametrize("l2", [5.0, 0.3])
def test_what_is_set_aside_is_not_spent(l2):
    promises = np.array([0.5, 1.0, 0.01, 0.02])
    weights = weights_for(promises, l2, numerical_epsilon=0.01)
    assert weights.numerical_epsilon == 0.01
    assert weights.loss_weights[2] == 0.0
    losses = weights.privacy_losses()
    spent = np.where(losses > 0, losses + 0.01, 0.0)
    assert np.all(spent <= promises)
    assert spent[[0, 1, 3]] == pytest.approx(promises[[0, 1, 3]], rel=1e-12)


@given(promise_lists, st.floats(0.5, 3.0), st.floats(1.0, 1.5), st.integers(0, 11))
def test_a_larger_promise_gets_more_weight_and_allows_less_noise(promises, l2, factor, who):
    assume(who < len(promises))
    try:
        before = weights_for(promises, l2)
    except Infeasible:
        return
    raised = list(promises)
    raised[who] *= factor
    after = weights_for(raised, l2)
    assert after.loss_weights[who] >= before.loss_weights[who] * (1 - 1e-9)
    assert after.noise_rate >= before.noise_rate * (1 - 1e-9)


def many(kind, people, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "uniform": lambda: rng.uniform(0.01, 1.0, people),
        "tiny": lambda: rng.uniform(0.0, 1e-3, people),
        "log-normal": lambda: rng.lognormal(-2.0, 1.0, people),
        "wide": lambda: rng.uniform(0.0, 10.0, people),
        "half zero": lambda: np.where(rng.random(people) < 0.5, 0.0, rng.random(people)),
        "one huge": lambda: np.append(rng.uniform(0.01, 1.0, people - 1), 300.0),
        "all equal": lambda: np.full(people, 0.37),
    }[kind]()


KINDS = ("uniform", "tiny", "log-normal", "wide", "half zero", "one huge", "all equal")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [0.3, 0.13])
def test_many_promises_come_back(kind, factor):
    promises = many(kind, 30_000)
    rows = 3 if kind == "uniform" else 1
    weights = weights_for(promises, factor * 2.0 / promises.sum(), rows_per_person=rows)
    assert_used_fully_and_never_exceeded(weights, promises)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("uniform", 1.5), ("tiny", 0.9999), ("log-normal", 0.5), ("wide", 0.126), ("half zero", 0.9999),
     ("one huge", 0.5), ("all equal", 0.126)],
)  # fmt: skip
def test_a_million_promises_come_back_to_1e_12_from_below(kind, factor):
    promises = many(kind, 1_000_000, seed=1)
    weights = weights_for(promises, factor * 2.0 / promises.sum())
    assert_used_fully_and_never_exceeded(weights, promises)


def test_a_weights_value_unpacks_is_read_only_and_turns_into_json():
    weights = weights_for([1.0, 3.0], 1.0)
    loss_weights, noise_rate = weights
    assert isinstance(weights, Weights)
    assert loss_weights is weights.loss_weights
    assert noise_rate == 4.0
    with pytest.raises(ValueError, match="read-only"):
        loss_weights[0] = 1.0
    with pytest.raises(AttributeError):
        weights.noise_rate = 5.0
    assert json.loads(json.dumps(weights.to_dict()))["noise_rate"] == 4.0


BAD = {
    "NaN": [0.1, np.nan],
    "negative": [0.1, -0.1],
    "infinite": [0.1, np.inf],
    "text": ["a", "b"],
    "empty": [],
    "all zero": [0.0, 0.0],
    "none": None,
    "beyond floats": [1e308, 1e308],
}


@pytest.mark.parametrize("values", BAD.values(), ids=BAD)
def test_promises_that_are_no_promises_are_refused(values):
    with pytest.raises(InvalidInput, match=r"epsilons|promise"):
        weights_for(values, 1.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"l2": 0.0},
        {"l2": np.nan},
        {"l2": 1.0, "row_bound": -1.0},
        {"l2": 1.0, "rows_per_person": 0},
        {"l2": 1.0, "numerical_epsilon": -1e-9},
        {"l2": 1.0, "numerical_epsilon": 2.0},
        {"l2": "1"},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(arguments):
    with pytest.raises(InvalidInput):
        weights_for([1.0, 2.0], **arguments)


@given(st.floats(1e-3, 1e7), st.integers(1, 300), st.floats(0.01, 100.0))
def test_the_suggested_penalty_leaves_no_slack(eta, features, bound):
    l2 = suggest_l2(eta, features, bound)
    assert l2 * eta >= 2.0 * bound
    assert l2 == pytest.approx(bound * max(2, features / (2 + eta / (50 * features))) / eta, rel=1e-12)
    assert privacy_loss([0.3], eta, l2, bound)[0] == pytest.approx(0.3 * eta * bound, rel=1e-14)


@given(st.floats(1e-3, 1e7), st.integers(1, 300), st.floats(0.01, 100.0))
def test_the_suggested_stretch_undoes_no_more_than_the_average_shrinkage(eta, features, bound):
    l2 = suggest_l2(eta, features, bound)
    stretch = suggest_stretch(eta, l2, features, bound)
    assert 1.0 <= stretch <= 1.0 + 4.0 * features * l2 / bound**2 * (1.0 + 1e-12)


def test_the_suggested_stretch_vanishes_with_the_penalty_and_in_noise():
    assert suggest_stretch(1e6, 1e-9, 10) == pytest.approx(1.0, abs=1e-6)
    assert suggest_stretch(1e-6, 1.0, 10) == pytest.approx(1.0, abs=1e-6)
    # By hand: h = 1/4, v = 0.2 / (0.2 + 0.2) = 1/2, (1/4 + 1) / (1/4 + 1/2) = 5/3.
    assert suggest_stretch(10.0, 1.0, 1) == pytest.approx(5.0 / 3.0)


@pytest.mark.parametrize("arguments", [(0.0, 1.0, 3), (1.0, np.nan, 3), (1.0, 1.0, 0), (1.0, 1.0, 2, -1.0)])
def test_a_stretch_is_suggested_for_sensible_arguments_only(arguments):
    with pytest.raises(InvalidInput):
        suggest_stretch(*arguments)


@pytest.mark.parametrize(
    "arguments", [(0.0, 3), (np.nan, 3), (1.0, 0), (1.0, 2.5), (1.0, 3, 0.0), (1e308, 3), ("1", 3)]
)
def test_a_penalty_is_suggested_for_sensible_arguments_only(arguments):
    with pytest.raises(InvalidInput):
        suggest_l2(*arguments)
