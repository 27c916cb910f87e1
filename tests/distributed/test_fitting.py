"""A fit over partitions is the fit of the same records in memory; a worker may die in it."""

import os
import signal
import threading
import time

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed

from dpmarket import learning, statistics
from dpmarket.distributed import fit
from dpmarket.errors import InvalidInput
from dpmarket.privacy import Account, SeededNoise

N = 600
FEATURES = ["a", "b", "c"]
MODELS = {
    "logistic": lambda **more: learning.PrivateLogisticRegression(classes=("no", "yes"), **more),
    "softmax": lambda **more: learning.PrivateLogisticRegression(classes=(0, 1, 2), **more),
    "hinge": lambda **more: learning.PrivateLinearSVC(classes=("no", "yes"), **more),
    "regression": lambda **more: learning.PrivateLinearRegression(0.0, 1.0, **more),
    "quantile": lambda **more: learning.PrivateQuantileRegressor(0.8, 0.0, 1.0, **more),
    "shares": lambda **more: learning.PrivateBinomialRegression(**more),
}
TARGETS = {"softmax": "three", "regression": "number", "quantile": "number", "shares": "part"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.5, 0.5, (N, 3))
    score = 4.0 * x[:, 0] + rng.normal(size=N)
    found = pd.DataFrame(x, columns=FEATURES)
    return found.assign(
        two=np.where(score > 0, "yes", "no"), three=np.digitize(score, [-1, 1]), number=score,
        part=1.0 / (1.0 + np.exp(-score)), epsilon=rng.uniform(0.1, 2.0, N) * (rng.random(N) < 0.9),
    )  # fmt: skip


def in_memory(model, table, target, **more):
    return model.fit(table[FEATURES], table[target], epsilons=table["epsilon"].to_numpy(), **more)


@pytest.mark.parametrize(
    ("kind", "delta"), [*((kind, None) for kind in MODELS), ("softmax", 1e-5), ("regression", 1e-5)]
)
def test_four_partitions_release_the_coefficients_of_one_machine(kind, delta, table, client):
    target = TARGETS.get(kind, "two")
    local = in_memory(MODELS[kind](delta=delta, noise_source=SeededNoise(1)), table, target)
    model = MODELS[kind](delta=delta, noise_source=SeededNoise(1))
    parts = fit(model, dd.from_pandas(table, npartitions=4), FEATURES, target, epsilons="epsilon")
    if delta is None:
        assert np.abs(parts.coef_grid_ - local.coef_grid_).max() <= 1
    np.testing.assert_allclose(parts.coef_, local.coef_, atol=0.0 if delta is None else 1e-12)
    assert np.array_equal(parts.epsilons_, local.epsilons_)
    assert (parts.epsilons_ <= table["epsilon"]).all()
    assert parts.description_ == local.description_ or delta is not None


