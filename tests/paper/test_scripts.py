"""Scripts of the paper: what is kept beside them, their rules, and (slow) that they run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import common
import ways
from dpmarket.mechanisms import Objective

ROOT = Path(__file__).parents[2]
SHARED = ("common", "learners", "printed", "records", "ways")
SCRIPTS = sorted(path for path in (ROOT / "paper").glob("*.py") if path.stem not in SHARED)
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_its_kept_table_has_its_settings(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(script)])
    module = __import__(script.stem)
    assert len(script.read_text(encoding="utf-8").splitlines()) < 150
    assert common.is_kept(script.with_suffix(".csv"), module.SETTINGS), "run the script"
    assert script.with_suffix(".svg").exists()
    assert set(module.QUICK) <= set(module.SETTINGS)


def test_all_of_it_is_read_in_an_afternoon():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "paper").glob("*.py"))
    assert lines <= 3000
    assert len(re.findall(r"\w+", PAGE)) <= 4000


def test_the_page_names_every_script_and_no_other():
    named = set(re.findall(r"`(?:paper/)?(\w+)(?:\.py)?`", PAGE))
    assert {path.stem for path in SCRIPTS} <= named
    assert all((ROOT / name).exists() for name in re.findall(r"`(paper/\w+\.py)`", PAGE))


@pytest.mark.parametrize("rule", [ways.FairQuery(60.0), ways.AllIn(60.0)], ids=["FairQuery", "All-in"])
def test_auctions_with_a_budget_keep_it_and_no_misreport_gains(rule):
    costs = ways.COSTS.sample(40, np.random.default_rng(0))
    epsilons, payments = rule.buy(costs)
    assert 0.0 < payments.sum() <= 60.0 + 1e-9
    assert (payments >= costs * epsilons - 1e-12).all()
    for i in range(0, 40, 5):
        for report in np.linspace(1.0, 5.0, 41):
            sold, paid = rule.buy(np.where(np.arange(40) == i, report, costs))
            assert paid[i] - costs[i] * sold[i] <= payments[i] - costs[i] * epsilons[i] + 1e-9


def test_ways_to_buy_spend_the_budget_on_average():
    costs = ways.COSTS.quantile((np.arange(4000) + 0.5) / 4000)
    found = ways.rules(Objective.for_model(11), 4000, 500.0, "linear", 20.0)
    for name, rule in found.items():
        spent = rule.buy(costs)[1].sum()
        if name.startswith(("Fair", "All")):
            assert spent <= 500.0
        else:
            assert spent == pytest.approx(500.0, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_with_small_settings(script):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "paper")])}
    command = [sys.executable, str(script), "--quick"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert common.read(common.QUICK / f"{script.stem}.csv").height > 0
