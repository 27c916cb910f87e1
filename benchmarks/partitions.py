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


SIZES = ((2_000_000, 4), (10_000_000, 10))


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sellers", type=float, help="in place of two and ten million")
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    return parser.parse_args()


ASKED = asked()


def quoting():
    sizes = SIZES if ASKED.sellers is None else ((int(ASKED.sellers), ASKED.partitions),)
    alone, together = [], []
    for sellers, partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            tell(f"{sellers:,} reports in {partitions} files")
            quotes = Quotes(Path(folder), sellers, partitions)
            alone.append(in_threads(quotes))
            together += on_cluster(quotes)
    yield Table(
        "Quoting partitions in threads against polars",
        ["sellers", "files", "polars", "quoting", "ratio", "passes", "gathered", "most memory meanwhile"],
        alone,
        "polars reads the reports and writes the quotes, as fast as it can; memory is the process's.",
    )
    if together:
        yield Table(
            "Quoting partitions on a cluster of two workers against two threads",
            ["sellers", "files", "threads", "cluster", "ratio"],
            together,
        )


class Quotes:
    """Reports in partitions, and what quoting them came to."""

    def __init__(self, place, sellers, partitions):
        self.place, self.size = place, [f"{sellers:,}", str(partitions)]
        write_reports(place, sellers, partitions)
        self.last = {}
        self.quote("quotes", Threads())  # compiles, and says what polars has to write
        self.tables = [pl.read_parquet(path) for path in sorted((place / "quotes").glob("*.parquet"))]

    def quote(self, name, engine):
        """Quote into a new folder of that name."""
        shutil.rmtree(self.place / name, ignore_errors=True)
        pattern = f"{self.place}/reports/*.parquet"
        self.last[name] = quote_partitions(pattern, self.place / name, MECHANISM, engine=engine)

    def copy(self):
        """Do what polars does alone: read the reports, write the quotes."""
        for path, table in zip(sorted((self.place / "reports").iterdir()), self.tables, strict=True):
            pl.read_parquet(path)
            table.write_parquet(self.place / "copy.parquet", compression_level=1, statistics=False)


def in_threads(quotes):
    polars, threads = compare([quotes.copy, lambda: quotes.quote("quotes", Threads())], ASKED.repeat)
    memory = peak_of(lambda: quotes.quote("quotes", Threads()))
    return [
        *quotes.size,
        f"{polars:.2f} s",
        f"{threads:.2f} s",
        at_most(2.5, threads / polars),
        at_most(3, quotes.last["quotes"].passes, ".0f"),
        f"{quotes.last['quotes'].gathered:,}",
        f"{memory / 2**30:.2f} GB",
    ]


def on_cluster(quotes):
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
        quotes.quote("cluster", engine)  # every worker compiles
        if quotes.last["cluster"].digests != quotes.last["quotes"].digests:
            sys.exit("the cluster's quotes are others than the threads'")
        threads, together = compare(
            [lambda: quotes.quote("quotes", Threads(2)), lambda: quotes.quote("cluster", engine)],
            ASKED.repeat,
        )
    yield [*quotes.size, f"{threads:.2f} s", f"{together:.2f} s", at_most(1.5, together / threads)]


def write_reports(place, sellers, partitions):
    rng = np.random.default_rng(0)
    (place / "reports").mkdir()
    bounds = np.linspace(0, sellers, partitions + 1).astype(np.int64)
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
