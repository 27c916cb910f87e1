"""What statistics are asked with, what they refuse, and what comes out: their contract, kind by kind."""

import json
import os
import pickle
from fractions import Fraction

import numpy as np
import pandas
import pytest

from dpmarket.errors import EntropyUnavailable, Infeasible, InvalidInput
from dpmarket.privacy import Account, SeededNoise
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
    ReleasedStatistic,
    SeveralStatistics,
    statistic_from_dict,
)
from dpmarket.statistics.kinds import whole_rows
from dpmarket.statistics.sample import RESOLUTION

LARGE = 1e5  # an epsilon with which hardly any noise is left


class NoBits(SeededNoise):
    """A source that must not be asked: everything that can be refused is refused before noise is drawn."""

    def bits(self):
        raise AssertionError("noise was drawn")


def statistics(**settings):
    """One statistic of each kind, with forty records of it."""
    rng = np.random.default_rng(0)
    return {
        "mean": (PrivateMean(0.0, 10.0, **settings), rng.uniform(0.0, 10.0, 40)),
        "share": (PrivateShare(**settings), rng.random(40) < 0.3),
        "histogram": (PrivateHistogram(("a", "b", "c"), **settings), rng.choice(["a", "b", "c"], 40)),
        "quantile": (PrivateQuantile(0.25, range(11), **settings), rng.uniform(0.0, 10.0, 40)),
        "vector mean": (PrivateVectorMean(("x", "y"), 1.0, **settings), rng.uniform(-0.5, 0.5, (40, 2))),
    }


each = pytest.mark.parametrize("kind", statistics())
EPSILONS = np.random.default_rng(1).uniform(0.0, 1.0, 40)


def test_with_large_epsilons_every_statistic_is_the_weighted_one():
    epsilons = LARGE * (1.0 + EPSILONS)
    asked = statistics()
    found = {kind: statistic.fit(records, epsilons).value_ for kind, (statistic, records) in asked.items()}
    records = {kind: records for kind, (_, records) in asked.items()}
    weights = epsilons / epsilons.sum()
    assert found["mean"] == pytest.approx(weights @ records["mean"], abs=1e-3)
    assert found["share"] == pytest.approx(weights @ records["share"], abs=1e-4)
    shares = [weights @ (records["histogram"] == category) for category in "abc"]
    np.testing.assert_allclose(found["histogram"], shares, atol=1e-4)
    np.testing.assert_allclose(found["vector mean"], weights @ records["vector mean"], atol=1e-4)
    order = np.argsort(records["quantile"])
    level = np.searchsorted(np.cumsum(weights[order]), 0.25)
    assert found["quantile"] == np.ceil(records["quantile"][order][level])


@each
def test_nobody_spends_more_than_their_epsilon_and_hardly_less(kind):
    statistic, records = statistics()[kind]
    spent = statistic.fit(records, epsilons=EPSILONS).epsilons_
    assert all(Fraction(s) <= Fraction(e) for s, e in zip(spent.tolist(), EPSILONS.tolist(), strict=True))
    np.testing.assert_allclose(spent, EPSILONS, rtol=1e-9)
    assert not spent.flags.writeable


WRONG = {
    "mean": (np.nan, None, "thirty"),
    "share": (np.nan, None, "perhaps"),
    "histogram": (np.nan, None, "d"),
    "quantile": (np.nan, None, "thirty"),
    "vector mean": ([np.nan, 0.0], [None, None], ["a", "b"]),
}


@each
def test_a_record_without_an_epsilon_is_not_read(kind):
    statistic, records = statistics(noise_source=SeededNoise(3))[kind]
    epsilons = EPSILONS.copy()
    epsilons[5] = 0.0
    expected = statistic.fit(records, epsilons=epsilons).release_.numerators
    assert statistic.epsilons_[5] == 0.0
    for wrong in WRONG[kind]:
        listed = records.tolist()
        listed[5] = wrong
        for given in (listed, pandas.Series(listed, dtype=object)):
            if kind != "vector mean" or given is listed:
                assert statistic.fit(given, epsilons=epsilons).release_.numerators == expected
    named = dict(zip("abcdefgh", [1.0, 0.0, *[1.0] * 6], strict=True))
    listed = records.tolist()[:7]
    listed.insert(1, WRONG[kind][0])
    assert statistic.fit(listed, epsilons=named, people=list("abcdefgh")).epsilons_[1] == 0.0
    epsilons[5] = LARGE
    assert statistic.fit(records, epsilons=epsilons).release_.numerators != expected


