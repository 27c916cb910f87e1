"""What people meet when a file is not what it should be: one line that says where, and no value."""

import json
import tomllib

import pytest

from support.campaigns import make_campaign
from support.commands import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    make_campaign(tmp_path, 12)
    return tmp_path


QUOTE = ("-o", "quotes.csv")


def test_blank_lines_at_the_end_do_no_harm_and_elsewhere_they_do(folder):
    (folder / "blank.csv").write_text("seller,cost\na,1.5\nb,2.5\n\n\n")
    run("quote", "blank.csv", *QUOTE, cwd=folder)
    (folder / "hole.csv").write_text("seller,cost\na,1.5\n\nb,2.5\n")
    said = run("quote", "hole.csv", "-o", "other.csv", cwd=folder, code=1).stderr
    assert "an empty cell in 1 row" in said


def test_init_takes_whatever_the_file_takes(tmp_path):
    run("init", "--set", "features.yearly visits.low=0", "--set", "features.yearly visits.high=50",
        "--set", "features.since.first=2000-01-01", "--set", "features.since.last=2020-01-01",
        "--set", 'features.job.categories=["a", "b"]', cwd=tmp_path)  # fmt: skip
    features = tomllib.loads((tmp_path / "rules.toml").read_text())["features"]
    assert features["yearly visits"] == {"low": 0, "high": 50}
    assert features["job"] == {"categories": ["a", "b"]}
    assert str(features["since"]["first"]) == "2000-01-01"
    said = run("init", "wrong.toml", "--set", "features.height.low=1", cwd=tmp_path, code=1).stderr
    assert "features.height.high: missing" in said
    assert not (tmp_path / "wrong.toml").exists()
    asked = ("--set", "statistics.age.kind=mean", "--set", "statistics.age.low=18", "--set")
    run("init", "asks.toml", *asked, "statistics.age.high=90", cwd=tmp_path)
    assert "features" not in tomllib.loads((tmp_path / "asks.toml").read_text())


def test_what_is_no_id_or_no_address_is_said_in_one_line(folder):
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    for arguments, words in (
        (("statement", "\udcff"), "in UTF-8"),
        (("withdraw", "\udcff"), "in UTF-8"),
        (("withdraw", "nobody"), "No quote"),
        (("statement", "7", "--database", "postgresql://h:notaport/x"), "address"),
        (("statement", "7", "--database", "://"), "address"),
    ):
        said = run(*arguments, cwd=folder, code=1).stderr
        assert words in said
        assert len(said.splitlines()) == 1


def test_a_dry_run_enters_nothing_and_says_what_quote_says(folder):
    dry = json.loads(run("quote", "reports.csv", "--dry-run", "--json", cwd=folder).stdout)
    assert not (folder / "rules.db").exists()
    run("check", "reports.csv", "data.csv", cwd=folder)
    assert not (folder / "rules.db").exists()
    done = json.loads(run("quote", "reports.csv", *QUOTE, "--json", cwd=folder).stdout)
    assert {name: dry[name] for name in dry if name != "state"} == {
        name: done[name] for name in done if name != "state"
    }


def test_money_is_shown_with_its_currency(folder):
    text = (folder / "rules.toml").read_text() + '\n[money]\ncurrency = "CHF"\n'
    (folder / "rules.toml").write_text(text)
    said = run("quote", "reports.csv", *QUOTE, cwd=folder)
    assert " CHF" in said.stdout
    run("train", "data.csv", "-o", "model.json", cwd=folder)
    assert " CHF" in run("payouts", "-o", "payouts.csv", cwd=folder).stdout
    assert " CHF" in run("statement", "007", cwd=folder).stdout
    assert " CHF" in run("show", "rules.db", cwd=folder).stdout
    assert "adds up" in run("check", cwd=folder).stdout
    assert "nothing was missing" in run("repair", cwd=folder).stdout
