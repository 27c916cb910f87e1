"""Public records: what makes them, how they are taken apart, drawn, and bounded."""

import numpy as np
import pytest

from dpmarket import InvalidInput, PublicScaler
from dpmarket.datasets import PublicData, breast_cancer, logistic, separable, standard_bounds

RNG = np.random.default_rng


def small(**changes):
    values = {
        "features": [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]],
        "labels": ["no", "yes", "no"],
        "classes": ("no", "yes"),
        "low": [0.0, 0.0],
        "high": [1.0, 1.0],
        "name": "small",
        "source": "this test",
    }
    return PublicData(**(values | changes))


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (small, {"features": [[np.nan, 0.0], [0.0, 0.0], [0.0, 0.0]]}),
        (small, {"features": [0.0, 1.0, 2.0]}),
        (small, {"features": np.zeros((0, 2)), "labels": []}),
        (small, {"labels": ["no", "yes"]}),
        (small, {"labels": ["no", "yes", "maybe"]}),
        (small, {"classes": ("no", "no")}),
        (small, {"low": [0.0, 2.0]}),
        (small, {"low": [0.0, 0.0, 0.0]}),
        (small, {"feature_names": ("one",)}),
    ],
)
def test_records_that_make_no_sense_are_refused(make, changes):
    with pytest.raises(InvalidInput):
        make(**changes)


def test_signs_follow_the_order_of_the_classes():
    assert small().signs.tolist() == [-1.0, 1.0, -1.0]
    assert small(classes=("yes", "no")).signs.tolist() == [1.0, -1.0, 1.0]
    assert small().take(np.array([2, 1])).signs.tolist() == [-1.0, 1.0]


def test_a_split_keeps_every_record_once_and_both_classes_on_both_sides():
    data = breast_cancer()
    first, second = data.split(0.8, RNG(1))
    assert len(first) + len(second) == len(data)
    together = np.sort(np.concatenate([first.features, second.features]).sum(axis=1))
    np.testing.assert_array_equal(together, np.sort(data.features.sum(axis=1)))
    for part in (first, second):
        assert abs((part.signs > 0).mean() - (data.signs > 0).mean()) < 0.01


def test_a_split_that_would_be_empty_is_refused():
    with pytest.raises(InvalidInput, match="both sides"):
        small().split(0.01, RNG(0))


def test_standard_bounds_centre_features_and_give_them_one_spread():
    data = breast_cancer()
    low, high = standard_bounds(data)
    mapped = (data.features - low) / (high - low) * 2.0 - 1.0
    np.testing.assert_allclose(mapped.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(mapped.std(axis=0), 0.5)


def test_a_feature_that_is_constant_in_the_pilot_is_centred_there():
    pilot = small(features=[[0.0, 0.25], [1.0, 0.25], [0.5, 0.25]])
    low, high = standard_bounds(pilot)
    assert (low[1], high[1]) == (-0.5, 1.0)  # the constant in the middle, the declared bounds 0 and 1 inside
    assert low[0] < 0.0


def test_a_category_that_is_absent_from_the_pilot_is_mapped_to_zero():
    pilot = small(features=[[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    scaled = PublicScaler(*standard_bounds(pilot), radius=None).fit_transform([[0.5, 0.0], [0.5, 1.0]])
    assert scaled[:, 1].round(12).tolist() == [0.0, pytest.approx(2.0**-0.5)]


@pytest.mark.parametrize("draw", [separable, logistic])
@pytest.mark.parametrize("shape", [(1, 2), (10, 0)])
def test_too_few_records_or_features_are_refused(draw, shape):
    with pytest.raises(InvalidInput):
        draw(*shape, RNG(0))
