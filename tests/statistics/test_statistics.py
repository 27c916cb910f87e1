"""What is asked, what is refused, and what comes out: the room's contracts, statistic by statistic."""

import json
import os
from fractions import Fraction

import numpy as np
import pandas
import pytest

import dpmarket as dpm
from dpmarket.errors import EntropyUnavailable, InvalidInput
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
    ReleasedStatistic,
    SeveralStatistics,
    release_statistic,
    statistic_from_dict,
)
from dpmarket.statistics.crowd import RESOLUTION, on_grid, read_crowd
from dpmarket.statistics.vector import whole_rows
from dpmarket.statistics.weights import integer_weights, weighted_sum

LARGE = 1e5  # a promise with which hardly any noise is left


def questions(**terms):
    """One statistic of each kind, with forty records of it."""
    rng = np.random.default_rng(0)
    return {
        "mean": (PrivateMean(0.0, 10.0, **terms), rng.uniform(0.0, 10.0, 40)),
        "share": (PrivateShare(**terms), rng.random(40) < 0.3),
        "histogram": (PrivateHistogram(("a", "b", "c"), **terms), rng.choice(["a", "b", "c"], 40)),
        "quantile": (PrivateQuantile(0.25, range(11), **terms), rng.uniform(0.0, 10.0, 40)),
        "vector mean": (PrivateVectorMean(("x", "y"), 1.0, **terms), rng.uniform(-0.5, 0.5, (40, 2))),
    }


each = pytest.mark.parametrize("kind", questions())
PROMISES = np.random.default_rng(1).uniform(0.0, 1.0, 40)


def weighted(records, weights):
    return np.average(np.asarray(records, dtype=float), axis=0, weights=weights)


def test_with_large_promises_every_statistic_is_the_weighted_one():
    promises = LARGE * (1.0 + PROMISES)
    asked = {kind: statistic.fit(records, epsilons=promises) for kind, (statistic, records) in
             questions().items()}  # fmt: skip
    records = {kind: records for kind, (_, records) in questions().items()}
    assert asked["mean"].mean_ == pytest.approx(weighted(records["mean"], promises), abs=1e-3)
    assert asked["share"].share_ == pytest.approx(weighted(records["share"], promises), abs=1e-4)
    for k, category in enumerate("abc"):
        share = weighted(records["histogram"] == category, promises)
        assert asked["histogram"].shares_[k] == pytest.approx(share, abs=1e-4)
    np.testing.assert_allclose(
        asked["vector mean"].mean_, weighted(records["vector mean"], promises), atol=1e-4
    )
    order = np.argsort(records["quantile"])
    cumulated = np.cumsum(promises[order]) / promises.sum()
    quantile = records["quantile"][order][np.searchsorted(cumulated, 0.25)]
    assert asked["quantile"].quantile_ == np.ceil(quantile)


@each
def test_nobody_spends_more_than_the_promise_and_hardly_less(kind):
    statistic, records = questions()[kind]
    spent = statistic.fit(records, epsilons=PROMISES).epsilons_
    assert all(Fraction(s) <= Fraction(p) for s, p in zip(spent.tolist(), PROMISES.tolist(), strict=True))
    np.testing.assert_allclose(spent, PROMISES, rtol=1e-9)
    assert not spent.flags.writeable


@each
def test_a_record_without_a_promise_has_no_influence(kind):
    statistic, records = questions(noise_source=SeededNoise(3))[kind]
    promises = PROMISES.copy()
    promises[5] = 0.0
    first = statistic.fit(records, epsilons=promises).release_.numerators
    changed = np.array(records)
    changed[5] = changed[np.argmax(changed)] if changed.ndim == 1 else -changed[5]
    assert statistic.fit(changed, epsilons=promises).release_.numerators == first
    promises[5] = LARGE
    assert statistic.fit(records, epsilons=promises).release_.numerators != first


