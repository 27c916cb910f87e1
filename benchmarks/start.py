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
    "`dpmarket show model.json`": (4, ["show", str(TESTS / "ledger" / "data" / "model.json")]),
    "`dpmarket verify`, a small certificate": (
        6,
        ["verify", str(TESTS / "certificates" / "files" / "version-2" / "offline.certificate.json")],
    ),
}
RUNS = 7
SELLERS = 500


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


def light_commands():
    with tempfile.TemporaryDirectory() as folder:
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
        costs = np.random.default_rng(0).uniform(1, 5, SELLERS).round(2)
        lines = ["seller,cost", *(f"s{i},{cost}" for i, cost in enumerate(costs.tolist()))]
        Path(folder, "reports.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        market = (TESTS / "ledger" / "data" / "market.toml").read_text(encoding="utf-8")
        Path(folder, "market.toml").write_text(market, encoding="utf-8")
        cache = str(Path(folder) / "compiled")
        words = ["quote", "reports.csv", "--again", "--output"]
        first = spent(["-c", COMMAND, *words, "first.csv"], folder, cache)
        second = spent(["-c", COMMAND, *words, "second.csv"], folder, cache)
    yield Table(
        f"`dpmarket quote` for {SELLERS} sellers after installing: processor time, s",
        ["run", "processor time"],
        [["first, compiling", at_most(12, first, ".1f")], ["second", f"{second:.1f}"]],
    )


if __name__ == "__main__":
    measure(__file__, light_commands, first_quote)
