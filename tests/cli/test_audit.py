"""The audit commands: a verdict, its evidence, and exit code 1 where a promise is broken."""

import json

import numpy as np
import polars as pl
import pytest

from dpmarket import BuyerObjective, OfflineMechanism, Uniform
from dpmarket.files import write_table
from dpmarket.mechanisms import write_outcome
from support.commands import run, run_installed

COSTS = Uniform(1, 5).sample(30, np.random.default_rng(4))
IDS = ["007", "7", *(f"s{k}" for k in range(28))]
ABOUT = {"currency": ["EUR"] + [None] * 29, "round": ["a round"] + [None] * 29}


def test_truthfulness_of_sellers_who_come_one_by_one():
    options = ("--costs", "uniform(1, 5)", "--payment-weight", "0.01", "--sellers", "25", "--profiles", "1")
    run_ = run("audit", "truthfulness", *options, "--misreports", "20", "--mechanism", "online", "--json")
    data = json.loads(run_.stdout)
    assert data["passed"]
    wrong = run("audit", "truthfulness", *options, "--mechanism", "none", code=2)
    assert "online" in wrong.stderr


def test_truthfulness_prints_a_table_or_json_and_draws(tmp_path):
    options = ("--costs", "uniform(1, 5)", "--payment-weight", "0.1", "--sellers", "4", "--profiles", "1")
    shown = run(
        "audit", "truthfulness", *options, "--misreports", "30", "--figure", "gains.svg", cwd=tmp_path
    ).stdout
    assert "passed" in shown
    assert (tmp_path / "gains.svg").exists()
    again = run("audit", "truthfulness", *options, "--figure", "gains.svg", code=1, cwd=tmp_path)
    assert "exists" in again.stderr
    data = json.loads(run("audit", "truthfulness", *options, "--misreports", "30", "--json").stdout)
    assert data["passed"] is True
    assert 100 < data["lies_tried"] <= 120


@pytest.fixture
def market(tmp_path):
    outcome = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01)).run(COSTS, IDS)
    write_outcome(tmp_path / "outcome.json", outcome)
    amounts = outcome.in_minor_units().amounts
    columns = {
        "seller": IDS,
        "epsilon": outcome.epsilons,
        "payment_minor_units": amounts,
        **ABOUT,
        "minor_units": ["100"] + [None] * 29,
    }
    write_table(tmp_path / "quotes.csv", pl.DataFrame(columns))
    write_table(tmp_path / "quotes.parquet", pl.DataFrame(columns))
    order = np.random.default_rng(0).permutation(30)
    write_table(
        tmp_path / "costs.csv", pl.DataFrame({"seller": [IDS[k] for k in order], "cost": COSTS[order]})
    )
    write_table(tmp_path / "dear.csv", pl.DataFrame({"seller": IDS, "cost": 3.0 * COSTS}))
    write_table(tmp_path / "few.csv", pl.DataFrame({"seller": IDS[1:], "cost": COSTS[1:]}))
    return tmp_path


def test_participation_takes_the_scale_from_the_quotes_and_from_nowhere_else(market):
    """Payments of 1/50 of what is due passed where the audit was told another scale than the market's."""
    outcome = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01)).run(COSTS, IDS)
    amounts = outcome.in_minor_units(10_000).amounts // 50
    columns = {"seller": IDS, "epsilon": outcome.epsilons, "payment_minor_units": amounts}
    told = pl.DataFrame({**columns, **ABOUT, "minor_units": ["10000"] + [None] * 29})
    write_table(market / "poor.csv", told)
    poor = ("audit", "participation", "poor.csv", "costs.csv")
    assert "FAILED" in run(*poor, cwd=market, code=1).stdout
    assert "found 10000 and 100" in run(*poor, "--minor-units", "100", cwd=market, code=1).stderr
    write_table(market / "part.csv", pl.DataFrame(columns))
    part = ("audit", "participation", "part.csv", "costs.csv", "--minor-units", "10000")
    assert "minor_units" in run(*part, cwd=market, code=1).stderr


@pytest.mark.parametrize("decided", ["outcome.json", "quotes.csv", "quotes.parquet"])
def test_participation_matches_sellers_by_id_and_tells_no_cost(market, decided):
    shown = run("audit", "participation", decided, "costs.csv", cwd=market).stdout
    assert "passed" in shown
    lost = run("audit", "participation", decided, "dear.csv", code=1, cwd=market).stdout
    assert "FAILED" in lost
    data = json.loads(run("audit", "participation", decided, "dear.csv", "--json", code=1, cwd=market).stdout)
    assert data["losers_in_minor_units"] > 0
    assert f"{3.0 * COSTS[0]:.4f}" not in lost + json.dumps(data)
    refusal = run("audit", "participation", decided, "few.csv", code=1, cwd=market).stderr
    assert "1 sellers without one" in refusal
    assert refusal.count("\n") == 1


def test_privacy_prints_people_and_verdict(tmp_path):
    two = ("0.5", "0", "4", "--fits", "400")
    shown = run("audit", "privacy", *two, "--figure", "p.png", cwd=tmp_path).stdout
    assert "recomputed spending" in shown
    assert "passed" in shown
    assert (tmp_path / "p.png").exists()
    one = ("audit", "privacy", "2", "0", "0", "--fits", "400", "--processes", "2", "--json")
    data = json.loads(run_installed(*one, cwd=tmp_path).stdout)
    assert data["accounting"]["broken"] == 0
    assert "at least 3" in run("audit", "privacy", "1", "2", code=1).stderr
    assert "processes" in run("audit", "privacy", "1", "2", "3", "--processes", "0", code=1).stderr
