"""The estimator: promises kept, bad input refused before noise is drawn, nothing private in what it says."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import Account, NoiseNorm, SeededNoise


class NoNoise:
    """A source that must not be asked: the refusal has to come first."""

    certifiable = True

    def bits(self):
        raise AssertionError("noise was drawn")


def records(count=60, n=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, n)) / np.sqrt(n)
    return x, np.where(rng.random(count) < 1 / (1 + np.exp(-4 * x[:, 0])), 1, 0)


def test_a_persons_weight_is_split_and_its_parts_never_exceed_it():
    from dpmarket.learning.people import read_budgets

    people = np.repeat(np.arange(40), np.arange(40))
    _, holding = read_budgets(None, np.ones(40), people, len(people), 39)
    weights = np.random.default_rng(0).random(40)
    parts = holding.record_weights(weights)
    for person in range(1, 40):
        whole = sum((Fraction(part) for part in parts[people == person].tolist()), Fraction(0))
        assert whole <= Fraction(float(weights[person]))
        assert whole >= Fraction(float(weights[person])) * (1 - Fraction(1, 2**50))


@pytest.mark.parametrize(
    ("epsilons", "people", "message"),
    [
        ({"a": 1.0}, None, "expected people"),
        ({"a": 1.0}, ["a", "a", "b"], "every owner"),
        ([1.0, 1.0, 1.0], [0, 1, 2], "as many as there are records"),
        ([1.0, 1.0], [0, 1, 2], "number the 2 elements"),
        ([1.0, 1.0], [0, 1, -1], "number the 2 elements"),
        ([1.0, 1.0], ["a", "b", "a"], "number the 2 elements"),
        ([1.0, 1.0], [0, 1], "one owner per record"),
        ([1.0, 1.0], [[0], [1], [0]], "one owner per record"),
        ([1.0, 1.0], [0, 0, 0], "rows_per_person = 2"),
        ({"a": 1.0, "b": 1.0}, np.array(["a", None, "b"], dtype=object), "missing"),
        ({"a": -1.0, "b": 1.0}, ["a", "a", "b"], "finite and >= 0"),
    ],
)
def test_owners_that_do_not_fit_are_refused_before_noise_is_drawn(epsilons, people, message):
    x, y = np.zeros((3, 2)), [0, 1, 1]
    estimator = PrivateLogisticRegression(noise_source=NoNoise(), rows_per_person=2)
    with pytest.raises(InvalidInput, match=message):
        estimator.fit(x, y, epsilons=epsilons, people=people)


# More of them are in tests/outside/test_estimator.py.
BAD = [
    {"epsilon": np.nan}, {"epsilon": "1"}, {"l2": "1"}, {"numerical_epsilon": 0.0}, {"rows_per_person": 1.5},
    {"clip": 1}, {"fit_intercept": "yes"}, {"classes": "ab"}, {"classes": (0,)}, {"classes": (0.0, np.nan)},
    {"noise_norm": "euclidean"}, {"noise_norm": NoiseNorm.euclidean(3)}, {"private": "nothing"},
    {"private": "labels", "delta": 1e-5}, {"delta": 0.5}, {"noise_source": 7}, {"intercept_scaling": -0.5},
    {"intercept_scaling": np.nan}, {"intercept_scaling": 2.0**21}, {"intercept_scaling": True},
]  # fmt: skip


@pytest.mark.parametrize("settings", BAD, ids=str)
def test_bad_settings_are_refused_before_noise_is_drawn(settings):
    estimator = PrivateLogisticRegression(**{"epsilon": 1.0, "noise_source": NoNoise(), **settings})
    with pytest.raises(InvalidInput):
        estimator.fit(np.zeros((3, 2)), [0, 1, 1])
    assert not hasattr(estimator, "coef_")


SECRET = 0.123456789


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[SECRET], [0.5], [1.0 + 1e-13]], [0, 1, 1], "found 1 longer"),
        ([[SECRET], [np.nan], [0.5]], [0, 1, 1], "NaN"),
        ([[SECRET], [np.inf], [0.5]], [0, 1, 1], "infinity"),
        ([["0.123456789x"], ["1"], ["2"]], [0, 1, 1], "found text"),
        ([SECRET, 0.5, 0.5], [0, 1, 1], "2D array"),
        ([[SECRET + 1j], [0.5], [0.5]], [0, 1, 1], "Complex"),
        ([[SECRET], [0.5], [0.5]], [0, 1, SECRET], "found 1 that are not"),
        ([[SECRET], [0.5], [0.5]], [0, 1, 123456789], "found 1 that are not"),
        ([[SECRET], [0.5], [0.5]], ["0.123456789", "a", "b"], "found 3 that are not"),
        ([[SECRET], [0.5], [0.5]], [0, 1], "inconsistent"),
        ([[SECRET], [0.5], [0.5]], None, "requires y"),
        ([[SECRET], [0.5], [0.5]], [0, 1, np.nan], "NaN"),
        ([[SECRET], [0.5, 2.0], [0.5]], [0, 1, 1], "may quote records"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_records_are_refused_before_noise_is_drawn_and_never_quoted(x, y, message):
    estimator = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1), noise_source=NoNoise())
    with pytest.raises((InvalidInput, TypeError), match=message) as caught:
        estimator.fit(x, y)
    assert "123456789" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert not hasattr(estimator, "coef_")


def test_a_reserve_too_small_to_compute_with_is_refused_before_noise_is_drawn():
    x, y = records(30)
    with pytest.raises(Infeasible, match="numerical_epsilon"):
        PrivateLogisticRegression(epsilon=1.0, numerical_epsilon=1e-24, noise_source=NoNoise()).fit(x, y)


@pytest.mark.parametrize("first", [{"delta": 1e-4}, {}])
def test_nothing_of_an_earlier_fit_stays_and_a_refused_one_changes_nothing(first):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(-0.5, 0.5, (40, 2)), columns=["a", "b"])
    y, settings = np.arange(40) % 2, {"epsilon": 500.0, "noise_source": SeededNoise(1)}
    other = {} if first else {"delta": 1e-4}
    model = PrivateLogisticRegression(**settings, **first).fit(x, y, intervals=0.5)
    before = vars(model).copy()
    with pytest.raises(Infeasible):
        model.fit(x.to_numpy(), np.where(y, "c", "d"), account=Account(1.0))
    assert vars(model) == before
    model.set_params(delta=other.get("delta")).fit(x.to_numpy(), y)
    fresh = PrivateLogisticRegression(**settings, **other).fit(x.to_numpy(), y)
    assert set(vars(model)) == set(vars(fresh))
