"""The public encoder: declarations in, rows of norm at most 1 out, nothing learned from what it encodes."""

import datetime
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import issparse
from sklearn.base import clone

from dpmarket import InvalidInput, PublicData, PublicEncoder
from dpmarket.learning import Categories, Dates, Numbers, YesNo
from dpmarket.learning.rows import Rows, row_scales

COLUMNS = {
    "age": Numbers(20.0, 60.0, missing=40.0),
    "income": Numbers(0.0, 100.0, missing_category=True),
    "job": Categories(("baker", "smith"), other=True),
    "town": Categories(("north", "south"), missing="south"),
    "member": YesNo(missing_category=True),
    "joined": Dates("2000-01-01", "2010-01-01"),
}


def table(count=4):
    return pl.DataFrame(
        {
            "joined": [datetime.date(2005, 1, 1)] * count,
            "age": [20, 60, None, 90][:count] + [40] * (count - 4),
            "income": [50.0, None, 100.0, 0.0][:count] + [10.0] * (count - 4),
            "job": ["baker", "smith", "pilot", "baker"][:count] + ["smith"] * (count - 4),
            "town": ["north", None, "south", "east"][:count] + ["north"] * (count - 4),
            "member": [True, False, None, True][:count] + [False] * (count - 4),
            "secret": ["never read"] * count,
        }
    )


def dense(encoder, frame):
    rows = encoder.fit(frame).transform(frame)
    return rows.toarray() if issparse(rows) else np.asarray(rows)


def test_every_kind_of_column_is_encoded_as_declared():
    encoder = PublicEncoder(COLUMNS, radius=100.0)  # shortens nothing
    names = encoder.get_feature_names_out().tolist()
    assert names == [
        "age", "income", "income=missing", "job=baker", "job=smith", "job=other", "town=north", "town=south",
        "member=yes", "member=missing", "joined",
    ]  # fmt: skip
    rows = dense(encoder, table()) / dense(encoder, table()).max()
    unit = rows.max()
    found = dict(zip(names, (rows / unit).T.round(6).tolist(), strict=True))
    assert found["age"] == [-1.0, 1.0, 0.0, 1.0]  # 90 is outside and limited
    assert found["income"] == [0.0, 0.0, 1.0, -1.0]
    assert found["income=missing"] == [0.0, 1.0, 0.0, 0.0]
    assert found["job=other"] == [0.0, 0.0, 1.0, 0.0]
    assert found["town=south"] == [0.0, 1.0, 1.0, 0.0]
    assert found["town=north"] == [1.0, 0.0, 0.0, 0.0]  # "east" is unknown: no active level
    assert found["member=yes"] == [1.0, 0.0, 0.0, 1.0]
    assert found["member=missing"] == [0.0, 0.0, 1.0, 0.0]
    assert abs(found["joined"][0]) < 0.001


def test_pandas_polars_and_mappings_give_the_same_rows():
    encoder = PublicEncoder(COLUMNS)
    frame = table()
    expected = dense(encoder, frame)
    assert np.array_equal(
        dense(encoder, pd.DataFrame({name: frame[name].to_list() for name in frame.columns})), expected
    )
    assert np.array_equal(dense(encoder, {name: frame[name].to_list() for name in frame.columns}), expected)
    assert np.array_equal(dense(PublicEncoder(COLUMNS, sparse_output=False), frame), expected)