@each
def test_a_person_counts_with_the_mean_of_all_their_records(kind):
    """Each record twice, both of the same person: the same release as once each."""
    once, records = questions(noise_source=SeededNoise(2))[kind]
    twice, _ = questions(noise_source=SeededNoise(2), rows_per_person=2)[kind]
    people = [f"person {k}" for k in range(40)]
    promises = dict(zip(people, PROMISES.tolist(), strict=True))
    first = once.fit(records, epsilons=PROMISES)
    second = twice.fit(np.concatenate((records, records)), epsilons=promises, people=people * 2)
    assert second.release_.numerators == first.release_.numerators
    np.testing.assert_array_equal(second.epsilons_, first.epsilons_)
    assert second.people_ == tuple(people)
    assert first.people_ is None


def test_different_records_of_one_person_are_averaged():
    promises, people = {"x": LARGE, "y": LARGE}, ["x", "x", "x", "y"]
    mean = PrivateMean(0.0, 1.0, rows_per_person=3).fit([0.0, 0.3, 0.9, 1.0], promises, people)
    assert mean.mean_ == pytest.approx(0.7, abs=1e-3)
    shares = PrivateHistogram((1, 2, 3), rows_per_person=3).fit([1, 1, 2, 3], promises, people).shares_
    np.testing.assert_allclose(shares, [1 / 3, 1 / 6, 1 / 2], atol=1e-3)
    vectors = PrivateVectorMean(("a",), 1.0, rows_per_person=3)
    vectors.fit([[-1.0], [-0.4], [-0.1], [1.0]], promises, people)
    assert vectors.mean_[0] == pytest.approx(0.25, abs=1e-3)


def test_values_outside_the_public_bounds_are_cut_off():
    promises = [LARGE] * 2
    assert PrivateMean(0.0, 1.0).fit([-1e300, 1e300], epsilons=promises).mean_ == pytest.approx(0.5, abs=1e-3)
    rows = PrivateVectorMean(("a", "b"), 1.0).fit([[3e200, 4e200], [0.0, 0.0]], epsilons=promises)
    np.testing.assert_allclose(rows.mean_, [0.3, 0.4], atol=1e-3)
    assert on_grid(np.array([-5.0, 2.0, 9.0]), 0.0, 4.0).tolist() == [0, RESOLUTION // 2, RESOLUTION]


def test_values_outside_are_counted_for_the_data_holder_and_not_told_to_the_public():
    mean = PrivateMean(0.0, 1.0, epsilon=1.0).fit([2.0, 1.0, 0.0, -0.1])
    assert mean.outside_ == 2
    vectors = PrivateVectorMean(("a", "b"), 5.0, epsilon=1.0).fit([[3.0, 4.0], [4.0, 4.0], [1e308, 1e308]])
    assert vectors.outside_ == 2
    assert not any("outside" in name for name in (*mean.release_.to_dict(), *vectors.release_.to_dict()))


def test_values_outside_are_refused_where_that_is_declared_and_nothing_is_released():
    mean = PrivateMean(0.0, 1.0, epsilon=1.0, outside="refuse")
    with pytest.raises(InvalidInput, match="found 1 outside"):
        mean.fit([0.5, 2.0])
    assert not hasattr(mean, "release_")
    with pytest.raises(InvalidInput, match="found 1 outside"):
        PrivateVectorMean(("a",), 1.0, epsilon=1.0, outside="refuse").fit([[0.5], [-1.5]])
    assert mean.fit([0.0, 1.0]).outside_ == 0
    with pytest.raises(InvalidInput, match="'clip' or 'refuse'"):
        PrivateMean(0.0, 1.0, outside="drop")


def test_promises_in_another_order_than_the_records_are_refused():
    records = pandas.Series([0.1, 0.9], index=["ann", "bob"])
    promises = pandas.Series([2.0, 1.0], index=["bob", "ann"])
    with pytest.raises(InvalidInput, match="index"):
        PrivateMean(0.0, 1.0).fit(records, epsilons=promises)
    both = SeveralStatistics({"a": PrivateMean(0.0, 1.0), "b": PrivateShare()})
    with pytest.raises(InvalidInput, match="index"):
        both.fit({"a": records, "b": records > 0.5}, epsilons=promises)


def test_no_row_is_longer_than_the_bound_in_whole_numbers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 7)) * 10.0 ** rng.integers(-200, 200, (5_000, 1))
    squares = (whole_rows(rows, 3.0)[0] ** 2).sum(axis=1)
    assert (squares <= RESOLUTION**2).all()
    assert (squares[np.abs(rows).max(axis=1) > 3.0] > 0.999 * RESOLUTION**2).all()
    assert whole_rows(np.zeros((1, 7)), 3.0)[0].tolist() == [[0] * 7]


