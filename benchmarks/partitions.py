"""Quote partitions as one market, against polars reading the same reports and writing the same quotes.

In turns in one run. ``python benchmarks/partitions.py --sellers 1e8 --partitions 100`` for more, if the disk
allows: reports and quotes of 1e8 sellers take about 6 GB.
"""

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket import BuyerObjective, OfflineMechanism, Uniform
from dpmarket.partitions import DaskEngine, Threads, quote_partitions

MECHANISM = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.0))


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sellers", type=float, default=2e6)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


ASKED = asked()
SELLERS = int(ASKED.sellers)


def quoting():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tell(f"{SELLERS:,} reports in {ASKED.partitions} files")
        write_reports(place)
        written = {}

        def quote(name, engine):
            shutil.rmtree(place / name, ignore_errors=True)
            written[name] = quote_partitions(
                f"{place}/reports/*.parquet", place / name, MECHANISM, engine=engine
            )

        quote("quotes", Threads())  # compiles, and says what polars has to write
        tables = [pl.read_parquet(path) for path in sorted((place / "quotes").glob("*.parquet"))]

        def copy():
            for path, table in zip(sorted((place / "reports").iterdir()), tables, strict=True):
                pl.read_parquet(path)
                table.write_parquet(place / "copy.parquet", compression_level=1, statistics=False)

        polars, threads = compare([copy, lambda: quote("quotes", Threads())], ASKED.repeat)
        memory = peak_of(lambda: quote("quotes", Threads()))
        yield Table(
            "Quoting partitions in threads against polars",
            ["sellers", "polars", "quoting", "ratio", "passes", "gathered", "most memory meanwhile"],
            [
                [
                    f"{SELLERS:,}",
                    f"{polars:.2f} s",
                    f"{threads:.2f} s",
                    at_most(2.5, threads / polars),
                    at_most(3, written["quotes"].passes, ".0f"),
                    f"{written['quotes'].gathered:,}",
                    f"{memory / 2**30:.2f} GB",
                ]
            ],
            "polars reads the reports and writes the quotes, as fast as it can; memory is the process's.",
        )
        yield from on_cluster(quote, written)


def on_cluster(quote, written):
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        engine = DaskEngine(client)
        quote("cluster", engine)  # every worker compiles
        if written["cluster"].digests != written["quotes"].digests:
            sys.exit("the cluster's quotes are others than the threads'")
        threads, cluster_time = compare(
            [lambda: quote("quotes", Threads(2)), lambda: quote("cluster", engine)], ASKED.repeat
        )
    yield Table(
        "Quoting partitions on a cluster of two workers against two threads",
        ["sellers", "threads", "cluster", "ratio"],
        [[f"{SELLERS:,}", f"{threads:.2f} s", f"{cluster_time:.2f} s", at_most(1.5, cluster_time / threads)]],
    )


def write_reports(place):
    rng = np.random.default_rng(0)
    (place / "reports").mkdir()
    bounds = np.linspace(0, SELLERS, ASKED.partitions + 1).astype(np.int64)
    for k, (first, last) in enumerate(itertools.pairwise(bounds)):
        ids = pl.Series(np.arange(first, last)).cast(pl.String).str.pad_start(9, "0")
        table = pl.DataFrame({"id": ids, "cost": rng.uniform(1, 5, int(last - first))})
        table.write_parquet(place / "reports" / f"part-{k:05d}.parquet", compression_level=1)


def peak_of(function):
    """Return the most memory of this process while a function runs, as Linux counts it."""
    Path("/proc/self/clear_refs").write_text("5")
    function()
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


if __name__ == "__main__":
    measure(__file__, quoting)
