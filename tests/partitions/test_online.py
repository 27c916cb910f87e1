"""Partitions quoted seller by seller: the same quotes, room and refusals as one file in the same order."""

from __future__ import annotations

import json

import polars as pl
import pytest

from dpmarket.campaign import read_quotes
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal
from dpmarket.ledger.rounds import decision_of
from dpmarket.partitions import desk as partition_desk
from dpmarket.partitions import quote_campaign
from support.campaigns import read_rows, write_rows
from support.commands import run
from support.desks import Desk, market_text

SCARCE = {"sellers": {"expected": 20}, "objective": {"budget": 60.0}}  # full before the 60 have come


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


def both(tmp_path, **tables):
    text = market_text(**tables)
    return Desk(tmp_path / "one", market=text), Desk(tmp_path / "other", market=text)


def in_parts(desk, sizes, reports="reports.csv", folder="reports"):
    """Divide reports in their order."""
    rows = [(row["seller"], float(row["cost"])) for row in read_rows(desk / reports)]
    (desk / folder).mkdir()
    first = 0
    for k, size in enumerate([*sizes, len(rows) - sum(sizes)]):
        table = pl.DataFrame(rows[first : first + size], schema=["seller", "cost"], orient="row")
        table.write_parquet(desk / folder / f"part-{k}.parquet")
        first += size
    return f"{desk / folder}/*.parquet"


def quoted(desk, pattern, out="quotes", **options):
    return quote_campaign(desk.market, pattern, desk / out, ledger=desk.place, online=True, **options)


def same(one, other, whole, done):
    """Check that both desks told and entered the same, in the same order."""
    assert read_quotes(other / "quotes").table.equals(read_quotes(one / "quotes.csv").table)
    assert done.left_out == whole.left_out
    for name in ("mechanism", "sellers", "payments", "ceiling", "repetition", "state"):
        assert getattr(done.round, name) == getattr(whole.round, name), name
    if whole.left_out:
        assert read_rows(other / "quotes" / "not-quoted.csv") == read_rows(one / "quotes-not-quoted.csv")
    decided = [
        desk.looked(lambda connection, found=found: decision_of(connection, found.round.number))
        for desk, found in ((one, whole), (other, done))
    ]
    assert decided[0][:2] == decided[1][:2]
    rates = [float(header["planned_noise_rate"]) for _, _, header in decided]
    assert rates[0] == pytest.approx(rates[1], rel=1e-14)


@pytest.mark.parametrize("sizes", [[], [1, 30], [29, 1, 2, 3, 4], [10] * 5])
def test_quotes_and_room_are_those_of_one_file(tmp_path, sizes):
    one, other = both(tmp_path, **SCARCE)
    whole = one.quote(online=True)
    done = quoted(other, in_parts(other, sizes))
    assert 0 < whole.left_out["full"] < 60
    same(one, other, whole, done)
    assert done.round.payments <= 6_000
    # Room for one more largest payment was all that was missing.
    assert done.quotes.minor_units == done.round.payments
    again = other.quote(output="as-one.parquet", online=True)
    assert (again.is_new, again.round.identity) == (False, done.round.identity)


def test_without_a_budget_nobody_comes_too_late(tmp_path):
    one, other = both(tmp_path, sellers={"expected": 60})
    same(one, other, one.quote(online=True), quoted(other, in_parts(other, [20, 20])))


def test_who_must_not_sell_takes_no_room(tmp_path):
    one, other = both(
        tmp_path, sellers={"expected": 20, "excluded": "not.csv"}, objective=SCARCE["objective"]
    )
    for desk in (one, other):
        write_rows(desk / "not.csv", ["seller"], [["007"], ["seller 3"], ["seller 40"]])
    whole, done = one.quote(online=True), quoted(other, in_parts(other, [15, 15]))
    assert whole.left_out["excluded"] == 3
    same(one, other, whole, done)