def test_a_released_value_lies_within_its_public_range_whatever_the_noise():
    for seed in range(60):
        terms = {"noise_source": SeededNoise(seed), "epsilon": 0.01}
        mean = PrivateMean(2.0, 3.0, **terms).fit([2.5] * 3).release_
        assert 2.0 <= mean.lows[0] <= mean.values[0] <= mean.highs[0] <= 3.0
        shares = PrivateHistogram((0, 1, 2), **terms).fit([0, 1, 2]).release_
        assert shares.values.sum() == pytest.approx(1.0)
        assert (shares.values >= 0.0).all()
        assert np.linalg.norm(PrivateVectorMean(("a", "b"), 2.0, **terms).fit([[1, 1]]).mean_) <= 2.0 + 1e-12


def test_weights_are_whole_numbers_rounded_down():
    epsilons = np.array([1.0, 0.75, 1e-14, 0.0, 1.0 - 2.0**-53])
    weights = integer_weights(epsilons)
    assert weights.counts.tolist() == [2**39, 3 * 2**37, 0, 0, 2**39 - 1]
    assert weights.unit == Fraction(1, 2**39)
    assert weights.total == sum(weights.counts.tolist())
    assert weights.effective_people == pytest.approx(2.75**2 / (2 + 0.75**2), rel=1e-9)


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [1e-51, 0.0], [1e7, 1.0]])
def test_promises_without_an_exact_account_are_refused(wrong):
    with pytest.raises(InvalidInput, match="epsilon"):
        integer_weights(np.array(wrong))


def test_weighted_sums_are_exact_beyond_64_bits():
    rng = np.random.default_rng(0)
    counts = rng.integers(2**39, 2**40, 300_000)
    numbers = rng.integers(-(2**24), 2**24, 300_000)
    numbers[:200_000] = 2**24
    wanted = sum(a * b for a, b in zip(counts.tolist(), numbers.tolist(), strict=True))
    assert wanted > 2**63
    assert weighted_sum(counts, numbers) == wanted


@each
def test_the_effective_sample_size_is_that_of_equal_weights(kind):
    statistic, records = questions()[kind]
    assert statistic.fit(records, epsilons=np.full(40, 0.3)).release_.effective_people == 40.0
    uneven = statistic.fit(records, epsilons=PROMISES).release_.effective_people
    assert uneven == pytest.approx(PROMISES.sum() ** 2 / (PROMISES**2).sum(), rel=1e-6)


def test_an_effective_sample_size_is_told_in_whole_people_unless_they_are_few():
    many = PrivateShare(epsilon=1.0).fit([1] * 12_000).release_
    few = PrivateShare().fit([1, 0], epsilons=[1.0, 3.0]).release_
    assert ("effective sample size", "12,000") in many.summary()
    assert ("effective sample size", "1.6") in few.summary()


@each
def test_every_release_warns_of_self_selection_in_words(kind):
    release = questions()[kind][0].fit(questions()[kind][1], epsilons=PROMISES).release_
    for text in (release.in_words(), release._repr_html_(), json.dumps(release.to_dict())):
        assert "biased towards those who sell cheaply" in text
    assert "effective sample size" in release.in_words()
    assert "sampling and noise included" in release.in_words()


