"""A campaign of statistics by the command line, with a backup put back in the middle of it."""

import json

import pytest

from support.campaigns import read_rows, write_rows
from support.commands import run
from support.desks import copy_ledger
from support.statistics import COLUMNS, MEAN, SEVERAL, make_statistic_campaign


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


def bought(folder):
    return [row["seller"] for row in read_rows(folder / "quotes.csv") if float(row["epsilon"]) > 0.0]


@pytest.mark.parametrize("market", [MEAN, SEVERAL])
def test_a_backup_that_is_put_back_buys_no_second_number(tmp_path, market):
    make_statistic_campaign(tmp_path, market=market)

    def do(*arguments, **more):
        return run(*arguments, cwd=tmp_path, **more)

    said = do("quote", "reports.csv", "-o", "quotes.csv").stdout
    assert "the release uses all of it" in said
    assert "rows no longer than" not in said
    copy_ledger(tmp_path / "market.ledger", tmp_path / "backup.ledger")
    rows = [list(row.values()) for row in read_rows(tmp_path / "data.csv")]
    place = next(k for k, row in enumerate(rows) if row[0] in bought(tmp_path))
    for wrong in ("nan", "inf", "", "4711 years"):
        other = [list(row) for row in rows]
        other[place][COLUMNS.index("age")] = wrong
        write_rows(tmp_path / "bad.csv", COLUMNS, other)
        refused = do("release", "bad.csv", "--quotes", "quotes.csv", "-o", "out.json", code=1).stderr
        assert f"line {place + 2}" in refused
        assert "4711" not in refused
    assert not (tmp_path / "out.json").exists()
    said = do("release", "data.csv", "--quotes", "quotes.csv", "-o", "out.json").stdout
    assert "biased towards those who sell cheaply" in said
    shown = do("show", "out.json").stdout
    assert "effective sample size" in shown
    assert "biased towards those who sell cheaply" in shown
    do("certify", "--quotes", "quotes.csv", "-o", "certificate.json", "--openings", "openings.json")
    assert "FAILS" not in do("verify", "certificate.json", "--openings", "openings.json").stdout
    do("release", "data.csv", "--quotes", "quotes.csv", "-o", "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "out.json").read_bytes()

    copy_ledger(tmp_path / "backup.ledger", tmp_path / "market.ledger")
    again = ("release", "data.csv", "--quotes", "quotes.csv", "-o", "second.json")
    refused = do(*again, code=1).stderr
    assert "dpmarket ledger repair market.ledger" in refused
    do("ledger", "repair", "market.ledger")
    assert "sellers are paid" in do(*again, code=1).stderr
    assert not (tmp_path / "second.json").exists()
    paid = json.loads(do("payouts", "-o", "payouts.csv", "--json").stdout)
    assert len(read_rows(tmp_path / "payouts.csv")) == len(bought(tmp_path)), paid
    # What was published before stays what it is.
    assert "FAILS" not in do("verify", "certificate.json", "--openings", "openings.json").stdout


def test_a_plan_for_a_number_says_how_far_off_it_is_and_where_to_announce_it(tmp_path):
    (tmp_path / "market.toml").write_text(MEAN)
    asked = ("plan", "budget", "--costs", "uniform(1, 5)", "--sellers", 1000, "--budget", 20)
    said = run(*asked, "--market", "market.toml", cwd=tmp_path).stdout
    error = json.loads(run(*asked, "--market", "market.toml", "--json", cwd=tmp_path).stdout)
    root = error["expected_error"]["total"] ** 0.5
    assert f"the mean is off by about {root:.3g} in its own unit" in said
    assert "in market.toml, objective.budget = 20, sellers.expected = 1000" in said
    assert "dpmarket init" not in said


def test_a_market_of_numbers_is_shown_without_the_keys_of_models(tmp_path):
    (tmp_path / "market.toml").write_text(MEAN)
    shown = run("show", "market.toml", cwd=tmp_path).stdout
    assert "statistic.kind" in shown
    assert "training.outside_bounds" in shown
    assert "training.radius" not in shown
