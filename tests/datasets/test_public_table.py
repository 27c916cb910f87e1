"""Public tables: what makes one, and how it is taken apart."""

import numpy as np
import polars as pl
import pytest

from dpmarket import InvalidInput
from dpmarket.datasets import PublicTable, census

FRAME = pl.DataFrame({"job": ["baker", "smith", None, "baker"], "age": [20.0, None, 40.0, 50.0]})


def table(**changes):
    good = {"frame": FRAME, "labels": [0, 1, 1, 0], "classes": (0, 1), "name": "four", "source": "made up"}
    return PublicTable(**good | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"frame": {"job": ["baker"]}},
        {"frame": FRAME[:0], "labels": []},
        {"labels": [0, 1]},
        {"labels": [0, 1, 2, 0]},
        {"classes": (0, 0)},
        {"people": [1, 2]},
    ],
)
def test_tables_that_make_no_sense_are_refused(changes):
    with pytest.raises(InvalidInput):
        table(**changes)


def test_a_split_keeps_people_together_and_loses_nobody():
    whole = table(frame=pl.concat([FRAME] * 25), labels=[0, 1, 1, 0] * 25, people=np.arange(100) // 4)
    first, second = whole.split(0.6, np.random.default_rng(0))
    assert (len(first), len(second)) == (60, 40)
    assert not set(first.people.tolist()) & set(second.people.tolist())
    with pytest.raises(InvalidInput, match="both sides"):
        table().split(0.01, np.random.default_rng(0))


def test_taking_records_takes_their_labels():
    part = table().take(np.array([2, 0]))
    assert part.frame["job"].to_list() == [None, "baker"]
    assert part.signs.tolist() == [1.0, -1.0]


def test_a_drawn_census_is_the_same_for_the_same_seed_and_has_the_share_asked_for():
    first, again = (census(4_000, np.random.default_rng(3), positive=0.3) for _ in range(2))
    assert first.frame.equals(again.frame)
    assert abs(float((first.signs > 0).mean()) - 0.3) < 0.1
    assert sum(first.frame[name].dtype == pl.String for name in first.frame.columns) == 8
