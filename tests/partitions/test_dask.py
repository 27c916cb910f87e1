"""The same quotes on a cluster, whoever dies on the way."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from hashlib import sha256

import numpy as np
import polars as pl
import pytest

from dpmarket.learning import PrivateLogisticRegression
from dpmarket.partitions import (
    DaskEngine,
    Threads,
    engine_named,
    fit_partitions,
    kept,
    quote_partitions,
    repartition,
)
from dpmarket.privacy import SeededNoise
from support.partitioned import MECHANISM, divided

pytest.importorskip("distributed")


class Deadly:
    """An engine that kills one worker, by its own number, at the beginning of every pass."""

    keeps = DaskEngine.keeps

    def __init__(self, client):
        self.client, self.killed = client, []

    def _one(self):
        """Return the number of a living worker; one that has just died is not known to be dead at once."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, StopIteration):
                return next(iter(self.client.run(os.getpid).values()))
            time.sleep(0.2)
        raise AssertionError("no worker is left")

    def map(self, function, items, done=lambda: None):
        victim = self._one()

        def first():
            if victim not in self.killed:
                self.killed.append(victim)
                os.kill(victim, signal.SIGKILL)
            done()

        found = DaskEngine(self.client).map(function, items, first)
        deadline = time.monotonic() + 60
        while len(self.client.scheduler_info()["workers"]) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def everywhere(self, function, item):
        DaskEngine(self.client).everywhere(function, item)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("most_gathered", [0, 1 << 21])
def test_a_worker_killed_in_every_pass_changes_nothing(tmp_path, most_gathered):
    from distributed import Client, LocalCluster

    pattern = divided(tmp_path / "in", np.random.default_rng(1), 6)
    options = {"most_gathered": most_gathered}
    expected = quote_partitions(pattern, tmp_path / "threads", MECHANISM, engine=Threads(2), **options)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        engine = Deadly(client)
        found = quote_partitions(pattern, tmp_path / "cluster", MECHANISM, engine=engine, **options)
        address = cluster.scheduler_address.removeprefix("tcp://")
        with engine_named(f"dask://{address}") as named:
            again = quote_partitions(pattern, tmp_path / "named", MECHANISM, engine=named, **options)
        assert set(client.run(lambda: len(kept._kept)).values()) == {0}
    assert len(set(engine.killed)) >= 3
    assert found.digests == expected.digests == again.digests
    assert found.total_payment == expected.total_payment


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_killed_in_every_pass_of_a_training_changes_no_bit(tmp_path):
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(2)
    x = rng.uniform(-0.6, 0.6, size=(3000, 2))
    columns = {"id": np.arange(3000).astype(str), "a": x[:, 0], "b": x[:, 1], "epsilon": 0.7}
    table = pl.DataFrame({**columns, "label": (x[:, 0] > 0.1).astype(int)})
    table.write_parquet(tmp_path / "all.parquet")

    def fitted(name, engine):
        repartition(str(tmp_path / "all.parquet"), tmp_path / name, 6, engine=engine)
        model = PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(1))
        options = {"features": ["a", "b"], "engine": engine}
        done = fit_partitions(model, f"{tmp_path / name}/*.parquet", tmp_path / "work", **options)
        digests = [sha256(path.read_bytes()).hexdigest() for path in sorted((tmp_path / name).iterdir())]
        return digests, model.coef_grid_.tolist(), model.release_plan_, done.passes

    expected = fitted("threads", Threads(2))
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        engine = Deadly(client)
        assert fitted("cluster", engine) == expected
    assert len(set(engine.killed)) >= expected[-1] > 2
