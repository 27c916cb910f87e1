"""The command, also through its installed entry point."""

import json
import subprocess

import numpy as np
import polars as pl
import pytest

from dpmarket import __version__
from dpmarket.files import write_table
from support.commands import COMMAND, run, run_installed


def test_the_version_and_a_usage_are_said():
    assert run_installed("--version").stdout == f"dpmarket {__version__}\n"
    nothing = run(code=2)
    assert "Usage" in nothing.stderr + nothing.stdout


def test_wrong_usage_is_exit_code_2_and_refusals_are_one_line_and_1():
    assert run("costs", "show", code=2).stderr
    assert run("nosuch", code=2).stderr
    refusal = run_installed("costs", "show", "uniform(5, 1)", code=1)
    assert refusal.stderr == "dpmarket: expected low < high, got low=5.0, high=1.0.\n"
    assert refusal.stdout == ""


def test_costs_fit_writes_a_distribution_that_show_reads(tmp_path):
    costs = np.random.default_rng(0).uniform(1, 5, 300)
    write_table(tmp_path / "pilot.csv", pl.DataFrame({"who": [f"p{k}" for k in range(300)], "cost": costs}))
    output = run("costs", "fit", "pilot.csv", "-o", "fit.json", cwd=tmp_path).stdout
    assert "uniform" in output
    shown = json.loads(run("costs", "show", "fit.json", "--json", cwd=tmp_path).stdout)
    assert shown["support"][0] < costs.min()
    assert run("costs", "fit", "pilot.csv", "-o", "fit.json", code=1, cwd=tmp_path).stderr.count("\n") == 1
    run("costs", "fit", "pilot.csv", "-o", "fit.json", "--force", cwd=tmp_path)
    overwriting = run("costs", "fit", "pilot.csv", "-o", "pilot.csv", "--force", code=1, cwd=tmp_path)
    assert "still needed" in overwriting.stderr
    ranked = json.loads(run("costs", "fit", "pilot.csv", "--json", cwd=tmp_path).stdout)
    assert ranked["samples"] == 300
    assert ranked["candidates"][0]["distribution"] == shown["distribution"]


@pytest.mark.parametrize(
    ("content", "words"), [("price\n1\n", "cannot find 'cost'"), ("cost\n" + "-7.125\n" * 30, "30 of 30")]
)
def test_a_bad_pilot_is_refused_in_one_line_that_shows_no_cost(tmp_path, content, words):
    (tmp_path / "pilot.csv").write_text(content)
    refusal = run("costs", "fit", "pilot.csv", "-o", "x.json", code=1, cwd=tmp_path).stderr
    assert words in refusal
    assert refusal.count("\n") == 1
    assert "7.125" not in refusal
    assert not (tmp_path / "x.json").exists()


def test_a_reader_that_goes_away_causes_no_traceback():
    shell = f'"{COMMAND}" costs show "uniform(1, 5)" | head -1'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.stdout
