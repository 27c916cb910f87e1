"""Quote ten million rows against polars reading and writing the same files; how fast the command answers.

Quoting reads the reports, checks them, decides promises and payments, enters every promise in the ledger and
writes the quotes. The peer reads the same reports and writes the same quotes, and does nothing else.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from _timing import best_seconds, compare, print_table
from dpmarket.campaign import decide_offline, market_template, quote_file

SELLERS = 10_000_000
COMMAND = Path(sys.executable).with_name("dpmarket")


def main():
    with tempfile.TemporaryDirectory() as name:
        quoting(Path(name))
    starting()


def quoting(folder):
    (folder / "market.toml").write_text(market_template())
    rows = []
    for ending in ("csv", "parquet"):
        reports, quotes = folder / f"reports.{ending}", folder / f"quotes.{ending}"
        table = pl.DataFrame({"cost": np.random.default_rng(0).uniform(1, 5, SELLERS)})
        table = table.select(seller=pl.lit("seller ") + pl.int_range(SELLERS).cast(str), cost="cost")
        write(table, reports)

        def quote(reports=reports, quotes=quotes):
            (folder / "market.ledger").unlink(missing_ok=True)
            quotes.unlink(missing_ok=True)
            quote_file(folder / "market.toml", reports, quotes, decide_offline)

        quote()  # compiles, and makes the file that the peer writes
        result = read(quotes)

        def copy(reports=reports, result=result, ending=ending):
            read(reports)
            write(result, folder / f"copy.{ending}")

        ours, peer = compare([quote, copy], repeat=5)
        rows.append([ending, f"{ours:.1f} s", f"{peer:.1f} s", f"{ours / peer:.2f}", "3"])
    print_table(
        f"Quoting {SELLERS:,} sellers against polars reading and writing the same files",
        ["files", "quote", "polars", "ratio", "aim"],
        rows,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of this process, the peer's tables included: {peak:.1f} GB (aim 6)")


def starting():
    silent = {"stdout": subprocess.DEVNULL, "check": True}
    bare = best_seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], **silent), 15)
    rows = []
    for option in ("--version", "--help"):
        ours = best_seconds(lambda option=option: subprocess.run([COMMAND, option], **silent), 15)
        rows.append([f"dpmarket {option}", f"{ours * 1e3:.0f} ms", f"{ours / bare:.1f}", "15"])
    print_table(
        f"Starting, against python -c pass ({bare * 1e3:.0f} ms)", ["command", "time", "ratio", "aim"], rows
    )


def read(path):
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


def write(table, path):
    return table.write_csv(path) if path.suffix == ".csv" else table.write_parquet(path)


if __name__ == "__main__":
    main()
