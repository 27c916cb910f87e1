"""Quotes of many files on two workers of 1.5 GB each, against polars reading and writing the same files.

``SELLERS=1e8 python benchmarks/many_files.py`` takes another number of sellers; files go into ``out/`` and
are deleted at the end. Prices are a population schedule's: the campaign is online.
"""

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from _results import Table, at_most, measure, tell
from distributed import Client, LocalCluster
from dpmarket.campaign.place import place_of
from dpmarket.distributed.purchases import quote_files

SELLERS = int(float(os.environ.get("SELLERS", "1e7")))
EACH = 1_000_000
FOLDER = Path(__file__).parents[1] / "out" / "many-files"
RULES = f"""
[campaign]
name = "many files"
mechanism = "online"

[sellers]
expected = {SELLERS}

[costs]
distribution = "uniform(1, 5)"

[objective]
budget = {SELLERS / 20}
max_epsilon = 1.0

[money]
currency = "EUR"

[features]
age = {{ low = 18, high = 90 }}

[label]
column = "bought"
values = ["no", "yes"]
"""
PEER = """
import sys, pathlib, polars as pl
reports, quotes, out = map(pathlib.Path, sys.argv[1:])
out.mkdir(exist_ok=True)
for name in sorted(one.name for one in reports.iterdir()):
    pl.read_parquet(reports / name)
    pl.read_parquet(quotes / name).write_parquet(out / name)
"""


def write_reports():
    (FOLDER / "reports").mkdir(parents=True)
    (FOLDER / "rules.toml").write_text(RULES)
    for k, first in enumerate(range(0, SELLERS, EACH)):
        size = min(EACH, SELLERS - first)
        ids = pl.select(seller=pl.lit("seller ") + pl.int_range(first, first + size).cast(str))
        table = ids.with_columns(cost=np.random.default_rng(k).uniform(1, 5, size).round(4))
        table.write_parquet(FOLDER / "reports" / f"part-{k:05d}.parquet")


def spent(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"DPMARKET_STATE": str(FOLDER / "state")}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=FOLDER, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def largest_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def quoted(client, reports, quotes):
    """Quote files by the running workers; return processor time of the command's process and of workers."""
    before = time.process_time() + sum(client.run(time.process_time).values())
    place = place_of(FOLDER / "rules.toml", str(FOLDER / f"{quotes}.db"))
    quote_files(place, reports, FOLDER / quotes, client.scheduler.address, confirmed=True)
    return time.process_time() + sum(client.run(time.process_time).values()) - before


def quoting():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.environ["DPMARKET_STATE"] = str(FOLDER / "state")
    try:
        tell(f"writing reports of {SELLERS:,} sellers")
        write_reports()
        workers = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1.5GB"}
        options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
        with LocalCluster(**workers, **options) as cluster, Client(cluster) as client:
            few = pl.read_parquet(FOLDER / "reports" / "part-00000.parquet").head(20_000)
            for k in range(4):
                few[k::4].write_parquet(FOLDER / f"few-{k}.parquet")
            tell("loading modules")
            quoted(client, FOLDER / "few-*.parquet", "few")
            tell("quoting")
            start = time.perf_counter()
            ours = quoted(client, FOLDER / "reports", "quotes")
            seconds = time.perf_counter() - start
            memory = max(client.run(largest_memory).values())
        tell("polars")
        peer = min(spent(PEER, "reports", "quotes", "copy") for _ in range(2))
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    row = [
        f"{SELLERS:,}", f"{seconds:,.0f} s", f"{ours:,.0f} s", f"{peer:,.1f} s",
        at_most(1.5, memory, ".2f"), at_most(3, ours / peer, ".2f"),
    ]  # fmt: skip
    columns = ["sellers", "time", "processor time", "polars", "GB of a worker, at most", "ratio"]
    yield Table("Quoting files on two running workers of 1.5 GB: processor times", columns, [row])


if __name__ == "__main__":
    measure(__file__, quoting)