@each
def test_a_release_is_its_plain_data(kind):
    release = questions()[kind][0].fit(questions()[kind][1], epsilons=PROMISES).release_
    data = json.loads(json.dumps(release.to_dict()))
    again = ReleasedStatistic.from_dict(data)
    assert again.to_dict() == release.to_dict()
    assert again.in_words() == release.in_words()
    assert again.numerators == release.numerators
    assert data["schema"] == "dpmarket.statistic/1"
    assert ("lows" in data) == (release.lows is not None) != ("radius" in data)


@each
def test_a_release_names_nobody(kind):
    """What may be published has nothing with an entry per person."""
    people = [f"person {k}" for k in range(40)]
    statistic, records = questions()[kind]
    statistic.fit(records, epsilons=dict(zip(people, PROMISES.tolist(), strict=True)), people=people)
    text = json.dumps(statistic.release_.to_dict())
    assert "person 1" not in text
    assert all(repr(epsilon) not in text for epsilon in statistic.epsilons_.tolist())


@pytest.mark.parametrize("part", ["labels", "values", "numerators", "question", "total_promise", "schema"])
def test_plain_data_without_a_part_are_refused(part):
    data = PrivateShare(epsilon=1.0).fit([1, 0]).release_.to_dict()
    del data[part]
    with pytest.raises(InvalidInput, match="expected"):
        ReleasedStatistic.from_dict(data)


def test_plain_data_with_half_an_interval_or_a_value_too_many_are_refused():
    data = PrivateShare(epsilon=1.0).fit([1, 0]).release_.to_dict()
    with pytest.raises(InvalidInput, match="missing"):
        ReleasedStatistic.from_dict({name: value for name, value in data.items() if name != "lows"})
    with pytest.raises(InvalidInput, match="same length"):
        ReleasedStatistic.from_dict(data | {"values": [0.1, 0.2]})


@each
def test_a_release_prints_as_one_line_a_table_and_a_frame(kind):
    release = questions()[kind][0].fit(questions()[kind][1], epsilons=PROMISES).release_
    assert len(repr(release).splitlines()) == 1
    assert repr(release).startswith(f"ReleasedStatistic(kind: {kind}")
    assert release._repr_html_().startswith("<table>")
    frame = release.to_frame()
    assert frame.columns == ["label", "value", "low", "high"]
    assert frame["value"].to_list() == release.values.tolist()
    assert frame["low"].null_count() == (2 if kind == "vector mean" else 0)


def test_a_long_histogram_is_shown_shortened():
    release = PrivateHistogram(tuple(range(30)), epsilon=1.0).fit([3, 4]).release_
    assert ("more values", "18") in release.summary()
    assert len(repr(release)) < 200