def test_people_with_several_records_have_the_weights_of_one_machine(table, client):
    people = np.array([f"person {k}" for k in np.sort(np.arange(N) % 250)])
    epsilons = {who: 0.2 + 0.001 * k for k, who in enumerate(dict.fromkeys(people))}
    own = table.assign(who=people, epsilon=[epsilons[who] for who in people])
    options = {"rows_per_person": 3, "noise_source": SeededNoise(2)}
    local = MODELS["logistic"](**options).fit(own[FEATURES], own["two"], epsilons, people)
    by_person = dd.from_delayed([delayed(own[own["epsilon"] * 1000 // 1 % 3 == k]) for k in range(3)])
    account = Account(dict.fromkeys(epsilons, 1.0))
    model = MODELS["logistic"](**options)
    fit(model, by_person, FEATURES, "two", epsilons="epsilon", people="who", account=account)
    order = [local.people_.index(who) for who in model.people_]
    assert np.abs(model.coef_grid_ - local.coef_grid_).max() <= 1
    assert np.array_equal(model.epsilons_, local.epsilons_[order])
    assert (account.spent(model.people_) == model.epsilons_).all()


def test_a_person_in_two_partitions_is_refused_also_where_one_names_people_by_floats(table, client):
    """A column of whole numbers becomes one of floats where a partition once had a gap."""
    first, second = (
        table[k::2].assign(who=np.arange(N // 2).astype(kind)) for k, kind in enumerate((int, float))
    )
    parts = dd.from_delayed([delayed(first), delayed(second)], meta=first, verify_meta=False)
    with pytest.raises(InvalidInput, match="in one partition"):
        fit(MODELS["logistic"](epsilon=1.0), parts, FEATURES, "two", people="who")


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (learning.PrivateLogisticRegression(epsilon=1.0), {}, "declared classes"),
        (learning.PrivateLogisticRegression(classes=("no", "yes")), {}, "column of epsilons"),
        (learning.PrivateLogisticRegression(classes=("no", "yes"), epsilon=1.0), {"people": "x"}, "'x'"),
        (learning.PrivateLogisticRegression(classes=("no", "maybe"), epsilon=1.0), {}, "one of the classes"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_sentence(model, options, words, table, client):
    account = Account(dict.fromkeys(range(N), 5.0))
    with pytest.raises(InvalidInput, match=words):
        fit(model, dd.from_pandas(table, npartitions=2), FEATURES, "two", account=account, **options)
    assert not hasattr(model, "coef_")
    assert not account.spent(range(N)).any()


def test_statistics_over_partitions_are_those_of_one_machine(table, client):
    own = table.assign(yes=table["two"] == "yes")
    columns = {
        "mean": "number",
        "share": "yes",
        "histogram": "three",
        "quantile": "number",
        "vector": ["a", "b"],
    }

    def several():
        parts = {
            "mean": statistics.PrivateMean(-5, 5),
            "share": statistics.PrivateShare(),
            "histogram": statistics.PrivateHistogram((0, 1, 2)),
            "quantile": statistics.PrivateQuantile(0.5, range(-5, 6)),
            "vector": statistics.PrivateVectorMean(("x", "y"), 1.0),
        }
        for one in parts.values():
            one.noise_source = SeededNoise(5)
        return statistics.SeveralStatistics(parts)

    records = {name: own[column].to_numpy() for name, column in columns.items()}
    local = several().fit(records, own["epsilon"].to_numpy())
    found = fit(several(), dd.from_pandas(own, npartitions=4), columns, epsilons="epsilon")
    assert found.releases_ == local.releases_
    assert np.array_equal(found.epsilons_, local.epsilons_)


@pytest.mark.parametrize("several", [False, True])
def test_statistics_charge_people_by_their_names(several, table, client):
    names = [f"person {k}" for k in range(N)]
    account, mean = Account(1.5), statistics.PrivateMean(-5, 5, epsilon=1.0)
    asked = statistics.SeveralStatistics({"mean": mean}, epsilon=1.0) if several else mean
    columns = {"mean": "number"} if several else "number"
    parts = dd.from_pandas(table.assign(who=names), npartitions=2)
    fit(asked, parts, columns, people="who", account=account)
    assert (account.spent(names) == asked.epsilons_).all()
    assert (account.left(range(N)) == 1.5).all()


def test_a_worker_killed_in_a_pass_changes_nothing(table, client):
    local = in_memory(MODELS["logistic"](noise_source=SeededNoise(4), delta=1e-5), table, "two")
    model = MODELS["logistic"](noise_source=SeededNoise(4), delta=1e-5)
    before = set(client.run(os.getpid).values())

    def kill():
        time.sleep(0.5)
        os.kill(min(before), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    fit(model, dd.from_pandas(table, npartitions=4), FEATURES, "two", epsilons="epsilon")
    killer.join()
    client.wait_for_workers(2)
    assert set(client.run(os.getpid).values()) != before
    np.testing.assert_allclose(model.coef_, local.coef_, atol=1e-12)
