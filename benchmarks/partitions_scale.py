"""Quote very many sellers on a cluster of two workers: passes, and the most memory of each process.

Slow: ``python benchmarks/partitions_scale.py --sellers 1e8 --partitions 100`` writes about 6 GB beside the
system's temporary files.
"""

import argparse
import itertools
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from _results import Table, at_most, measure, tell
from dpmarket import BuyerObjective, OfflineMechanism, Uniform
from dpmarket.partitions import DaskEngine, quote_partitions

MECHANISM = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1e-4, weight_cap=3.0))


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sellers", type=float, default=1e7)
    parser.add_argument("--partitions", type=int, default=10)
    return parser.parse_args()


def scale():
    options = asked()
    sellers = int(options.sellers)
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tell(f"{sellers:,} reports in {options.partitions} files")
        write_reports(place, sellers, options.partitions)
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            before = most_memory()
            started = time.perf_counter()
            done = quote_partitions(
                f"{place}/reports/*.parquet", place / "quotes", MECHANISM, engine=DaskEngine(client),
                progress=lambda what, share: tell(what),
            )  # fmt: skip
            took = time.perf_counter() - started
            workers = list(client.run(most_memory).values())
    yield Table(
        "Quoting very many sellers on a cluster of two workers",
        ["sellers", "passes", "gathered", "a worker's memory", "the driver's, before and after", "time"],
        [
            [
                f"{sellers:,}",
                at_most(3, done.passes, ".0f"),
                f"{done.gathered:,}",
                at_most(1.0, max(workers), ".2f"),
                f"{before:.2f} and {most_memory():.2f}",
                f"{took:.0f} s",
            ]
        ],
        "Memory is the most that a process ever had, in GB (of 2**30 bytes), as Linux counts it.",
    )


def write_reports(place, sellers, partitions):
    rng = np.random.default_rng(0)
    (place / "reports").mkdir()
    bounds = np.linspace(0, sellers, partitions + 1).astype(np.int64)
    for k, (first, last) in enumerate(itertools.pairwise(bounds)):
        ids = pl.Series(np.arange(first, last)).cast(pl.String).str.pad_start(9, "0")
        table = pl.DataFrame({"id": ids, "cost": rng.uniform(1, 5, int(last - first))})
        table.write_parquet(place / "reports" / f"part-{k:05d}.parquet", compression_level=1)


def most_memory():
    """Return the most memory that this process ever had, in GB."""
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20


if __name__ == "__main__":
    measure(__file__, scale)