def test_what_earlier_files_left_is_all_there_is(tmp_path):
    one, other = both(tmp_path, **SCARCE)
    first = [(f"early {k}", 1.5) for k in range(2)]
    for desk in (one, other):
        desk.report("early.csv", first)
    one.quote("early.csv", "early-quotes.csv", online=True)
    quoted(other, in_parts(other, [1], "early.csv", "early"), "early-quotes")
    whole, done = one.quote(online=True), quoted(other, in_parts(other, [25]))
    same(one, other, whole, done)
    assert sum(found.payments for found in other.rounds()) <= 6_000
    other.report("late.csv", [(f"late {k}", 1.5) for k in range(3)])
    late = in_parts(other, [1], "late.csv", "late")
    with pytest.raises(LedgerRefusal, match=r"the budget is full: .* None of the 3 sellers can be quoted"):
        quoted(other, late, "late-quotes")
    assert not (other / "late-quotes").exists()


def test_after_an_interruption_the_same_are_quoted_and_listed(tmp_path, monkeypatch):
    _, other = both(tmp_path, **SCARCE)
    pattern = in_parts(other, [25, 20])

    def die(source, target):
        raise KeyboardInterrupt

    rename = partition_desk.os.rename
    monkeypatch.setattr(partition_desk.os, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        quoted(other, pattern)
    monkeypatch.setattr(partition_desk.os, "rename", rename)
    done = quoted(other, pattern)
    assert not done.is_new
    assert done.quotes.digests
    assert done.left_out == {"full": 60 - done.quotes.sellers}
    assert len(other.rounds()) == 1


def test_a_market_that_posts_one_price_is_quoted_in_partitions(tmp_path):
    one, other = both(
        tmp_path, sellers={"expected": 60}, objective={"budget": 80.0, "mechanism": "posted price"}
    )
    whole = one.quote()
    done = quote_campaign(other.market, in_parts(other, [20]), other / "quotes", ledger=other.place)
    same(one, other, whole, done)
    assert len(set(read_quotes(other / "quotes").table.get_column("epsilon")) - {0.0}) == 1


def test_a_lifetime_limit_counts_what_the_curve_can_ask_for(tmp_path):
    one, other = both(tmp_path, sellers={"expected": 60, "lifetime_epsilon": 0.5})
    for desk in (one, other):
        desk.report("first.csv", [("007", 1.2), ("seller 3", 1.5)])
        desk.quote("first.csv", "first-quotes.csv", online=True)
    whole, done = one.quote(online=True), quoted(other, in_parts(other, [20, 20]))
    assert whole.left_out == {"lifetime": 2}
    same(one, other, whole, done)


def test_promised_once_more_after_everybody_left(tmp_path):
    _, other = both(tmp_path, **SCARCE)
    pattern = in_parts(other, [25, 20])
    done = quoted(other, pattern)
    sellers = read_quotes(other / "quotes").table.get_column("seller").to_list()
    other.withdraw(*sellers, quotes="quotes")
    with pytest.raises(LedgerRefusal, match="everybody who was quoted"):
        quoted(other, pattern, "told")
    more = quoted(other, pattern, "again", again=True)
    assert (more.round.repetition, more.round.payments) == (1, done.round.payments)
    assert read_quotes(other / "again").table.get_column("seller").to_list() == sellers


def test_the_market_must_say_how_many_are_expected(tmp_path):
    _, other = both(tmp_path)
    with pytest.raises(FileProblem, match=r"sellers\.expected: missing"):
        quoted(other, in_parts(other, [20]))
    assert not (other / "market.ledger").exists()


def test_nobody_below_the_cutoff_is_refused(tmp_path):
    _, other = both(tmp_path, **SCARCE)
    other.report("dear.csv", [(f"dear {k}", 4.999) for k in range(4)])
    with pytest.raises(Infeasible, match="expected at least one seller with epsilon > 0, found none among 4"):
        quoted(other, in_parts(other, [2], "dear.csv", "dear"))
    assert not (other / "quotes").exists()
    assert other.rounds() == []


def test_the_command_quotes_partitions_one_by_one(tmp_path):
    _, other = both(tmp_path, **SCARCE)
    pattern = in_parts(other, [25, 20])
    arguments = ["quote", pattern, "-o", other / "quotes", "--market", other.market, "--engine", "threads"]
    data = json.loads(run(*arguments, "--online", "--json").stdout)
    assert data["sellers"] + data["not_quoted"]["full"] == 60
    assert data["total_payment_minor_units"] <= 6_000
