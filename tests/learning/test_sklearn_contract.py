"""scikit-learn's contract: its own checks, pipelines, cross-validation with metadata."""

import warnings

import numpy as np
import pandas
import polars
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from dpmarket.errors import InvalidInput
from dpmarket.learning import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PublicEncoder,
    PublicScaler,
    estimator,
    make_private_pipeline,
)
from dpmarket.privacy import Account
from dpmarket.privacy.noise import SeededNoise


def records(count=200):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 100.0, (count, 3))
    return x, (x[:, 0] > 50.0).astype(int)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline(**settings):
    model = PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(0), **settings)
    return make_pipeline(PublicScaler(0.0, 100.0), model.set_fit_request(epsilons=True, people=True))


def test_owners_and_a_mapping_go_through_a_cross_validation(routing):
    x, y = records()
    people = np.array([f"p{k // 2}" for k in range(len(x))])
    promises = {f"p{k}": 0.5 + k / 100 for k in range(100)}
    params = {"epsilons": promises, "people": people}
    result = cross_validate(pipeline(rows_per_person=2), x, y, params=params, return_estimator=True)
    for fitted in result["estimator"]:
        np.testing.assert_allclose(fitted[-1].epsilons_, list(promises.values()), rtol=1e-5)


def test_a_cross_validation_says_once_that_every_fold_spends():
    x, y = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2)), np.arange(200) % 2
    model = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1))
    estimator._say_that_folds_spend.cache_clear()
    with warnings.catch_warnings(record=True, action="default") as said:
        model.fit(x, y)
        assert said == []
        cross_validate(model, x, y, cv=4)
    assert len(said) == 1
    assert "Every fold" in str(said[0].message)


def test_an_account_in_a_cross_validation_charges_the_people_of_each_fold():
    x, y = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2)), np.arange(200) % 2
    account = Account(9.0)
    same = {"X": x, "y": y, "cv": 4, "error_score": "raise"}
    for model in (
        PrivateLogisticRegression((0, 1), epsilon=1.0),
        PrivateLinearRegression(0.0, 1.0, epsilon=1.0),
    ):
        with pytest.raises(InvalidInput, match="expected people with an account"):
            cross_validate(model, **same, params={"account": account})
        assert not account.spent(range(200)).any()
    people = np.array([f"p{k}" for k in range(200)])
    model = PrivateLogisticRegression(classes=(0, 1), epsilon=1.0)
    cross_validate(model, **same, params={"account": account, "people": people})
    np.testing.assert_allclose(account.spent(people), 3.0, rtol=1e-5)


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_budgets_and_owners_may_be_columns_of_a_data_frame(frame):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.5, 0.5, (60, 2)), np.arange(60) % 2
    budgets, owners = np.repeat(rng.uniform(0.5, 2.0, 30), 2), np.repeat([f"p{k}" for k in range(30)], 2)
    table = frame({"eps": budgets, "a": x[:, 0], "b": x[:, 1], "who": owners})
    model = PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(0), rows_per_person=2)
    by_name = clone(model).fit(table, y, epsilons="eps", people="who")
    mapping = dict(zip(owners, budgets, strict=True))
    given = clone(model).fit(x, y, epsilons=mapping, people=owners)
    assert (by_name.coef_grid_ == given.coef_grid_).all()
    assert by_name.feature_names_in_.tolist() == ["a", "b"]
    one_each = clone(model).fit(table[["eps", "a", "b"]], y, epsilons="eps")
    assert (one_each.coef_grid_ == clone(model).fit(x, y, epsilons=budgets).coef_grid_).all()
    for wrong, words in (({"epsilons": "none"}, "columns of X"), ({"people": "none"}, "columns of X")):
        with pytest.raises(InvalidInput, match=words):
            clone(model).fit(table, y, **wrong)
    torn = frame({"eps": np.arange(60) + 1.0, "a": x[:, 0], "who": owners})
    with pytest.raises(InvalidInput, match="same epsilon in all rows of a person"):
        clone(model).fit(torn, y, epsilons="eps", people="who")


def test_a_private_pipeline_has_the_encoders_norm_or_is_refused():
    encoder = PublicEncoder({"job": {"categories": ["baker", "smith"]}, "age": {"low": 0, "high": 99}})
    table = polars.DataFrame({"job": ["baker", "smith"] * 100, "age": [30, 40] * 100})
    model = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1), noise_source=SeededNoise(0))
    made = make_private_pipeline(encoder, model)
    assert made.fit(table, [0, 1] * 100)[-1].release_.norm.separate == encoder.noise_norm().separate
    assert model.noise_norm is None
    named = clone(encoder).set_params(sparse_output=False).set_output(transform="pandas")
    fitted = make_private_pipeline(named, model).fit(table, [0, 1] * 100)[-1]
    assert fitted.summary().names == ("job=baker", "job=smith", "age", "intercept")
    assert np.array_equal(fitted.coef_, made[-1].coef_)
    with pytest.raises(InvalidInput, match="one PublicEncoder, in place of ColumnTransformer"):
        make_private_pipeline(ColumnTransformer([("all", encoder, ["job", "age"])]), model)
    with pytest.raises(InvalidInput, match="without a noise_norm"):
        make_private_pipeline(PublicEncoder({"age": {"low": 0, "high": 99}}), made[-1])
