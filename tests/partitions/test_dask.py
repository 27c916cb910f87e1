"""The same quotes on a cluster, whoever dies on the way."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import numpy as np
import pytest

from dpmarket.partitions import DaskEngine, Threads, engine_named, quote_partitions
from support.partitioned import MECHANISM, divided

pytest.importorskip("distributed")


class Deadly:
    """An engine that kills one worker, by its own number, at the beginning of every pass."""

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
    assert len(set(engine.killed)) >= 3
    assert found.digests == expected.digests == again.digests
    assert found.total_payment == expected.total_payment
