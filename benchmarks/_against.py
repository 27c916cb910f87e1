"""Quote ten million sellers with this version and with another one, in alternating runs, and tell the ratios.

    python benchmarks/_against.py OTHER/src [SELLERS]

Every run is a process of its own. What counts is the processor's time, which a busy machine hardly changes,
and the largest memory; the first pair of runs compiles and is left out.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

OWN = Path(__file__).parents[1] / "src"
PAIRS = 3
WORDS = ("CPU s", "GB at most", "MB on disk")
RUN = """
import json, resource, sys
from pathlib import Path
from dpmarket.campaign import decide_offline, quote_file
folder, ending = Path(sys.argv[1]), sys.argv[2]
for name in ("market.ledger", f"quotes.{ending}"):
    (folder / name).unlink(missing_ok=True)
quote_file(folder / "market.toml", folder / f"reports.{ending}", folder / f"quotes.{ending}", decide_offline)
used = resource.getrusage(resource.RUSAGE_SELF)
size = (folder / "market.ledger").stat().st_size + (folder / f"quotes.{ending}").stat().st_size
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, size / 2**20]))
"""
MARKET = """
[costs]
distribution = "uniform(1, 5)"
[objective]
payment_weight = 0.001
concentration = 1.0
noise = 1.0
[features]
age = { low = 18, high = 90 }
[label]
values = [0, 1]
"""


def once(source, folder, ending):
    """Return processor seconds, GB of memory and MB on the disk of one run."""
    environment = {**os.environ, "PYTHONPATH": str(source), "DPMARKET_STATE": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, folder, ending],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout))


def main(other, sellers):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules.toml").write_text(MARKET)
        costs = np.random.default_rng(0).uniform(1, 5, sellers)
        reports = pl.DataFrame({"seller": [f"seller {k}" for k in range(sellers)], "cost": costs})
        reports.write_csv(folder / "reports.csv")
        reports.write_parquet(folder / "reports.parquet")
        for ending in ("csv", "parquet"):
            runs = [(once(OWN, folder, ending), once(other, folder, ending)) for _ in range(PAIRS + 1)][1:]
            own, before = (np.min([run[k] for run in runs], axis=0) for k in (0, 1))
            for words, mine, theirs in zip(WORDS, own, before, strict=True):
                print(
                    f"{ending:8} {words:11} {mine:8.2f} {theirs:8.2f}  ratio {mine / theirs:.2f}", flush=True
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