@each
def test_a_person_counts_with_all_their_records_together(kind):
    """Each record twice, both of the same person: the same release as once each."""
    once, records = statistics(noise_source=SeededNoise(2))[kind]
    twice, _ = statistics(noise_source=SeededNoise(2), rows_per_person=2)[kind]
    people = [f"person {k}" for k in range(40)]
    epsilons = dict(zip(people, EPSILONS.tolist(), strict=True))
    first = once.fit(records, epsilons=EPSILONS)
    second = twice.fit(np.concatenate((records, records)), epsilons=epsilons, people=people * 2)
    assert second.release_.numerators == first.release_.numerators
    np.testing.assert_array_equal(second.epsilons_, first.epsilons_)
    assert second.people_ == tuple(people)
    assert first.people_ is None


def test_different_records_of_one_person_are_averaged():
    epsilons, people = {"x": LARGE, "y": LARGE}, ["x", "x", "x", "y"]
    mean = PrivateMean(0.0, 1.0, rows_per_person=3).fit([0.0, 0.3, 0.9, 1.0], epsilons, people)
    assert mean.value_ == pytest.approx(0.7, abs=1e-3)
    shares = PrivateHistogram((1, 2, 3), rows_per_person=3).fit([1, 1, 2, 3], epsilons, people).value_
    np.testing.assert_allclose(shares, [1 / 3, 1 / 6, 1 / 2], atol=1e-3)
    vectors = PrivateVectorMean(("a",), 1.0, rows_per_person=3)
    vectors.fit([[-1.0], [-0.4], [-0.1], [1.0]], epsilons, people)
    assert vectors.value_ == pytest.approx(0.25, abs=1e-3)


def test_values_outside_the_public_bounds_are_moved_counted_and_not_published():
    epsilons = [LARGE] * 2
    mean = PrivateMean(0.0, 1.0).fit([-1e300, 1e300], epsilons=epsilons)
    assert (round(mean.value_, 3), mean.outside_) == (0.5, 2)
    rows = PrivateVectorMean(("a", "b"), 1.0).fit([[3e200, 4e200], [0.6, 0.8]], epsilons=epsilons)
    np.testing.assert_allclose(rows.value_, [0.6, 0.8], atol=1e-3)
    assert rows.outside_ == 1
    bins = PrivateHistogram.from_edges([0, 1, 2]).fit([-5.0, 0.5, 9.0], epsilons=[LARGE] * 3)
    np.testing.assert_allclose(bins.value_, [2 / 3, 1 / 3], atol=1e-3)
    assert bins.outside_ == 2
    assert PrivateQuantile(0.9, [0, 1, 2]).fit([-5.0, 0.5, 9.0], epsilons=[1.0] * 3).outside_ == 2
    assert not hasattr(mean.published(), "outside_")


@pytest.mark.parametrize(
    ("make", "records"),
    [
        (lambda **more: PrivateMean(0.0, 1.0, **more), [0.5, 2.0]),
        (lambda **more: PrivateVectorMean(("a",), 1.0, **more), [[0.5], [-1.5]]),
        (lambda **more: PrivateHistogram.from_edges([0, 1, 2], **more), [0.5, 3.0]),
        (lambda **more: PrivateQuantile(0.5, [0, 1, 2], **more), [0.5, -1.0]),
    ],
)
def test_values_outside_are_refused_where_that_is_declared(make, records):
    statistic = make(epsilon=1.0, outside="refuse", noise_source=NoBits(1))
    with pytest.raises(InvalidInput, match="found 1 outside"):
        statistic.fit(records)
    assert not hasattr(statistic, "release_")
    with pytest.raises(InvalidInput, match="'clip' or 'refuse'"):
        make(outside="drop")


def test_no_row_is_longer_than_the_bound_in_whole_numbers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 7)) * 10.0 ** rng.integers(-200, 200, (5_000, 1))
    squares = (whole_rows(rows, 3.0)[0] ** 2).sum(axis=1)
    assert (squares <= RESOLUTION**2).all()
    assert (squares[np.abs(rows).max(axis=1) > 3.0] > 0.999 * RESOLUTION**2).all()
    assert whole_rows(np.zeros((1, 7)), 3.0)[0].tolist() == [[0] * 7]


