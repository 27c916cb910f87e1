"""No replaced record costs more than is charged, and some cost all of it: exact laws of whole releases.

Sums with one record a person and vectors are in tests/outside/test_released_law.py.

What noise a release gets is read off the code as it runs: the sampler is replaced by one that notes its scale
and returns 0. Its own law is tested beside this.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpmarket.errors import InvalidInput
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    SeveralStatistics,
    kinds,
)
from dpmarket.statistics import statistic as contract

EPSILONS = [0.7, 0.0, 1.3, 0.31]


@pytest.fixture
def laws(monkeypatch):
    """Note the arguments of every sampler that a release calls, and take its noise away."""
    noted = []

    def note(value):
        return lambda stream, *arguments: noted.append(arguments) or value(*arguments)

    monkeypatch.setattr(contract, "discrete_laplace", note(lambda scale: 0))
    monkeypatch.setattr(kinds, "report_noisy_max", note(lambda scores, rate: 0))
    monkeypatch.setattr(kinds, "rounded_radial", note(lambda n, rate: (0,) * n))
    return noted


def law_of(laws, asked, records, epsilons=EPSILONS, people=None):
    """Return where a release is centred, and the arguments of its noise."""
    laws.clear()
    fitted = asked.fit(records, epsilons=epsilons, people=people)
    return fitted, np.array(fitted.release_.numerators, dtype=object), list(laws)


def replaced(records, i, value):
    records = list(records)
    records[i] = value
    return records


def neighbours(possible, size=4):
    """Return every data set of the possible records, each with one person's record replaced."""
    for records in itertools.product(possible, repeat=size):
        for i in range(size):
            for value in possible:
                if value != records[i]:
                    yield list(records), i, replaced(records, i, value)


@pytest.mark.parametrize(
    ("statistic", "values"),
    [
        (PrivateMean(0.0, 1.0, rows_per_person=3), (0.0, 0.4, 1.0)),
        (PrivateHistogram((0, 1, 2), rows_per_person=3), (0, 1, 2)),
    ],
)
def test_replacing_all_of_several_records_costs_no_more_than_the_epsilon(laws, statistic, values):
    """Laplace noise of scale t at a point moved by d has a largest log ratio of d / t, in exact rationals."""
    people, promises = ["x", "y", "x", "z", "x"], {"x": 0.9, "y": 0.4, "z": 0.0}
    known = {
        own: law_of(laws, statistic, [own[0], values[1], own[1], values[0], own[2]], promises, people)[1:]
        for own in itertools.product(values, repeat=3)
    }
    losses = [
        sum(abs(a - b) / scale for a, b, (scale,) in zip(first, second, noise, strict=True))
        for (first, noise), (second, _) in itertools.product(known.values(), repeat=2)
    ]
    assert Fraction(999, 1000) * Fraction(0.9) <= max(losses) <= Fraction(0.9)


def charged(first, second):
    """Twice the rate times the largest change of a score, over all races: what the proof allows."""
    return sum(
        2 * rate * max(abs(a - b) for a, b in zip(one, other, strict=True))
        for (one, rate), (other, _) in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("others", [0, 60])
def test_all_choices_of_a_quantile_together_cost_the_epsilon(laws, others):
    """With many others the two races for the interval are run as well; the sum over races is charged."""
    epsilons = [*EPSILONS, *[20.0] * others]
    same = [(1.0, 2.0, 4.0)[k % 3] for k in range(others)]
    statistic = PrivateQuantile(0.4, (1.0, 2.0, 3.0, 4.0), confidence=0.2)
    races, bounds = set(), [Fraction(0)] * len(EPSILONS)
    for before, i, after in itertools.islice(neighbours((0.0, 1.5, 3.0, 9.0)), 0, None, 29):
        _, _, first = law_of(laws, statistic, before + same, epsilons)
        _, _, second = law_of(laws, statistic, after + same, epsilons)
        races.add(len(first))
        bounds[i] = max(bounds[i], charged(first, second))
    assert races == {3 if others else 1}
    for bound, epsilon in zip(bounds, EPSILONS, strict=True):
        assert Fraction(999, 1000) * Fraction(epsilon) <= bound <= Fraction(epsilon)


@pytest.mark.parametrize("shares", [{"a": 1, "b": 1, "c": 1}, {"a": 0.1, "b": 0.7, "c": 0.2000001}])
def test_several_statistics_never_spend_more_than_the_epsilon_in_exact_arithmetic(laws, shares):
    """Replace each person's answer: the exact losses of all three, added up."""
    epsilons = np.concatenate((np.random.default_rng(3).uniform(0.0, 2.0, 50), [0.1, 1.0 / 3.0, 0.0, 5e-13]))
    answers = np.arange(epsilons.size) % 2
    asked = {"a": PrivateShare(), "b": PrivateMean(0, 1), "c": PrivateHistogram((0, 1))}
    several = SeveralStatistics(asked, shares)

    def centres(records):
        laws.clear()
        several.fit(dict.fromkeys("abc", records), epsilons=epsilons)
        return [Fraction(release.numerators[0]) for release in several.releases_.values()]

    before = centres(answers)
    scales = [scale for (scale,) in laws]
    for i in (0, 17, 50, 51, 52):
        other = answers.copy()
        other[i] = 1 - other[i]
        pairs = zip(before, centres(other), scales, strict=True)
        loss = sum(abs(a - b) / scale for a, b, scale in pairs)
        assert loss <= Fraction(several.epsilons_[i]) <= Fraction(epsilons[i])
        assert loss >= Fraction(999, 1000) * Fraction(epsilons[i])


@pytest.mark.parametrize(
    ("statistic", "change", "records"),
    [
        (PrivateQuantile(0.5, range(10)), {"interval_share": 3.0}, np.arange(9.0)),
        (PrivateMean(0, 1), {"low": 5.0}, np.ones(9)),
        (PrivateHistogram(("a", "b", "c")), {"categories": ("a", "a", "b")}, ["a"] * 9),
        (
            SeveralStatistics({"a": PrivateShare(), "b": PrivateShare()}),
            {"shares": {"a": 2.0, "b": -0.5}},
            {"a": np.ones(9), "b": np.ones(9)},
        ),
    ],
)
def test_settings_that_were_changed_are_checked_again_before_anything_is_spent(statistic, change, records):
    """A share of 3 would cost five times the epsilon."""
    for name, value in change.items():
        setattr(statistic, name, value)
    with pytest.raises(InvalidInput):
        statistic.fit(records, epsilons=np.ones(9))
