"""Processor time of first steps: light commands against importing numpy, and a first quote, compiled."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from _results import Table, at_most, measure, tell

TESTS = Path(__file__).parent.parent / "tests"
COMMAND = "import sys; from dpmarket.cli import main; sys.argv[0] = 'dpmarket'; main()"
LIGHT = {
    "`dpmarket show model.json`": (4, ["show", "model.json"]),
    "`dpmarket verify`, a small certificate": (
        6,
        ["verify", str(TESTS / "certificates" / "files" / "version-2" / "offline.certificate.json")],
    ),
}
RUNS = 7
SELLERS = 500
MARKET = """
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


def spent(arguments: list[str], folder: str, cache: str | None = None) -> float:
    """Return the processor time of a process of its own; with ``cache``, compiled code is kept there."""
    environment = os.environ | {"DPMARKET_STATE": str(Path(folder) / "state")}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_campaign(folder: str) -> None:
    """Write a market file, reports and records."""
    rng = np.random.default_rng(0)
    costs = rng.uniform(1, 5, SELLERS).round(2).tolist()
    records = zip(rng.integers(18, 91, SELLERS).tolist(), rng.choice(["no", "yes"], SELLERS), strict=True)
    reports = ["seller,cost", *(f"s{i},{cost}" for i, cost in enumerate(costs))]
    data = ["seller,age,bought", *(f"s{i},{age},{label}" for i, (age, label) in enumerate(records))]
    for name, text in (("rules.toml", MARKET), ("reports.csv", reports), ("data.csv", data)):
        lines = text if isinstance(text, str) else "\n".join(text) + "\n"
        Path(folder, name).write_text(lines, encoding="utf-8")


def light_commands():
    with tempfile.TemporaryDirectory() as folder:
        write_campaign(folder)
        spent(["-c", COMMAND, "quote", "reports.csv", "-o", "quotes.csv"], folder)
        spent(["-c", COMMAND, "train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json"], folder)
        numpy, rows = [], {name: [] for name in LIGHT}
        for _ in range(RUNS):
            numpy.append(spent(["-c", "import numpy"], folder))
            for name, (_, arguments) in LIGHT.items():
                rows[name].append(spent(["-c", COMMAND, *arguments], folder))
    yield Table(
        "Commands that compile nothing, against `python -c 'import numpy'`: processor time",
        ["command", "numpy", "command takes", "ratio"],
        [
            [
                name,
                f"{min(numpy) * 1e3:.0f} ms",
                f"{min(times) * 1e3:.0f} ms",
                at_most(LIGHT[name][0], min(times) / min(numpy)),
            ]
            for name, times in rows.items()
        ],
        f"The least of {RUNS} runs each, in turns.",
    )


def first_quote():
    tell("the first quote, nothing compiled")
    with tempfile.TemporaryDirectory() as folder:
        write_campaign(folder)
        cache = str(Path(folder) / "compiled")
        words = ["quote", "reports.csv", "--output"]
        first = spent(["-c", COMMAND, *words, "first.csv"], folder, cache)
        second = spent(["-c", COMMAND, *words, "second.csv"], folder, cache)
    yield Table(
        f"`dpmarket quote` for {SELLERS} sellers after installing: processor time, s",
        ["run", "processor time"],
        [["first, compiling", at_most(12, first, ".1f")], ["second", f"{second:.1f}"]],
    )


if __name__ == "__main__":
    measure(__file__, light_commands, first_quote)