def test_a_released_value_lies_within_its_public_range_whatever_the_noise():
    for seed in range(60):
        settings = {"noise_source": SeededNoise(seed), "epsilon": 0.01}
        mean = PrivateMean(2.0, 3.0, **settings).fit([2.5] * 3)
        assert 2.0 <= mean.interval_[0] <= mean.value_ <= mean.interval_[1] <= 3.0
        shares = PrivateHistogram((0, 1, 2), **settings).fit([0, 1, 2]).value_
        assert shares.sum() == pytest.approx(1.0)
        assert (shares >= 0.0).all()
        vector = PrivateVectorMean(("a", "b"), 2.0, **settings).fit([[1, 1]]).value_
        assert np.linalg.norm(vector) <= 2.0 + 1e-12


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [1e-51, 0.0], [1e7, 1.0]])
def test_epsilons_without_exact_weights_are_refused(wrong):
    with pytest.raises(InvalidInput, match="epsilon"):
        PrivateShare(noise_source=NoBits(1)).fit([1, 0], epsilons=wrong)


def test_epsilons_in_another_order_than_the_records_are_refused():
    records = pandas.Series([0.1, 0.9], index=["ann", "bob"])
    epsilons = pandas.Series([2.0, 1.0], index=["bob", "ann"])
    both = SeveralStatistics({"a": PrivateMean(0.0, 1.0), "b": PrivateShare()})
    for fit in (PrivateMean(0.0, 1.0).fit, lambda r, e: both.fit({"a": r, "b": r > 0.5}, e)):
        with pytest.raises(InvalidInput, match="index"):
            fit(records, epsilons)


@each
def test_the_effective_sample_size_is_that_of_equal_weights(kind):
    statistic, records = statistics()[kind]
    assert statistic.fit(records, epsilons=np.full(40, 0.3)).release_.effective_people == 40.0
    uneven = statistic.fit(records, epsilons=EPSILONS).release_.effective_people
    assert uneven == pytest.approx(EPSILONS.sum() ** 2 / (EPSILONS**2).sum(), rel=1e-6)


@each
def test_what_is_published_names_nobody_and_reads_back_as_it_was(kind):
    people = [f"person {k}" for k in range(40)]
    statistic, records = statistics()[kind]
    with pytest.raises(InvalidInput, match="call fit first"):
        statistic.published()
    statistic.fit(records, epsilons=dict(zip(people, EPSILONS.tolist(), strict=True)), people=people)
    public = statistic.published()
    kept = pickle.dumps(public).decode("latin-1") + json.dumps(public.release_.to_dict())
    assert "person 1" not in kept
    assert not any(hasattr(public, name) for name in ("epsilons_", "people_", "outside_"))
    assert public.release_ is statistic.release_
    data = json.loads(json.dumps(public.release_.to_dict(), allow_nan=False))
    again = ReleasedStatistic.from_dict(data)
    assert again == public.release_
    assert again.to_dict() == data
    assert again.total_epsilon == pytest.approx(statistic.epsilons_.sum(), rel=1e-12)
    assert ("lows" in data) == (kind != "vector mean") == ("radius" not in data)
    assert len(repr(again).splitlines()) == 1
    assert "biased towards people who sell cheaply" in again._repr_html_()
    frame = again.to_frame()
    assert frame.columns == ["label", "value", "low", "high"]
    assert tuple(frame["value"]) == again.values
    assert frame["low"].null_count() == (2 if kind == "vector mean" else 0)


PARTS = ("labels", "values", "numerators", "question", "lows", "denominator", "unit_exponent", "kind")


@pytest.mark.parametrize("change", [*PARTS, {"values": [0.1, 0.2]}, {"schema": "1"}, {"more": 1}])
def test_plain_data_with_a_part_that_is_missing_or_wrong_are_refused(change):
    data = PrivateShare(epsilon=1.0).fit([1, 0]).release_.to_dict()
    data = data | change if isinstance(change, dict) else {k: v for k, v in data.items() if k != change}
    with pytest.raises(InvalidInput, match="expected"):
        ReleasedStatistic.from_dict(data)


@each
def test_a_statistic_is_its_plain_data(kind):
    statistic, records = statistics(noise_source=SeededNoise(5))[kind]
    again = statistic_from_dict(json.loads(json.dumps(statistic.to_dict())))
    assert again.to_dict() == statistic.to_dict()
    again.noise_source = SeededNoise(5)
    assert again.fit(records, EPSILONS).release_ == statistic.fit(records, EPSILONS).release_


