"""What people meet when a file is not what it should be: one line that says where, and no value."""

import json
import os
import re
import shlex
import threading
import tomllib
from datetime import datetime

import pytest

from dpmarket.ledger.engine import command_for
from support.campaigns import make_campaign, read_rows
from support.commands import run
from support.desks import copy_ledger


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    make_campaign(tmp_path, 12)
    return tmp_path


QUOTE = ("-o", "quotes.csv")


def test_reports_may_come_through_a_pipe(folder):
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    data = (folder / "reports.csv").read_bytes()
    writer = threading.Thread(target=lambda: pipe.write_bytes(data))
    writer.start()
    run("quote", "pipe", *QUOTE, cwd=folder)
    writer.join()
    assert (folder / "quotes.csv").read_bytes().count(b"\n") == 13


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/dev/null", "/dev/null: the file is empty"),
        (".", "it is a folder"),
        ("nowhere.csv", "there is no such file"),
    ],
)
def test_what_is_no_file_of_reports_is_named(folder, source, words):
    said = run("quote", source, *QUOTE, cwd=folder, code=1).stderr
    assert words in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"seller,cost\na,1.75\nb,2.75,3.75\n", "line 3 has 3 cells, the header row 2"),
        (b"seller,cost\na,1.75\nZo\xeb,2.75\n", "line 3 is no text in UTF-8"),
    ],
)
def test_rows_that_cannot_be_read_are_named_by_their_line(folder, content, words):
    (folder / "reports.csv").write_bytes(content)
    said = run("quote", "reports.csv", *QUOTE, cwd=folder, code=1).stderr
    assert words in said
    assert "2.75" not in said
    assert not (folder / "market.ledger").exists()


def test_blank_lines_at_the_end_do_no_harm_and_elsewhere_they_do(folder):
    (folder / "blank.csv").write_text("seller,cost\na,1.5\nb,2.5\n\n\n")
    run("quote", "blank.csv", *QUOTE, cwd=folder)
    (folder / "hole.csv").write_text("seller,cost\na,1.5\n\nb,2.5\n")
    said = run("quote", "hole.csv", "-o", "other.csv", cwd=folder, code=1).stderr
    assert "an empty cell in 1 row" in said


def test_init_sets_bounds_of_features_and_lets_columns_be_used_otherwise(tmp_path):
    run("init", "--set", "features.age.low=17", "--set", "features.yearly visits.low=0",
        "--set", "features.yearly visits.high=50", cwd=tmp_path)  # fmt: skip
    features = tomllib.loads((tmp_path / "market.toml").read_text())["features"]
    assert features["age"] == {"low": 17, "high": 90.0}
    assert features["yearly visits"] == {"low": 0, "high": 50}
    run("init", "label.toml", "--set", "label.column=income", cwd=tmp_path)
    data = tomllib.loads((tmp_path / "label.toml").read_text())
    assert data["label"]["column"] == "income"
    assert "income" not in data["features"]
    said = run("init", "wrong.toml", "--set", "features.height.low=1", cwd=tmp_path, code=1).stderr
    assert "features.height.high: missing" in said
    assert not (tmp_path / "wrong.toml").exists()


def test_what_is_no_id_or_no_address_is_said_in_one_line(folder):
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    market = (folder / "market.toml").read_text()
    (folder / "named.toml").write_text(market + '\n[ledger]\ncampaign = "c"\n')
    for arguments, words in (
        (("statement", "\udcff"), "in UTF-8"),
        (("withdraw", "\udcff", "--quotes", "quotes.csv"), "in UTF-8"),
        (("statement", "7", "-m", "named.toml", "--ledger", "postgresql://h:notaport/x"), "address"),
        (("statement", "7", "-m", "named.toml", "--ledger", "://"), "address"),
    ):
        said = run(*arguments, cwd=folder, code=1).stderr
        assert words in said
        assert len(said.splitlines()) == 1


def test_a_file_that_is_no_ledger_is_left_as_it_is(folder):
    (folder / "empty.ledger").write_text("")
    (folder / "reports.csv").chmod(0o644)
    for name in ("empty.ledger", "reports.csv"):
        path = folder / name
        before, mode = path.read_bytes(), path.stat().st_mode
        assert "no ledger" in run("ledger", "check", name, cwd=folder, code=1).stderr
        assert (path.read_bytes(), path.stat().st_mode) == (before, mode)
    text = (folder / "market.toml").read_text() + '\n[ledger]\ncampaign = "c"\n'
    (folder / "market.toml").write_text(text)
    said = run("quote", "reports.csv", *QUOTE, "--ledger", "data.csv", cwd=folder, code=1).stderr
    assert "not a database" in said
    assert oct((folder / "data.csv").stat().st_mode)[-3:] != "600"


def test_a_password_in_a_ledgers_address_is_not_shown(folder):
    text = '\n[ledger]\nurl = "postgresql://ann:s3cret@host/db"\ncampaign = "c"\n'
    (folder / "market.toml").write_text((folder / "market.toml").read_text() + text)
    for flags in ((), ("--json",)):
        said = run("show", "market.toml", *flags, cwd=folder).stdout
        assert "ann:***@host" in said
        assert "s3cret" not in said