@each
def test_a_question_is_its_plain_data_and_a_campaign_can_ask_it(kind):
    statistic, records = questions(noise_source=SeededNoise(5))[kind]
    data = json.loads(json.dumps(statistic.to_dict()))
    assert statistic_from_dict(data).to_dict() == statistic.to_dict()
    asked = release_statistic(data, records, PROMISES, noise_source=SeededNoise(5))
    assert asked.release_.to_dict() == statistic.fit(records, epsilons=PROMISES).release_.to_dict()
    assert not asked.release_.certifiable
    assert release_statistic(data, records, PROMISES).release_.certifiable


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"kind": "median"}, "one of mean, share"),
        ({}, "kind"),
        (None, "kind"),
        ({"kind": ["mean"]}, "kind"),
        ({"kind": "mean", "low": 0}, "missing"),
        ({"kind": "mean", "low": 0, "high": 1, "hi": 2}, "got hi"),
        ({"kind": "mean", "low": 0, "high": 1, "noise_source": 2}, "got noise_source"),
        ({"kind": "mean", "low": 1, "high": 1}, "low < high"),
        ({"kind": "mean", "low": 0, "high": float("inf")}, "high"),
        ({"kind": "mean", "low": 0, "high": 1, "confidence": 1.0}, "confidence"),
        ({"kind": "mean", "low": 0, "high": 1, "rows_per_person": 0}, "rows_per_person"),
        ({"kind": "share", "epsilon": 0.0}, "epsilon"),
        ({"kind": "histogram", "categories": ["a"]}, "at least two"),
        ({"kind": "histogram", "categories": ["a", "a"]}, "different"),
        ({"kind": "histogram", "categories": ["a", 1.5]}, "texts or whole numbers"),
        ({"kind": "histogram", "categories": ["a", "b"], "edges": [1, 2]}, "three"),
        ({"kind": "histogram", "categories": ["a", "b"], "edges": [1, 2, 3, 4]}, "one more edge"),
        ({"kind": "quantile", "level": 0.0, "candidates": [1, 2, 3]}, "level"),
        ({"kind": "quantile", "level": 0.5, "candidates": [1, 3, 2]}, "increasing"),
        ({"kind": "quantile", "level": 0.5, "candidates": [1, 2, 3], "interval_share": 1}, "below 1"),
        ({"kind": "vector mean", "names": "ab", "bound": 1}, "names"),
        ({"kind": "vector mean", "names": ["a", "a"], "bound": 1}, "different"),
        ({"kind": "vector mean", "names": ["a"], "bound": 0}, "bound"),
        ({"kind": "vector mean", "names": ["a"], "bound": 1e200}, "bound between"),
        ({"kind": "mean", "low": 0, "high": 1e-160}, "high - low between"),
        ({"kind": "mean", "low": -1e307, "high": 1e307}, "high - low between"),
    ],
)
def test_questions_that_make_no_sense_are_refused(question, words):
    with pytest.raises(InvalidInput, match=words):
        statistic_from_dict(question)


@each
@pytest.mark.parametrize(
    "promises", [np.full(39, 1.0), np.full(40, -1.0), np.full(40, np.nan), np.zeros(40), None]
)
def test_promises_that_are_none_are_refused(kind, promises):
    statistic, records = questions()[kind]
    with pytest.raises(InvalidInput, match="epsilon"):
        statistic.fit(records, epsilons=promises)
    assert not hasattr(statistic, "release_")


@each
def test_records_that_do_not_fit_are_refused_without_a_value(kind):
    statistic, _ = questions(epsilon=1.0)[kind]
    wrong = {
        "mean": [0.123, float("nan")],
        "share": [0.123, 1.0],
        "histogram": ["a", "0.123"],
        "quantile": [[0.123]],
        "vector mean": [0.123, 0.5],
    }[kind]
    with pytest.raises(InvalidInput, match="record") as refusal:
        statistic.fit(wrong)
    assert "0.123" not in str(refusal.value)


def test_too_many_records_of_one_person_and_none_of_another_are_refused():
    mean = PrivateMean(0.0, 1.0, rows_per_person=2)
    with pytest.raises(InvalidInput, match="rows_per_person = 2"):
        mean.fit([0.1, 0.2, 0.3, 0.4], {"x": 1.0, "y": 1.0}, ["x", "x", "x", "y"])
    with pytest.raises(InvalidInput, match="1 people without"):
        mean.fit([0.1, 0.2], {"x": 1.0, "y": 1.0}, ["x", "x"])
    assert mean.fit([0.1, 0.2], {"x": 1.0, "y": 0.0}, ["x", "x"]).epsilons_.tolist() == [1.0, 0.0]
    with pytest.raises(InvalidInput, match="weights of a model"):
        mean.fit([0.1, 0.2], dpm.weights_for([1.0, 1.0], 1.0))


@each
def test_without_entropy_nothing_is_released(kind, monkeypatch):
    def unavailable(count):
        raise OSError

    monkeypatch.setattr(os, "urandom", unavailable)
    statistic, records = questions(epsilon=1.0)[kind]
    with pytest.raises(EntropyUnavailable):
        statistic.fit(records)
    assert not hasattr(statistic, "release_")