MEAN, BINS = {"kind": "mean", "low": 0, "high": 1}, {"kind": "histogram", "categories": ["a", "b"]}
QUANTILE = {"kind": "quantile", "level": 0.5, "candidates": [1, 2, 3]}
VECTOR = {"kind": "vector mean", "names": ["a"], "bound": 1}


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"kind": "median"}, "kind: mean, share"), (None, "kind"), ({"kind": "mean", "low": 0}, "missing"),
        (MEAN | {"hi": 2}, "got hi"), (MEAN | {"noise_source": 2}, "got noise_source"),
        (MEAN | {"low": 1}, "low < high"), (MEAN | {"high": float("inf")}, "high"),
        (MEAN | {"confidence": 1.0}, "confidence"), (MEAN | {"rows_per_person": 0}, "rows_per_person"),
        (MEAN | {"high": 1e-160}, "high - low between"), ({"kind": "share", "epsilon": 0.0}, "epsilon"),
        (BINS | {"categories": ["a"]}, "at least two"), (BINS | {"categories": ["a", "a"]}, "different"),
        (BINS | {"categories": ["a", 1.5]}, "texts or whole numbers"), (BINS | {"edges": [1, 2]}, "three"),
        (BINS | {"edges": [1, 2, 3, 4]}, "one more edge"), (QUANTILE | {"level": 0.0}, "level"),
        (QUANTILE | {"candidates": [1, 3, 2]}, "increasing"), (QUANTILE | {"interval_share": 1}, "below 1"),
        (VECTOR | {"names": "ab"}, "names"), (VECTOR | {"names": ["a", "a"]}, "different"),
        (VECTOR | {"bound": 1e200}, "bound between"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(question, words):
    with pytest.raises(InvalidInput, match=words):
        statistic_from_dict(question)


@each
@pytest.mark.parametrize(
    "epsilons", [np.full(39, 1.0), np.full(40, -1.0), np.full(40, np.nan), np.zeros(40), None]
)
def test_epsilons_that_are_none_are_refused(kind, epsilons):
    statistic, records = statistics(noise_source=NoBits(1))[kind]
    with pytest.raises(InvalidInput, match="epsilon"):
        statistic.fit(records, epsilons=epsilons)


@each
def test_records_that_do_not_fit_are_refused_without_a_value(kind):
    statistic, records = statistics(epsilon=1.0, noise_source=NoBits(1))[kind]
    wrong = {
        **{"mean": [0.123, np.nan], "share": [0.123, 1.0], "histogram": ["a", "0.123"]},
        **{"quantile": [[0.123]], "vector mean": [0.123, 0.5]},
    }[kind]
    for given in (wrong, [], {"0.123": 1.0}, 0.123, np.array(0.123), iter([0.123])):
        with pytest.raises(InvalidInput, match="record") as refusal:
            statistic.fit(given)
        assert "0.123" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="rows_per_person = 1"):
        statistic.fit(records[:2], {"x": 1.0}, ["x", "x"])
    with pytest.raises(InvalidInput, match="1 people without"):
        statistic.fit(records[:1], {"x": 1.0, "y": 1.0}, ["x"])


def test_only_a_source_that_says_so_is_certifiable():
    class Own(SeededNoise):
        certifiable = True

    for source, certifiable in ((None, True), (Own(1), True), (SeededNoise(1), False)):
        share = PrivateShare(epsilon=1.0, noise_source=source).fit([1, 0, 1])
        assert share.release_.certifiable is certifiable
    with pytest.raises(InvalidInput, match="random bits"):
        PrivateShare(epsilon=1.0, noise_source=object()).fit([1, 0, 1])


@each
def test_two_secure_releases_differ_seeded_ones_do_not_and_without_entropy_there_is_none(kind, monkeypatch):
    for source, differ in ((None, True), (SeededNoise(1), False)):
        statistic, records = statistics(noise_source=source)[kind]
        found = {statistic.fit(records, epsilons=EPSILONS).release_.numerators for _ in range(12)}
        assert (len(found) > 1) == differ

    def unavailable(count):
        raise OSError

    monkeypatch.setattr(os, "urandom", unavailable)
    statistic, records = statistics(epsilon=1.0)[kind]
    with pytest.raises(EntropyUnavailable):
        statistic.fit(records)
    assert not hasattr(statistic, "release_")


