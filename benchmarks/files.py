"""Commands on files, against polars reading and writing the same files, and against starting Python.

Every command is a process of its own, spelled as a user does, so that the time includes its start.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from _results import Table, at_most, measure, tell

SELLERS = int(os.environ.get("SELLERS", "1000000"))
RULES = """
[costs]
distribution = "uniform(1, 5)"

[objective]
payment_weight = 0.001

[features]
age = { low = 18, high = 90 }

[label]
column = "bought"
values = ["no", "yes"]
"""
MAIN = "import sys; from dpmarket.cli import main; sys.argv[0] = 'dpmarket'; main()"
COMMAND = [sys.executable, "-c", MAIN]
PEER = """
import sys, polars as pl
reports, quotes, out = sys.argv[1:]
read = pl.read_csv if reports.endswith("csv") else pl.read_parquet
read(reports)
table = read(quotes)
table.write_csv(out) if out.endswith("csv") else table.write_parquet(out)
"""


def spent(folder, arguments):
    """Run a command to its end; return its processor time."""
    environment = os.environ | {"DPMARKET_STATE": str(folder / "state")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_files(folder, sellers, ending="csv"):
    rng = np.random.default_rng(0)
    ids = pl.select(seller=pl.lit("seller ") + pl.int_range(sellers).cast(str))
    reports = ids.with_columns(cost=rng.uniform(1, 5, sellers).round(2))
    bought = np.where(rng.random(sellers) < 0.5, "no", "yes")
    data = ids.with_columns(age=rng.integers(18, 91, sellers), bought=bought)
    (folder / "rules.toml").write_text(RULES)
    for name, table in (("reports", reports), ("data", data)):
        path = folder / f"{name}.{ending}"
        table.write_csv(path) if ending == "csv" else table.write_parquet(path)


def quoting():
    rows = []
    for ending in ("csv", "parquet"):
        tell(f"{ending}, {SELLERS:,} sellers")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder, SELLERS, ending)
            start = time.perf_counter()
            ours = spent(folder, [*COMMAND, "quote", f"reports.{ending}", "-o", f"quotes.{ending}"])
            seconds = time.perf_counter() - start
            files = [f"{name}.{ending}" for name in ("reports", "quotes", "copy")]
            peer = min(spent(folder, [sys.executable, "-c", PEER, *files]) for _ in range(3))
        each = 1e6 * ours / SELLERS
        rows.append([ending, f"{seconds:.1f} s", at_most(10, each, ".1f"), f"{ours / peer:.1f}"])
    yield Table(
        f"`dpmarket quote` of {SELLERS:,} sellers",
        ["files", "time", "processor seconds a million sellers", "in times of polars' reading and writing"],
        rows,
    )


def starting():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, 500)
        first = spent(folder, [*COMMAND, "quote", "reports.csv", "-o", "quotes.csv"])
        spent(folder, [*COMMAND, "train", "data.csv", "-o", "model.json"])
        aims = {("--help",): 4, ("show", "model.json"): 4}
        numpy, times = [], {words: [] for words in aims}
        for _ in range(7):
            numpy.append(spent(folder, [sys.executable, "-c", "import numpy"]))
            for words, taken in times.items():
                taken.append(spent(folder, [*COMMAND, *words]))
    rows = [
        [
            f"`dpmarket {' '.join(words)}`",
            f"{min(taken) * 1e3:.0f} ms",
            at_most(aims[words], min(taken) / min(numpy)),
        ]
        for words, taken in times.items()
    ]
    ratio = at_most(40, first / min(numpy), ".1f")
    rows.append(["`dpmarket quote` of 500 sellers", f"{first * 1e3:,.0f} ms", ratio])
    yield Table(
        "Starting a command, against `python -c 'import numpy'`: processor time",
        ["command", "processor time", "ratio"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, quoting, starting)