@each
def test_two_secure_releases_differ_and_seeded_ones_do_not(kind):
    statistic, records = questions()[kind]
    found = {statistic.fit(records, epsilons=PROMISES).release_.numerators for _ in range(12)}
    assert len(found) > 1
    assert statistic.release_.certifiable
    seeded, records = questions(noise_source=SeededNoise(1))[kind]
    found = {seeded.fit(records, epsilons=PROMISES).release_.numerators for _ in range(3)}
    assert len(found) == 1
    assert not seeded.release_.certifiable


def test_several_statistics_are_released_together_or_not_at_all():
    age, owner = PrivateMean(0.0, 90.0), PrivateShare()
    several = SeveralStatistics({"age": age, "owner": owner}, epsilon=1.0)
    with pytest.raises(InvalidInput, match="1 or 0"):
        several.fit({"age": [30.0, 40.0], "owner": [1, 2]})
    assert not hasattr(several, "releases_")
    assert not hasattr(age, "release_")
    several.fit({"age": [30.0, 40.0], "owner": [1, 0]})
    assert several.releases_["age"].total_promise == pytest.approx(1.0, rel=1e-9)
    assert several.epsilons_.tolist() == pytest.approx([1.0, 1.0], rel=1e-9)


def test_several_statistics_of_people_with_several_records_and_shares():
    several = SeveralStatistics(
        {"age": PrivateMean(0.0, 90.0, rows_per_person=2), "owner": PrivateShare(rows_per_person=2)},
        shares={"age": 3, "owner": 1},
    )
    columns = {"age": [30.0, 40.0, 50.0], "owner": [1, 0, 1]}
    several.fit(columns, epsilons={"x": 2.0, "y": 0.0, "z": 1.0}, people=["x", "x", "z"])
    assert several.releases_["age"].total_promise == pytest.approx(2.25, rel=1e-9)
    assert several.releases_["owner"].total_promise == pytest.approx(0.75, rel=1e-9)
    assert several.epsilons_.tolist() == pytest.approx([2.0, 0.0, 1.0], rel=1e-9)
    assert several.epsilons_[1] == 0.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SeveralStatistics({}), "at least one"),
        (lambda: SeveralStatistics({"a": PrivateShare()}, {"b": 1}), "share for every"),
        (lambda: SeveralStatistics({"a": PrivateShare()}, {"a": 0}), "share"),
        (lambda: SeveralStatistics({"a": PrivateShare()}, epsilon=1).fit({"b": [1]}), "records for every"),
        (
            lambda: SeveralStatistics({"a": PrivateShare(), "b": PrivateShare()}, epsilon=1).fit(
                {"a": [1], "b": [1, 0]}
            ),
            "as many records",
        ),
    ],
)  # fmt: skip
def test_several_statistics_that_do_not_fit_together_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_a_crowd_with_one_record_each_is_recognised():
    crowd = read_crowd(PrivateShare(), None, 3, [1.0, 2.0, 3.0], None)
    assert crowd.is_one_each
    crowd = read_crowd(PrivateShare(), None, 2, {"x": 1.0, "y": 2.0}, ["y", "x"])
    assert not crowd.is_one_each


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
    """Whatever could go wrong after noise was drawn would have cost everybody their promise for nothing."""
    fitted = make().fit(records, epsilons=epsilons)
    data = json.loads(json.dumps(fitted.release_.to_dict(), allow_nan=False))
    assert ReleasedStatistic.from_dict(data).to_dict() == fitted.release_.to_dict()
    assert (fitted.epsilons_ <= epsilons).all()
    if fitted.release_.lows is not None:
        assert (fitted.release_.lows <= fitted.release_.highs).all()


def test_an_error_that_is_no_number_is_refused_before_noise_is_drawn():
    class Counted(SeededNoise):
        def bits(self):
            raise AssertionError

    statistic = PrivateVectorMean([f"x{k}" for k in range(3)], 1.0, noise_source=Counted(1))
    statistic.bound = 1e200  # as no constructor allows
    with pytest.raises(InvalidInput, match="whose error is a number"):
        statistic.fit(np.zeros((2, 3)), epsilons=[1e-50, 0.0])
