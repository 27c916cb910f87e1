"""Exact sums per bucket: the same bits for every division and order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpmarket.partitions import BucketSums, merged
from dpmarket.partitions.ids import grouped_hashes, repeated_among
from dpmarket.partitions.sums import total_of, whole_sum


def exact(values):
    return sum(map(Fraction, values)), sum(Fraction(value) ** 2 for value in values)


def moments(sums):
    unit = sums.unit
    first, second = sums.moments(unit)
    return sum(first) * Fraction(2) ** unit, sum(second) * Fraction(4) ** unit


VALUES = {
    "costs": np.random.default_rng(0).uniform(1.0, 9.0, 3000),
    "wide": 10.0 ** np.random.default_rng(1).uniform(-300, 150, 500),
    "few": np.round(np.random.default_rng(2).uniform(0.0, 3.0, 2000), 1),
    "extremes": np.array([0.0, -0.0, 5e-324, 2.2e-308, 1.0, np.nextafter(2.0, 0.0), 1.7e308]),
}


@pytest.mark.parametrize("name", VALUES)
def test_sums_and_sums_of_squares_are_exact(name):
    assert moments(BucketSums.of(VALUES[name])) == exact(VALUES[name].tolist())


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("parts", [2, 5])
def test_any_division_and_order_gives_the_same_bits(name, parts):
    rng = np.random.default_rng(parts)
    values = VALUES[name]
    cuts = np.sort(rng.integers(0, values.size, parts - 1))
    pieces = [BucketSums.of(part) for part in np.split(rng.permutation(values), cuts)]
    whole = BucketSums.of(values)
    assert merged(pieces) == whole
    assert merged([merged(pieces[:1]), merged(pieces[1:])]) == merged(pieces[::-1])
    assert whole.limbs.tobytes() == merged(pieces).limbs.tobytes()


def test_sums_do_not_overflow_where_there_are_more_sellers_than_people():
    values = np.array([np.nextafter(2.0, 0.0), 1.5])  # all trailing bits set
    sums = BucketSums.of(values)
    for _ in range(40):
        sums = merged([sums, sums])
    total, square = exact(values.tolist())
    assert moments(sums) == (total * 2**40, square * 2**40)
    assert sums.counts.tolist() == [2**40, 2**40]


def test_a_number_changed_in_its_last_bit_changes_the_sums():
    values = VALUES["costs"].copy()
    values[17] = np.nextafter(values[17], 0.0)
    assert BucketSums.of(values) != BucketSums.of(VALUES["costs"])


def test_many_numbers_are_added_up_chunk_by_chunk(monkeypatch):
    whole = BucketSums.of(VALUES["costs"])
    monkeypatch.setattr("dpmarket.partitions.sums._CHUNK", 64)
    assert BucketSums.of(VALUES["costs"]) == whole


def test_a_total_is_rounded_once():
    assert total_of([whole_sum(np.array([2.0**53, 1.0])), whole_sum(np.array([1.0]))]) == 2.0**53 + 2.0
    assert total_of([whole_sum(np.zeros(0))]) == 0.0


def test_zero_has_no_sign():
    plain, signed = np.array([0.0, 0.0, 1.0]), np.array([-0.0, 0.0, 1.0])
    assert BucketSums.of(signed) == BucketSums.of(plain)
    assert whole_sum(signed) == whole_sum(plain) == 1 << 1074


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("parts", [1, 3])
def test_sums_without_buckets_are_exact_however_numbers_are_divided(name, parts):
    values = VALUES[name]
    wholes = [whole_sum(part) for part in np.array_split(values, parts)]
    assert sum(wholes) * Fraction(1, 2**1074) == sum(map(Fraction, values.tolist()))
    if name != "extremes":
        assert total_of(wholes) == float(sum(map(Fraction, values.tolist())))


def test_hashes_that_stand_in_several_lists_are_found():
    lists = [[0, 5, 1 << 63, 9], [7, 1 << 63, 0], [8, 9, 10]]
    known = [grouped_hashes(np.array(some, dtype=np.uint64)) for some in lists]
    assert repeated_among(known).tolist() == [0, 9, 1 << 63]
    assert repeated_among(known, 0, 128).tolist() == [0, 9]
    assert repeated_among(known, 128, 256).tolist() == [1 << 63]
    assert repeated_among(known[:1]).size == 0