def test_an_array_is_read_in_the_order_of_the_declarations():
    encoder = PublicEncoder({"a": Numbers(0, 1), "b": Categories((1, 2))})
    rows = dense(encoder, np.array([[0.0, 1.0], [1.0, 2.0]]))
    assert np.sign(rows).tolist() == [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    with pytest.raises(InvalidInput, match="array of 2 columns"):
        encoder.fit(np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match="'age'"):
        PublicEncoder(COLUMNS).fit(table().drop("age"))


def test_encoding_a_record_does_not_depend_on_the_others():
    encoder = PublicEncoder(COLUMNS)
    together = dense(encoder, table())
    for k in range(4):
        assert np.array_equal(dense(encoder, table()[k : k + 1])[0], together[k])
    fitted_elsewhere = PublicEncoder(COLUMNS).fit(table(40)[30:])
    assert np.array_equal(fitted_elsewhere.transform(table()).toarray(), together)


def test_values_outside_are_counted_or_refused_and_never_quoted():
    encoder = PublicEncoder(COLUMNS).fit(table())
    assert encoder.outside_counts(table()) == {"age": 1, "town": 1}
    strict = PublicEncoder(COLUMNS, outside="refuse").fit(table())
    with pytest.raises(InvalidInput, match="'age' as declared, found 1 outside") as caught:
        strict.transform(table())
    assert "90" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "mapping"),
        ({"a": {"low": 2.0, "high": 1.0}}, "column 'a': expected low < high"),
        ({"a": {"categories": []}}, "categories that differ"),
        ({"a": {"categories": ["x", "x"]}}, "categories that differ"),
        ({"a": {"categories": "xy"}}, "list of values"),
        ({"a": {"categories": ["x"], "missing": "y"}}, "one of the categories"),
        ({"a": {"low": 0, "high": 1, "missing": 0.5, "missing_category": True}}, "one meaning"),
        ({"a": {"low": 0, "high": 1, "colour": "red"}}, "known settings"),
        ({"a": {"first": "2020-01-02", "last": "2020-01-01"}}, "first < last"),
        ({"a": 3}, "low and high"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(columns, message):
    with pytest.raises(InvalidInput, match=message):
        PublicEncoder(columns).fit(pl.DataFrame({"a": [1.0]}))


def random_columns(rng):
    columns = {f"n{k}": Numbers(-1.0, 1.0) for k in range(rng.integers(0, 6))}
    columns |= {
        f"c{k}": Categories(tuple(range(rng.integers(1, 30))), other=bool(rng.integers(2)))
        for k in range(rng.integers(1, 9))
    }
    return columns


def random_table(columns, rng, count=200):
    return {
        name: rng.normal(size=count).tolist()
        if isinstance(column, Numbers)
        else rng.integers(0, len(column.categories) + 1, count).tolist()
        for name, column in columns.items()
    }


def test_rows_keep_both_bounds_of_the_chosen_shape_exactly():
    rng = np.random.default_rng(0)
    shaped = 0
    for _ in range(20):
        columns = random_columns(rng)
        encoder = PublicEncoder(columns, radius=float(rng.uniform(0.5, 3.0)))
        rows = dense(encoder, random_table(columns, rng))
        norm = encoder.noise_norm()
        shaped += not norm.is_euclidean
        ones = np.ones(len(rows))
        assert row_scales(Rows(rows, ones, ones), norm, clip=True).size == 0
        # The bound is no idle one: a row with everything active comes close to it.
        assert norm.is_euclidean or row_scales(Rows(rows / 0.7, ones, ones), norm, clip=True).min() < 1.0
    assert shaped > 5


def test_the_shape_follows_from_declarations_alone():
    many = {f"c{k}": Categories(tuple("abcdefghij")) for k in range(8)}
    assert PublicEncoder(many).noise_norm().separate == (True,) * 80
    mixed = PublicEncoder(many | {f"n{k}": Numbers(0, 1) for k in range(4)}).noise_norm()
    assert (mixed.n_coefficients, mixed.joint) == (84, 4)
    assert PublicEncoder({f"n{k}": Numbers(0, 1) for k in range(40)}).noise_norm().is_euclidean


def test_public_records_give_declarations():
    pilot = table(60).drop("secret")
    encoder = PublicEncoder.from_public(pilot, most_categories=2)
    columns = encoder.columns
    assert columns["job"].levels == ("baker", "smith", "other")
    assert columns["town"].levels == ("north", "south", "other", "missing")
    ages = pilot["age"].drop_nulls().to_numpy()
    assert columns["age"].low == pytest.approx(ages.mean() - 2 * ages.std())
    assert columns["age"].missing == pytest.approx(ages.mean())
    assert isinstance(columns["member"], YesNo)
    assert isinstance(columns["joined"], Dates)
    encoder.fit_transform(pilot)
    bounds, rows = ([0.0, 0.0], [1.0, 9.0]), [[0.0, 5.0], [1.0, 7.0]]
    data = PublicData(rows, [0, 1], (0, 1), *bounds, "two", "made", feature_names=("a", "b"))
    assert PublicEncoder.from_public(data).columns == {"a": YesNo(), "b": Numbers(4.0, 8.0)}
    with pytest.raises(InvalidInput, match="public records"):
        PublicEncoder.from_public([[1.0]])


def test_an_encoder_survives_json_cloning_and_pickling():
    encoder = PublicEncoder(COLUMNS, radius=2.0, outside="clip").fit(table())
    expected = encoder.transform(table()).toarray()
    again = PublicEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    for copied in (again, clone(encoder), pickle.loads(pickle.dumps(encoder))):
        assert np.array_equal(copied.fit(table()).transform(table()).toarray(), expected)
    for broken in ({}, encoder.to_dict() | {"more": 1}, encoder.to_dict() | {"outside": "ignore"}):
        with pytest.raises(InvalidInput):
            PublicEncoder.from_dict(broken)


def test_no_message_quotes_a_value():
    with pytest.raises(InvalidInput, match="column 'age': expected numbers"):
        PublicEncoder({"age": {"low": 0, "high": 99}}).fit_transform({"age": [10**400]})
    frame = table().with_columns(age=pl.Series(["secret", "1", "2", "3"]))
    with pytest.raises(InvalidInput, match="column 'age': expected numbers") as caught:
        PublicEncoder(COLUMNS).fit(frame).transform(frame)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_yes_or_no_column_reads_words_and_refuses_other_texts():
    rows = PublicEncoder({"a": YesNo()}, sparse_output=False).fit_transform(
        {"a": ["yes", "NO", "ja", "False", "1", "0"]}
    )
    assert (rows[:, 0] > 0.0).tolist() == [True, False, True, False, True, False]
    for word in ("maybe", "perhaps", ""):
        with pytest.raises(InvalidInput, match="other texts"):
            PublicEncoder({"a": YesNo()}).fit_transform({"a": ["yes", word]})
