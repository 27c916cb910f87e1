"""Quote many sellers with two source trees in turns: processor time, wall time and peak memory, old and new.

``python benchmarks/quoting_trees.py OLD_SRC NEW_SRC [--sellers 10000000] [--runs 3]``. Every run is a process
of its own with a new ledger; the reports are the same files. Deciding is measured again by itself: what
mechanisms decide is no matter of the ledger. Beside the medians stand the least figures of all runs: what a
machine's other work and its memory's first use add differs between runs of the same tree by half of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from _two_trees import run_with, source_tree

ENDINGS = ("csv", "parquet")
FIGURES = {
    "processor": "processor time, s",
    "user": "processor time outside of the operating system, s",
    "rest": "processor time but for deciding, s",
    "deciding": "processor time of deciding, s",
    "wall": "wall time, s",
    "peak": "peak memory, GB",
    "ledger": "ledger, GB",
}
# Quotes a few sellers first: what is loaded and compiled once is not counted.
WORKER = """\
import json, resource, sys, time
from pathlib import Path
import polars as pl
from dpmarket.campaign import decide_offline, market_template, quote_file, read_market
folder, few, reports = Path(sys.argv[1]), *sys.argv[2:]
prices = {"objective.payment_weight": 0.001, "objective.concentration": 1.0, "objective.noise": 1.0}
def own_time():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
for name, source in (("few", few), ("market", reports)):
    market = folder / f"{name}.toml"
    market.write_text(market_template(prices))
    wall, processor, user = time.perf_counter(), time.process_time(), own_time()
    quote_file(market, source, folder / f"{name}-quotes{Path(source).suffix}", decide_offline)
    wall, processor, user = time.perf_counter() - wall, time.process_time() - processor, own_time() - user
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
read = pl.read_csv if reports.endswith(".csv") else pl.read_parquet
costs = read(reports, columns=["cost"]).get_column("cost").to_numpy()
before = time.process_time()
decide_offline(read_market(market), costs)
deciding = time.process_time() - before
size = sum(path.stat().st_size for path in folder.glob("market.ledger*")) / 1e9
print(json.dumps({"processor": processor, "rest": processor - deciding, "deciding": deciding,
                  "user": user, "wall": wall, "peak": peak, "ledger": size}))
"""


def one_run(tree: Path, few: Path, reports: Path) -> dict[str, float]:
    """Return what quoting a file took with one tree."""
    with tempfile.TemporaryDirectory(dir=reports.parent) as folder:
        state = str(Path(folder) / "state")
        told = run_with(tree, ["-c", WORKER, folder, str(few), str(reports)], DPMARKET_STATE=state)
        return dict(json.loads(told))


def write_reports(path: Path, sellers: int) -> Path:
    """Write a report for each of so many sellers."""
    table = pl.DataFrame({"cost": np.random.default_rng(0).uniform(1, 5, sellers)})
    table = table.select(seller=pl.lit("seller ") + pl.int_range(sellers).cast(str), cost="cost")
    if path.suffix == ".csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=source_tree)
    parser.add_argument("new", type=source_tree)
    parser.add_argument("--sellers", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for ending in ENDINGS:
            few = write_reports(Path(folder) / f"few.{ending}", 100)
            reports = write_reports(Path(folder) / f"reports.{ending}", given.sellers)
            trees = (given.old, given.new)
            runs = [[one_run(tree, few, reports) for tree in trees] for _ in range(given.runs)]
            print(f"\n{given.sellers:,} sellers, {ending}: medians of old, new, new/old; the least")
            for name, words in FIGURES.items():
                old, new = ([pair[side][name] for pair in runs] for side in (0, 1))
                both = [(of(old), of(new)) for of in (median, min)]
                shown = "   ".join(f"{a:7.2f} {b:7.2f} {b / a:5.2f}" for a, b in both)
                print(f"  {shown}   {words}", flush=True)


if __name__ == "__main__":
    main()
