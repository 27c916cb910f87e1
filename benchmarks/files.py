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

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.campaign.rules.template import rules_template
from dpmarket.core.file_campaign import quote_file

SELLERS = 10_000_000
COMMAND = Path(sys.executable).with_name("dpmarket")


def quoting():
    with tempfile.TemporaryDirectory() as name:
        yield from quoting_in(Path(name))


def quoting_in(folder):
    # A budget for ten million people would have to be more than rounding payments up to cents costs.
    text = rules_template().replace("\nbudget = 500.0", "\npayment_weight = 0.001")
    (folder / "rules.toml").write_text(text)
    rows = []
    for ending in ("csv", "parquet"):
        reports, quotes = folder / f"reports.{ending}", folder / f"quotes.{ending}"
        table = pl.DataFrame({"cost": np.random.default_rng(0).uniform(1, 5, SELLERS)})
        table = table.select(seller=pl.lit("seller ") + pl.int_range(SELLERS).cast(str), cost="cost")
        write(table, reports)

        def quote(reports=reports, quotes=quotes):
            (folder / "market.ledger").unlink(missing_ok=True)
            quotes.unlink(missing_ok=True)
            quote_file(folder / "rules.toml", reports, quotes, confirmed=True)

        tell(f"{ending}, first run")
        quote()  # compiles, and makes the file that the peer writes
        result = read(quotes)

        def copy(reports=reports, result=result, ending=ending):
            read(reports)
            write(result, folder / f"copy.{ending}")

        tell(f"{ending}, in turns with the peer")
        ours, peer = compare([quote, copy], repeat=3)
        rows.append([ending, f"{ours:.1f} s", f"{peer:.1f} s", at_most(3, ours / peer)])
    yield Table(
        f"Quoting {SELLERS:,} sellers against polars reading and writing the same files",
        ["files", "quote", "polars", "ratio"],
        rows,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9  # Linux counts in kibibytes
    yield Table(
        f"Peak memory while quoting {SELLERS:,} sellers",
        ["process", "GB"],
        [["this one, the peer's tables included", at_most(6, peak, ".1f")]],
    )


def starting():
    silent = {"stdout": subprocess.DEVNULL, "check": True}
    rows = []
    for option in ("--version", "--help"):
        ours, bare = compare(
            [
                lambda option=option: subprocess.run([COMMAND, option], **silent),
                lambda: subprocess.run([sys.executable, "-c", "pass"], **silent),
            ],
            repeat=15,
        )
        times = [f"{ours * 1e3:.0f} ms", f"{bare * 1e3:.0f} ms"]
        rows.append([f"`dpmarket {option}`", *times, at_most(15, ours / bare, ".1f")])
    yield Table(
        "Starting the command, against `python -c pass`",
        ["command", "time", "`python -c pass`", "ratio"],
        rows,
    )


def read(path):
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


def write(table, path):
    return table.write_csv(path) if path.suffix == ".csv" else table.write_parquet(path)


if __name__ == "__main__":
    measure(__file__, quoting, starting)
