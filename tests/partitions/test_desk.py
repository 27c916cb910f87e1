"""Partitions at the file desk: in the ledger before they are told, the same round as one file."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from dpmarket.campaign import read_quotes
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import existing_ledger, reading
from dpmarket.ledger.rounds import manifest_of, quotes_of
from dpmarket.partitions import desk as partition_desk
from dpmarket.partitions import quote_campaign, quoting
from support.campaigns import read_rows
from support.commands import run
from support.desks import Desk, market_text


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def desk(tmp_path):
    return divided(Desk(tmp_path / "desk"))


def divided(desk, parts=3):
    """Divide the reports of a desk into partitions."""
    rows = [(row["seller"], float(row["cost"])) for row in read_rows(desk / "reports.csv")]
    (desk / "reports").mkdir()
    for k, part in enumerate(np.array_split(np.random.default_rng(0).permutation(len(rows)), parts)):
        table = pl.DataFrame([rows[row] for row in part], schema=["seller", "cost"], orient="row")
        table.write_parquet(desk / "reports" / f"part-{k}.parquet")
    return desk


def quoted(desk, out="quotes", **options):
    return quote_campaign(desk.market, f"{desk / 'reports'}/*.parquet", desk / out, **options)


def test_partitions_and_one_file_are_the_same_round_with_the_same_quotes(tmp_path, desk):
    done = quoted(desk)
    other = Desk(tmp_path / "other")
    whole = other.quote(output="quotes.parquet")
    assert done.is_new
    mine = read_quotes(desk / "quotes").table.sort("seller")
    assert mine.equals(read_quotes(other / "quotes.parquet").table.sort("seller"))
    assert (done.round.sellers, done.round.payments) == (whole.round.sellers, whole.round.payments)
    assert done.round.ceiling == whole.round.ceiling
    # In one ledger the reports as one file are the round that is there already.
    again = desk.quote(output="as-one.parquet")
    assert (again.is_new, again.round.identity) == (False, done.round.identity)


def test_the_manifest_is_in_the_ledger_before_the_folder_appears(desk, monkeypatch):
    seen = []
    rename = quoting.os.rename

    def look(source, target):
        with existing_ledger(desk / "market.ledger") as ledger, reading(ledger) as connection:
            seen.append(manifest_of(connection, 1))
        assert not (desk / "quotes").exists()
        rename(source, target)

    monkeypatch.setattr(quoting.os, "rename", look)
    done = quoted(desk)
    (manifest,) = seen
    assert manifest.digests == done.quotes.digests
    assert manifest.rows == (20, 20, 20)


def test_when_the_driver_dies_after_entering_the_same_folder_is_written_again(desk, monkeypatch):
    def die(source, target):
        raise KeyboardInterrupt

    rename = quoting.os.rename
    monkeypatch.setattr(quoting.os, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        quoted(desk)
    monkeypatch.setattr(quoting.os, "rename", rename)
    (entered,) = [found.identity for found in rounds_without_files(desk)]
    done = quoted(desk)
    assert (done.is_new, done.round.identity) == (False, entered)
    assert len(desk.rounds()) == 1


def rounds_without_files(desk):
    from dpmarket.ledger import rounds_of

    with existing_ledger(desk / "market.ledger") as ledger, reading(ledger) as connection:
        return rounds_of(connection)


def test_withdrawals_and_statements_look_into_the_sellers_own_partition_only(desk, monkeypatch):
    quoted(desk)
    opened = []
    own = partition_desk.Manifest._partition

    def note(manifest, folder, number):
        opened.append(number)
        return own(manifest, folder, number)

    monkeypatch.setattr(partition_desk.Manifest, "_partition", note)
    (line,) = desk.statement("007")
    quotes = {row["seller"]: row for row in read_quotes(desk / "quotes").table.to_dicts()}
    assert line.promised == quotes["007"]["epsilon"]
    assert len(opened) == 1
    with existing_ledger(desk / "market.ledger") as ledger, reading(ledger) as connection:
        assert quotes_of(connection, 1, ["007"]).height == 20
        assert quotes_of(connection, 1).height == 60
    opened.clear()
    desk.withdraw("007", quotes="quotes")
    assert desk.balance().committed == sum(row["payment_minor_units"] for row in quotes.values()) - int(
        quotes["007"]["payment_minor_units"]
    )
    (line,) = desk.statement("007")
    assert (line.state, line.promised) == ("withdrawn", 0.0)


def test_a_partition_that_was_changed_is_refused(desk):
    quoted(desk)
    path = desk / "quotes" / "part-1.parquet"
    pl.read_parquet(path).with_columns(epsilon=pl.lit(9.0)).write_parquet(path)
    with pytest.raises(FileProblem, match=r"part-1\.parquet: it is not as it was entered"):
        desk.accounts()


def test_a_folder_of_quotes_is_trained_on(desk):
    quoted(desk)
    desk.train("quotes")
    (entered,) = desk.rounds()
    assert entered.state == "released"
    (line,) = desk.statement("007")
    assert 0.0 < line.spent <= line.promised


def test_reports_that_are_refused_leave_no_ledger_behind(desk):
    (desk / "reports" / "bad.csv").write_text("seller,cost\nzoe,-1\n")
    with pytest.raises(FileProblem, match=r"bad\.csv: column 'cost': a cost below 0 in 1 row: line 2"):
        quote_campaign(desk.market, f"{desk / 'reports'}/*", desk / "quotes")
    assert not (desk / "market.ledger").exists()
    assert not (desk / "quotes").exists()


def test_open_promises_are_refused(desk):
    quoted(desk)
    for path in (desk / "reports").iterdir():
        table = pl.read_parquet(path)
        table.with_columns(pl.col("cost") + 0.5).write_parquet(path)
    with pytest.raises(LedgerRefusal, match="60 of 60 sellers have an open promise in this campaign"):
        quoted(desk, "more")
    assert not (desk / "more").exists()
    assert len(desk.rounds()) == 1


def test_a_budget_is_met_as_with_one_file(tmp_path):
    text = market_text(objective={"budget": 500.0}, sellers={"expected": 60})
    one, other = Desk(tmp_path / "one", market=text), divided(Desk(tmp_path / "other", market=text))
    assert one.quote().round.payments == quoted(other).round.payments


def test_the_command_quotes_partitions(desk):
    pattern = f"{desk / 'reports'}/*.parquet"
    done = run(
        "quote", pattern, "-o", desk / "quotes", "--market", desk.market, "--engine", "threads", "--json"
    )
    data = json.loads(done.stdout)
    assert (data["sellers"], data["partitions"], data["is_new"]) == (60, 3, True)
    assert data["total_payment_minor_units"] == desk.rounds()[0].payments
    refused = run(
        "quote", pattern, "-o", desk / "x", "--market", desk.market, "--engine", "threads", "--force", code=2
    )
    assert "must be a new one" in " ".join(refused.stderr.replace("│", " ").split())
    assert (
        "expected threads, processes or dask"
        in run(
            "quote", pattern, "-o", desk / "x", "--market", desk.market, "--engine", "spark", code=1
        ).stderr
    )
