"""Quotes of partitions are the quotes of one machine, and no partition moves its own prices."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dpmarket as dpm
from dpmarket.distributed import quote
from dpmarket.distributed.repartition import repartition
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.mechanisms import CrossPricedMechanism, posted_price

MECHANISM = CrossPricedMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(10), budget=100.0)


def reports(n=400):
    costs = np.random.default_rng(1).uniform(1, 5, n)
    return pd.DataFrame({"id": [f"seller {k}" for k in range(n)], "cost": costs})


def test_partitions_are_quoted_as_one_table(client):
    table = reports()
    schedule = dpm.population_schedule(dpm.Uniform(1, 5), dpm.Objective.for_model(10), 400)
    quoted, prices = quote(dd.from_pandas(table, npartitions=7), schedule, seller="id")
    assert prices is None
    crossed, prices = quote(dd.from_pandas(table, npartitions=5), MECHANISM, seller="id")
    outcome, _ = MECHANISM.run(table["id"], table["cost"], salt=prices.salt)
    wanted = schedule.quote(table["cost"]), (outcome.epsilons, outcome.payments)
    for found, (epsilons, payments) in zip((quoted.compute(), crossed.compute()), wanted, strict=True):
        assert np.array_equal(found["epsilon"], epsilons)
        assert np.array_equal(found["payment"], payments)


def test_an_id_that_one_partition_has_as_a_whole_number_and_one_as_a_float_is_refused(client):
    halves = [pd.DataFrame({"seller": ids, "cost": 2.0}) for ids in (np.arange(40), np.arange(40) * 1.0)]
    with pytest.raises(InvalidInput, match="40 ids stand in two"):
        quote(dd.from_map(lambda k: halves[k], [0, 1]), posted_price(3.0, 0.5), seller="seller")


def test_repartition_puts_the_rows_of_a_person_into_one_file(tmp_path, client):
    rows = pd.DataFrame({"id": [f"p{k % 40}" for k in range(120)], "x": np.arange(120.0)})
    for k in range(3):
        rows[k::3].to_parquet(tmp_path / f"{k}.parquet")
    address = client.scheduler.address
    assert repartition(tmp_path / "*.parquet", tmp_path / "by-person", "id", files=4, where=address) == 4
    parts = [pd.read_parquet(one)[["id", "x"]] for one in sorted((tmp_path / "by-person").iterdir())]
    ids = [set(part["id"]) for part in parts]
    assert sum(map(len, ids)) == 40
    together = pd.concat(parts).sort_values("x", ignore_index=True)
    assert together.to_dict("list") == rows.to_dict("list")
    with pytest.raises(FileProblem, match="exists"):
        repartition(tmp_path / "*.parquet", tmp_path / "by-person", "id", where=address)
    with pytest.raises(FileProblem, match="'seller' not found"):
        repartition(tmp_path / "*.parquet", tmp_path / "other", "seller", where=address)
    assert not (tmp_path / "other").exists()