def test_money_is_shown_with_its_currency(folder):
    text = (folder / "market.toml").read_text() + '\n[money]\ncurrency = "CHF"\n'
    (folder / "market.toml").write_text(text)
    said = run("quote", "reports.csv", *QUOTE, cwd=folder)
    assert " CHF" in said.stdout
    assert " CHF" in run("show", "quotes.csv", cwd=folder).stdout
    run("train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json", cwd=folder)
    assert " CHF" in run("payouts", "-o", "payouts.csv", cwd=folder).stdout
    assert " CHF" in run("statement", "007", cwd=folder).stdout
    assert " CHF" in run("show", "market.ledger", cwd=folder).stdout
    said = run("ledger", "check", "market.ledger", cwd=folder).stdout
    assert "adds up" in said
    assert "trainings entered as spent" in run("ledger", "repair", "market.ledger", cwd=folder).stdout


def test_the_pilots_people_are_spoken_of_where_a_distribution_is_fitted_and_a_market_begun(tmp_path):
    rows = "".join(f"{1 + k / 50}\n" for k in range(100))
    (tmp_path / "pilot.csv").write_text("cost\n" + rows)
    assert "must not be sellers" in run("costs", "fit", "pilot.csv", cwd=tmp_path).stdout
    run("init", cwd=tmp_path)
    assert "sellers.excluded" in (tmp_path / "market.toml").read_text()


def test_a_backup_that_was_put_back_is_repaired_by_the_command_that_the_refusal_names(folder):
    def refused(*arguments):
        said = run(*arguments, cwd=folder, code=1).stderr
        assert len(said.splitlines()) == 1
        return said

    train = ("train", "data.csv", "--quotes", "quotes.csv", "-o")
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    copy_ledger(folder / "market.ledger", folder / "my backup.ledger")
    run("withdraw", "007", "--quotes", "quotes.csv", cwd=folder)
    run(*train, "model.json", cwd=folder)
    run("payouts", "-o", "payouts.csv", cwd=folder)
    run("payouts", "--confirmed", "payouts.csv", cwd=folder)
    before = run("show", "market.ledger", "--json", cwd=folder).stdout
    copy_ledger(folder / "my backup.ledger", folder / "market.ledger")

    shown = run("show", "market.ledger", cwd=folder).stdout
    assert "no: see 'dpmarket ledger check market.ledger'" in shown
    for arguments in (
        (*train, "second.json"),
        ("payouts", "-o", "second.csv"),
        ("quote", "reports.csv", "-o", "second.csv"),
        ("withdraw", "7", "--quotes", "quotes.csv"),
    ):
        assert "'dpmarket ledger repair market.ledger'" in refused(*arguments)
    named = re.search(r"'dpmarket (ledger repair .*?)' enters everything", refused(*train, "second.json"))
    assert "withdrawals that were not known" in run(*shlex.split(named[1]), cwd=folder).stdout

    assert "sellers are paid" in refused(*train, "second.json")
    assert not (folder / "second.json").exists()
    assert "paid out already" in refused("payouts", "-o", "second.csv")
    run("payouts", "--repeat", 1, "-o", "second.csv", cwd=folder)
    assert (folder / "second.csv").read_bytes() == (folder / "payouts.csv").read_bytes()
    assert all(row["seller"] != "007" for row in read_rows(folder / "second.csv"))
    run("payouts", "--confirmed", "second.csv", cwd=folder)  # was entered before, and is again: once
    run("ledger", "check", "market.ledger", cwd=folder)
    after = json.loads(run("show", "market.ledger", "--json", cwd=folder).stdout)
    before = json.loads(before)
    assert (after["sellers"], after["promised"]) == (before["sellers"], before["promised"])
    assert after["spent"] == after["promised"]
    assert after["agrees_with_log"]
    times = []
    for data in (before, after):
        data["campaigns"][0]["rounds"][0].pop("state")
        times.append(datetime.fromisoformat(data["campaigns"][0]["rounds"][0].pop("debited_at")))
    assert abs((times[1] - times[0]).total_seconds()) <= 5.0  # the log's own, a moment later
    assert after["campaigns"] == before["campaigns"]


def test_a_repair_is_named_with_the_ledgers_whole_path_as_a_shell_takes_it(tmp_path):
    for place in ("market.ledger", tmp_path / "a b.ledger"):
        command = command_for("repair", place)
        assert shlex.split(command[1:-1]) == ["dpmarket", "ledger", "repair", str(place)]
    assert "ann:***@host/db" in command_for("check", "postgresql://ann:s3cret@host/db")


def test_a_table_whose_name_is_no_text_is_refused_in_one_line(folder):
    odd = os.fsdecode(b"odd \xff.csv")
    try:
        (folder / odd).write_bytes((folder / "reports.csv").read_bytes())
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    files = sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))
    for arguments in (
        ("quote", odd, "-o", "other.csv"),
        ("quote", "reports.csv", "-o", odd, "--force"),
        ("train", odd, "--quotes", "quotes.csv", "-o", "model.json"),
        ("withdraw", "7", "--quotes", odd),
        ("payouts", "--confirmed", odd),
        ("show", odd),
    ):
        said = run(*arguments, cwd=folder, code=1).stderr
        assert "a file's name in UTF-8" in said
        assert len(said.splitlines()) == 1
    assert sorted(p.name for p in folder.iterdir() if not p.name.endswith(("-wal", "-shm"))) == files
