"""Inputs built to mislead the estimator: each once harmed a promise, or left it half-written."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpmarket import InvalidInput, PrivateLogisticRegression, PublicScaler
from dpmarket.learning import PrivateBinomialRegression, PrivateLinearRegression, PrivateQuantileRegressor
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import PrivateMean, PrivateShare, SeveralStatistics

RECORDS = 60


def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (RECORDS, 2))
    return x, (x[:, 0] > 0).astype(int)


def model(**options):
    return PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(3), **options)


@pytest.mark.parametrize("twins", [(1, "1"), ("a\0", "a"), (2**63 + 1, 2**63)])
def test_two_people_with_similar_names_are_never_taken_for_one(twins):
    zero, rich = twins
    people = [zero, rich, -1, *(f"p{k}" for k in range(RECORDS - 3))]
    epsilons = dict.fromkeys(people, 0.5) | {zero: 0.0, rich: 5.0}
    released = []
    for row in ([0.7, 0.7], [-0.7, 0.7]):
        x, y = data()
        x[0] = row  # a record of the person with promise 0
        fitted = model(rows_per_person=2).fit(x, y, epsilons=epsilons, people=people)
        released.append(fitted.coef_grid_.tolist())
    assert released[0] == released[1]


def test_labels_in_another_order_do_not_count_with_the_weights_of_others():
    x, y = data()
    frame, labels = pd.DataFrame(x), pd.Series(y)
    with pytest.raises(InvalidInput, match="expected y with the index of X"):
        model(epsilon=1.0).fit(frame, labels[::-1])
    answers = {"one": labels, "two": labels[::-1]}
    several = SeveralStatistics({name: PrivateShare() for name in answers}, epsilon=1.0)
    with pytest.raises(InvalidInput, match="index"):
        several.fit(answers)
    model(epsilon=1.0).fit(frame, labels)
    several.fit({"one": labels, "two": labels})


def test_budgets_per_person_in_another_order_are_not_given_to_others():
    x, y = data()
    people = np.arange(RECORDS) % 3
    budgets = pd.Series({0: 0.1, 1: 3.0, 2: 1.0})
    for given in (budgets.sort_values(), budgets[[1, 2, 0]], budgets.rename({0: 7})):
        with pytest.raises(InvalidInput, match="as a mapping"):
            model(rows_per_person=RECORDS).fit(x, y, epsilons=given, people=people)
        with pytest.raises(InvalidInput, match="as a mapping"):
            PrivateMean(0, 1, rows_per_person=RECORDS).fit(y, epsilons=given, people=people)
    fitted = model(rows_per_person=RECORDS).fit(x, y, epsilons=budgets, people=people)
    assert (fitted.epsilons_ <= budgets).all()


@pytest.mark.parametrize("delta", [None, 1e-3])
def test_records_of_people_without_a_budget_are_not_read_where_nobody_else_has_any(delta):
    x, y = data()
    for first in (0.1, np.nan):
        x[0, 0] = first
        with pytest.raises(InvalidInput, match="record of somebody"):
            model(rows_per_person=RECORDS, delta=delta).fit(x, y, {"ann": 0.0, "bob": 1.0}, ["ann"] * RECORDS)


def test_how_many_records_somebody_with_too_small_a_budget_has_does_not_matter():
    x, y = data()
    budgets = dict.fromkeys(range(RECORDS - 5), 1.0) | {"ann": 1e-7}
    for people in ([*range(RECORDS - 5), *["ann"] * 5], [*range(RECORDS - 5), *range(5)]):
        refused = "ann" not in people
        with pytest.raises(InvalidInput, match="records of one person") if refused else nullcontext():
            model().fit(x, y, budgets, people)


def test_texts_that_numpy_cannot_tell_apart_are_refused():
    x, y = data()
    people = np.array([f"p{k}" for k in range(RECORDS)])
    epsilons = {f"p{k}": 1.0 for k in range(RECORDS)} | {"p1\0": 0.0}
    with pytest.raises(InvalidInput, match="NUL"):
        model().fit(x, y, epsilons=epsilons, people=people)


@pytest.mark.parametrize("y", [["secret"] * 40, np.array(["1.5", "secret"] * 20)], ids=["list", "array"])
def test_no_message_about_labels_that_are_no_numbers_quotes_one(y):
    x = np.zeros((40, 1))
    units = {"center": 0.0, "scale": 1.0, "epsilon": 1.0}
    for model in (
        PrivateLinearRegression(**units),
        PrivateQuantileRegressor(0.5, **units),
        PrivateBinomialRegression(epsilon=1.0),
    ):
        with pytest.raises(InvalidInput, match="expected y to hold numbers only") as refusal:
            model.fit(x, y)
        assert "secret" not in str(refusal.value)


FRAMES = {
    "polars text": lambda: pl.DataFrame({"a": ["secret", "x"], "b": [0.1, 0.2]}),
    "polars categories": lambda: pl.DataFrame({"a": pl.Series(["secret", "x"], dtype=pl.Categorical)}),
    "polars lists": lambda: pl.DataFrame({"a": [["secret"], ["x"]], "b": [0.1, 0.2]}),
    "pandas categories": lambda: pd.DataFrame({"a": pd.Categorical(["secret", "x"])}),
    "objects": lambda: np.array([["secret", 0.1], ["x", 0.2]], dtype=object),
    "too large": lambda: [[10**400], [1]],
}


@pytest.mark.filterwarnings("ignore:X ")  # that there are names, or none
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_no_message_about_a_frame_quotes_a_cell(frame):
    fitted = model(epsilon=1.0).fit(pd.DataFrame({"a": [0.1, 0.2]}), [0, 1])
    for call in (
        lambda x: model(epsilon=1.0).fit(x, [0, 1]),
        lambda x: PublicScaler(0, 1).fit(x),
        fitted.predict,
    ):
        with pytest.raises(InvalidInput) as refusal:
            call(frame())
        assert "secret" not in str(refusal.value)
        assert refusal.value.__cause__ is None
        assert refusal.value.__suppress_context__


@pytest.mark.parametrize(
    "fit",
    [
        lambda x, y: PrivateLogisticRegression(epsilon=1.0).fit(x, y + 0.5 * x[:, 0]),
        lambda x, y: PrivateLogisticRegression(epsilon=1.0).fit(x, np.array(["a", 1] * 30, dtype=object)),
        lambda x, y: PrivateLogisticRegression(epsilon=1.0, classes=[[0], [1, 2]]).fit(x, y),
        lambda x, y: PrivateLogisticRegression(epsilon=1.0, noise_source=42).fit(x, y),
        lambda x, y: model(epsilon=1.0).fit(x, y, people=[[1], [2, 3]] * 30),
        lambda x, y: model(epsilon=1.0).fit(x, y, people=5),
        lambda x, y: model(epsilon=1.0).fit(x, y, people=[{}] * RECORDS),
        lambda x, y: model().fit(x, y, epsilons=np.ma.array(np.ones(RECORDS), mask=[True] * RECORDS)),
        lambda x, y: model(epsilon=1.0).fit(np.ma.array(x, mask=x > 0.4), y),
    ],
)
def test_bad_input_is_refused_as_such(fit):
    with pytest.raises(InvalidInput):
        fit(*data())
