"""No replaced record costs more than is charged, and some cost all of it: exact laws of whole releases.

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
    PrivateVectorMean,
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


def remembered(laws, asked, **given):
    """Return what tells the law of records, computed once for each: every data set has many neighbours."""
    known = {}

    def law(records):
        key = tuple(records)
        if key not in known:
            known[key] = law_of(laws, asked, records, **given)[1:]
        return known[key]

    return law


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


SUMS = {
    "mean": (PrivateMean(-1.0, 3.0), (-5.0, -1.0, 0.3, 3.0, 8.0)),
    "share": (PrivateShare(), (True, False)),
    "histogram": (PrivateHistogram(("a", "b", "c")), ("a", "b", "c")),
    "two bins": (PrivateHistogram((5, 6)), (5, 6)),
    "bins of a number": (PrivateHistogram.from_edges([0, 1, 2, 5]), (-3.0, 0.5, 1.0, 9.0)),
}


@pytest.mark.parametrize("name", SUMS)
def test_no_replaced_record_costs_more_than_the_epsilon_and_some_cost_all_of_it(laws, name):
    """Laplace noise of scale t at a point moved by d has a largest log ratio of d / t, in exact rationals."""
    statistic, possible = SUMS[name]
    largest = [Fraction(0)] * len(EPSILONS)
    law = remembered(laws, statistic)
    for before, i, after in itertools.islice(neighbours(possible), 0, None, 7):
        first, noise = law(before)
        second, same = law(after)
        assert noise == same
        loss = sum(abs(a - b) / scale for a, b, (scale,) in zip(first, second, noise, strict=True))
        assert loss <= Fraction(EPSILONS[i])
        largest[i] = max(largest[i], loss)
    for loss, epsilon in zip(largest, EPSILONS, strict=True):
        assert loss >= Fraction(999, 1000) * Fraction(epsilon)
        assert (loss == 0) == (epsilon == 0.0)


def test_replacing_all_of_several_records_costs_no_more_than_the_epsilon(laws):
    people = ["x", "y", "x", "z", "x"]
    promises = {"x": 0.9, "y": 0.4, "z": 0.0}
    questions = {
        PrivateMean: PrivateMean(0.0, 1.0, rows_per_person=3),
        PrivateHistogram: PrivateHistogram((0, 1, 2), rows_per_person=3),
    }
    for statistic in questions.values():
        values = (0, 1, 2) if isinstance(statistic, PrivateHistogram) else (0.0, 0.4, 1.0)
        largest, law = Fraction(0), remembered(laws, statistic, epsilons=promises, people=people)
        for old in itertools.product(values, repeat=3):
            for new in itertools.product(values, repeat=3):
                before, after = ([a, values[1], b, values[0], c] for a, b, c in (old, new))
                first, noise = law(before)
                second, _ = law(after)
                loss = sum(abs(a - b) / scale for a, b, (scale,) in zip(first, second, noise, strict=True))
                assert loss <= Fraction(0.9)
                largest = max(largest, loss)
        assert largest >= Fraction(999, 1000) * Fraction(0.9)


def test_a_vector_mean_costs_no_more_than_the_epsilon_and_a_reversed_vector_all_of_it(laws):
    rng = np.random.default_rng(0)
    statistic = PrivateVectorMean(("a", "b", "c"), bound=2.0)
    for k in range(200):
        rows = rng.normal(size=(4, 3)) * rng.choice([0.1, 1.0, 1e6], 4)[:, None]
        i = k % 4
        other = rows.copy()
        other[i] = -rows[i] * 1e3 if k >= 100 else rng.normal(size=3)
        _, first, ((_, rate),) = law_of(laws, statistic, rows)
        _, second, _ = law_of(laws, statistic, other)
        squared = sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) * (rate / 2) ** 2
        assert squared <= Fraction(EPSILONS[i]) ** 2
        if np.linalg.norm(rows[i]) > 2.0 and k >= 100:
            assert squared >= Fraction(999, 1000) ** 2 * Fraction(EPSILONS[i]) ** 2


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


def charged(first, second):
    """Twice the rate times the largest change of a score, over all races: what the proof allows."""
    return sum(
        2 * rate * max(abs(a - b) for a, b in zip(one, other, strict=True))
        for (one, rate), (other, _) in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("shares", [{"a": 1, "b": 1, "c": 1}, {"a": 0.1, "b": 0.7, "c": 0.2000001}])
def test_several_statistics_never_spend_more_than_the_epsilon_in_exact_arithmetic(laws, shares):
    rng = np.random.default_rng(3)
    epsilons = np.concatenate((rng.uniform(0.0, 2.0, 50), [0.1, 1.0 / 3.0, 0.0, 5e-13]))
    answers = rng.integers(0, 2, epsilons.size)
    several = SeveralStatistics(
        {"a": PrivateShare(), "b": PrivateMean(0, 1), "c": PrivateHistogram((0, 1))}, shares
    )
    laws.clear()
    several.fit(dict.fromkeys("abc", answers), epsilons=epsilons)
    scales = [scale for (scale,) in laws]
    assert len(scales) == 3
    _check_charged_in_full(several, epsilons, answers, scales, laws)


def _check_charged_in_full(several, epsilons, answers, scales, laws):
    """Replace each person's answer: the exact losses of all three, added up."""
    centres = [Fraction(release.numerators[0]) for release in several.releases_.values()]
    for i in (0, 17, len(epsilons) - 4, len(epsilons) - 3, len(epsilons) - 2):
        other = answers.copy()
        other[i] = 1 - other[i]
        laws.clear()
        several.fit(dict.fromkeys("abc", other), epsilons=epsilons)
        moved = [Fraction(release.numerators[0]) for release in several.releases_.values()]
        loss = sum(abs(a - b) / scale for a, b, scale in zip(centres, moved, scales, strict=True))
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