@each
def test_an_account_is_charged_exactly_what_is_spent_before_noise_is_drawn(kind):
    statistic, records = statistics()[kind]
    people = [f"person {k}" for k in range(40)]
    epsilons = dict(zip(people, EPSILONS.tolist(), strict=True))
    account = Account(1.5)
    statistic.fit(records, epsilons, people, account=account)
    np.testing.assert_array_equal(account.spent(people), statistic.epsilons_)
    refused, _ = statistics(noise_source=NoBits(1))[kind]
    with pytest.raises(Infeasible, match=f"found {(EPSILONS > 0.75).sum()} of 40 people"):
        refused.fit(records, epsilons, people, account=account)
    np.testing.assert_array_equal(account.spent(people), statistic.epsilons_)
    with pytest.raises(AssertionError, match="noise was drawn"):
        refused.fit(records[:1], [0.25], account=account)
    assert account.spent([0])[0] == 0.25  # debited first: what is lost is the seller's gain


def test_several_statistics_are_released_together_or_not_at_all():
    age, owner = PrivateMean(0.0, 90.0), PrivateShare()
    several, account = SeveralStatistics({"age": age, "owner": owner}, epsilon=1.0), Account(1.5)
    age.noise_source = NoBits(1)
    with pytest.raises(InvalidInput, match="1 or 0"):
        several.fit({"age": [30.0, 40.0], "owner": [1, 2]}, account=account)
    assert not hasattr(several, "releases_")
    assert account.spent([0, 1]).tolist() == [0.0, 0.0]
    age.noise_source = None
    several.fit({"age": [30.0, 40.0], "owner": [1, 0]}, account=account)
    assert not hasattr(age, "release_")
    assert several.releases_["age"].total_epsilon == pytest.approx(1.0, rel=1e-9)
    assert several.epsilons_.tolist() == pytest.approx([1.0, 1.0], rel=1e-9)
    assert account.spent([0, 1]).tolist() == several.epsilons_.tolist()
    public = several.published()
    assert public.releases_ is several.releases_
    assert not any(hasattr(public, name) for name in ("epsilons_", "spent_by_", "people_"))
    with pytest.raises(Infeasible):
        several.fit({"age": [30.0, 40.0], "owner": [1, 0]}, account=account)


def test_several_statistics_that_do_not_fit_together_are_refused():
    one, two = PrivateShare(), PrivateShare()
    for statistics, shares, words in (
        ({}, None, "at least one"), ({"a": one}, {"b": 1}, "for every"), ({"a": one}, {"a": 0}, "share"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            SeveralStatistics(statistics, shares)
    both = SeveralStatistics({"a": one, "b": two}, epsilon=1)
    for records, words in (({"b": [1]}, "records for every"), ({"a": [1], "b": [1, 0]}, "as many")):
        with pytest.raises(InvalidInput, match=words):
            both.fit(records)


EXTREME = [
    (lambda: PrivateMean(-1e60, 0), [-1e308, 5e-324, 1e308]),
    (lambda: PrivateMean(1e16, 1e16 + 2), [0.0, 1e16, 1e308]),
    (lambda: PrivateQuantile(0.5, [-1.7e308, 0, 1.7e308]), [1e308, -1e308, 5e-324]),
    (lambda: PrivateQuantile(0.5, [1, 2, 3], interval_share=5e-324), [1.0, 2.0, 3.0]),
    (lambda: PrivateHistogram.from_edges([-1.7e308, 0, 1.7e308]), [1e308, -1e308, 5e-324]),
    (lambda: PrivateVectorMean(("x", "y"), 1e60), [[1e308, -1e308], [5e-324, 0], [0, 0]]),
    (lambda: PrivateVectorMean(("x", "y"), 1e-60), [[1e308, -1e308], [5e-324, 0], [0, 0]]),
]


@pytest.mark.parametrize(("make", "records"), EXTREME)
@pytest.mark.parametrize("epsilons", [[1e6, 1e-9, 1.0], [1e-50, 5e-324, 0.0], [1.0, 1.0, 1.0]])
@pytest.mark.filterwarnings("error")
def test_the_farthest_numbers_are_released_whole(make, records, epsilons):
    """Whatever went wrong after noise was drawn would have cost everybody their epsilon for nothing."""
    fitted = make().fit(records, epsilons=epsilons)
    data = json.loads(json.dumps(fitted.release_.to_dict(), allow_nan=False))
    assert ReleasedStatistic.from_dict(data) == fitted.release_
    assert (fitted.epsilons_ <= epsilons).all()
    if fitted.interval_ is not None:
        assert np.all(fitted.interval_[0] <= fitted.interval_[1])
