"""Who may be quoted in partitions: the same people, refusals and quotes as with one file of reports."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import dpmarket as dpm
from dpmarket.campaign import read_quotes
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.partitions import desk as partitions_desk
from dpmarket.partitions import quote_campaign, quoting, train_campaign
from support.campaigns import MARKET, read_rows, write_pilot, write_rows
from support.desks import Desk, market_text

CAPPED = {"weight_cap": 5.0, "max_mean_epsilon": 0.2}  # nobody is asked for more than 1
LIMITED = {"sellers": {"lifetime_epsilon": 1.2}, "objective": CAPPED}
PARTS = [1, 3, 7]
FITTED = MARKET.replace('"uniform(1, 5)"', '"costs.json"')


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


def both(tmp_path, text=None, **tables):
    """Return two desks of the same market: one will quote a file, the other partitions."""
    text = text or market_text(**tables)
    return Desk(tmp_path / "one", market=text), Desk(tmp_path / "other", market=text)


def divided(desk, parts, reports="reports.csv", folder="reports"):
    rows = [(row["seller"], float(row["cost"])) for row in read_rows(desk / reports)]
    (desk / folder).mkdir()
    for k, part in enumerate(np.array_split(np.random.default_rng(parts).permutation(len(rows)), parts)):
        table = pl.DataFrame([rows[row] for row in part], schema=["seller", "cost"], orient="row")
        table.write_parquet(desk / folder / f"part-{k}.parquet")
    return f"{desk / folder}/*.parquet"


def quoted(desk, pattern, out="quotes", **options):
    return quote_campaign(desk.market, pattern, desk / out, ledger=desk.place, **options)


def same(one, other, whole, done, file="quotes.csv", folder="quotes"):
    """Check that both desks told and entered the same."""
    expected = read_quotes(one / file).table.sort("seller")
    assert read_quotes(other / folder).table.sort("seller").equals(expected)
    assert done.left_out == whole.left_out
    entered = (done.round, whole.round)
    for name in ("sellers", "payments", "ceiling", "repetition", "state"):
        assert len({getattr(found, name) for found in entered}) == 1, name
    assert done.round.promised == pytest.approx(whole.round.promised, rel=1e-14)
    if whole.left_out:
        listed = read_rows(one / f"{file.removesuffix('.csv')}-not-quoted.csv")
        there = read_rows(other / folder / "not-quoted.csv")
        assert sorted(map(str, there)) == sorted(map(str, listed))
    assert other.accounts().keys() == one.accounts().keys()


@pytest.mark.parametrize("parts", PARTS)
def test_who_must_not_sell_is_left_out_as_with_one_file(tmp_path, parts):
    one, other = both(tmp_path, sellers={"excluded": "not.csv"})
    for desk in (one, other):
        write_rows(desk / "not.csv", ["seller"], [["007"], ["seller 3"], ["a stranger"], ["seller 40"]])
    pattern = divided(other, parts)
    done, whole = quoted(other, pattern), one.quote()
    assert whole.left_out == {"excluded": 3}
    same(one, other, whole, done)
    assert done.quotes.sellers == 57
    # After an interruption the same folder is written again, without the same people.
    again = quoted(other, pattern, "again")
    assert (again.is_new, again.quotes.digests) == (False, done.quotes.digests)


def test_a_partition_of_people_who_must_not_sell_gives_no_file(tmp_path):
    one, other = both(tmp_path, sellers={"excluded": "not.csv"})
    rows = [(row["seller"], float(row["cost"])) for row in read_rows(other / "reports.csv")]
    for desk in (one, other):
        write_rows(desk / "not.csv", ["seller"], [[seller] for seller, _ in rows[:5]])
    (other / "reports").mkdir()
    for name, part in (("a", rows[:5]), ("b", rows[5:])):
        table = pl.DataFrame(part, schema=["seller", "cost"], orient="row")
        table.write_parquet(other / "reports" / f"{name}.parquet")
    done, whole = quoted(other, f"{other / 'reports'}/*.parquet"), one.quote()
    same(one, other, whole, done)
    assert done.quotes.names == ("b.parquet",)
    assert [path.name for path in (other / "quotes" / "hashes").iterdir()] == ["b.npy"]


def test_where_nobody_may_sell_nothing_is_left_behind(tmp_path):
    one, other = both(tmp_path, sellers={"excluded": "not.csv"})
    for desk in (one, other):
        write_rows(desk / "not.csv", ["seller"], [[row["seller"]] for row in read_rows(desk / "reports.csv")])
    with pytest.raises(LedgerRefusal) as expected:
        one.quote()
    with pytest.raises(LedgerRefusal) as refusal:
        quoted(other, divided(other, 3))
    assert str(refusal.value) == str(expected.value)
    assert not (other / "market.ledger").exists()
    assert not (other / "quotes").exists()
    (other / "not.csv").unlink()
    with pytest.raises(FileProblem, match="there is no such file"):
        quoted(other, f"{other / 'reports'}/*.parquet")
    assert not (other / "market.ledger").exists()


def test_a_limit_needs_a_number_that_nobody_can_be_asked_to_exceed(tmp_path):
    one, other = both(tmp_path, sellers={"lifetime_epsilon": 1.5})
    with pytest.raises(LedgerRefusal) as expected:
        one.quote()
    with pytest.raises(LedgerRefusal) as refusal:
        quoted(other, divided(other, 2))
    assert str(refusal.value) == str(expected.value)
    assert not (other / "market.ledger").exists()


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("before", ["file", "partitions"])
def test_who_has_too_little_left_of_a_lifetime_is_left_out_as_with_one_file(tmp_path, parts, before):
    desks = both(tmp_path, **LIMITED)
    for desk in desks:  # some of the people gave something before, some left, some promises are open
        rows = [(row["seller"], row["cost"]) for row in read_rows(desk / "reports.csv")]
        desk.report("first.csv", rows[:20])
        desk.report("second.csv", rows[20:30])
        desk.records_of([seller for seller, _ in rows[:20]], "first-data.csv")
        if before == "file" or desk is desks[0]:
            desk.quote("first.csv", "first-quotes.csv")
            desk.train("first-quotes.csv", data="first-data.csv")
            desk.quote("second.csv", "second-quotes.csv")
            desk.withdraw("seller 14", quotes="second-quotes.csv")
        else:
            quoted(desk, divided(desk, 4, "first.csv", "first"), "first-quotes")
            train_campaign(desk.market, desk / "first-quotes", [desk / "first-data.csv"], desk / "model.json")
            quoted(desk, divided(desk, 2, "second.csv", "second"), "second-quotes")
            desk.withdraw("seller 14", quotes="second-quotes")
    one, other = desks
    pattern = divided(other, parts)
    done, whole = quoted(other, pattern), one.quote()
    assert 0 < whole.left_out["lifetime"] < 30
    same(one, other, whole, done)


@pytest.mark.parametrize("parts", PARTS)
def test_promises_on_top_of_open_ones_are_those_of_one_file(tmp_path, parts):
    one, other = both(tmp_path)
    told = []
    for desk in (one, other):
        rows = [(row["seller"], row["cost"]) for row in read_rows(desk / "reports.csv")]
        desk.report("some.csv", rows[:25])
        desk.quote("some.csv", "some-quotes.csv")
        desk.withdraw("007", quotes="some-quotes.csv")
    pattern = divided(other, parts)
    with pytest.raises(LedgerRefusal) as expected:
        one.quote()
    with pytest.raises(LedgerRefusal, match="24 of 60 sellers") as refusal:
        quoted(other, pattern)
    assert str(refusal.value) == str(expected.value)
    assert len(other.rounds()) == 1
    assert not (other / "quotes").exists()
    whole = one.quote(again=True, before_again=told.append)
    done = quoted(other, pattern, again=True, before_again=told.append)
    same(one, other, whole, done)
    assert (told[1].sellers, told[1].payment) == (told[0].sellers, told[0].payment)
    assert told[1].epsilon == pytest.approx(told[0].epsilon, rel=1e-14)


@pytest.mark.parametrize("parts", PARTS)
def test_quotes_that_were_spent_are_promised_once_more_as_with_one_file(tmp_path, parts, monkeypatch):
    one, other = both(tmp_path, **LIMITED)
    pattern = divided(other, parts)
    one.quote()
    quoted(other, pattern)
    for desk, quotes in ((one, "quotes.csv"), (other, "quotes")):
        desk.withdraw("seller 3", "seller 5", quotes=quotes)
        desk.train(quotes)
    with pytest.raises(FileProblem, match="exists"):
        quoted(other, pattern, again=True)
    told = []
    whole = one.quote(output="more.csv", again=True, before_again=told.append)

    def die(source, target):
        raise KeyboardInterrupt

    rename = quoting.os.rename
    monkeypatch.setattr("dpmarket.partitions.desk.os.rename", die)
    with pytest.raises(KeyboardInterrupt):
        quoted(other, pattern, "more", again=True, before_again=told.append)
    monkeypatch.setattr("dpmarket.partitions.desk.os.rename", rename)
    done = quoted(other, pattern, "more")  # it was entered: the same folder again
    assert not done.is_new
    assert 0 < whole.left_out.get("lifetime", 0) < 58
    same(one, other, whole, done, "more.csv", "more")
    assert (told[1].sellers, told[1].payment) == (told[0].sellers, told[0].payment)
    assert len(other.rounds()) == len(one.rounds()) == 2


def test_quotes_that_everybody_left_are_promised_once_more_as_with_one_file(tmp_path):
    one, other = both(tmp_path)
    pattern = divided(other, 3)
    one.quote()
    quoted(other, pattern)
    everybody = [row["seller"] for row in read_rows(one / "reports.csv")]
    one.withdraw(*everybody)
    other.withdraw(*everybody, quotes="quotes")
    with pytest.raises(LedgerRefusal) as expected:
        one.quote(output="more.csv")
    with pytest.raises(LedgerRefusal) as refusal:
        quoted(other, pattern, "more")
    assert str(refusal.value) == str(expected.value)
    whole, done = one.quote(output="more.csv", again=True), quoted(other, pattern, "more", again=True)
    same(one, other, whole, done, "more.csv", "more")
    assert done.quotes.on_top == (0, 0.0, 0)


def test_what_others_quote_while_reports_are_counted_is_not_overlooked(tmp_path, monkeypatch):
    """Whether people are looked up was decided before: with nobody quoted there was no need."""
    _, desk = both(tmp_path)
    some = [(row["seller"], float(row["cost"])) for row in read_rows(desk / "reports.csv")][:25]
    desk.report("some.csv", some)
    pattern = divided(desk, 3)
    quote = partitions_desk._Desk.quote

    def meanwhile(self, looked, *, again):
        desk.quote("some.csv", "some-quotes.csv")
        return quote(self, looked, again=again)

    with monkeypatch.context() as patch:
        patch.setattr(partitions_desk._Desk, "quote", meanwhile)
        with pytest.raises(LedgerRefusal, match="others have been quoting meanwhile"):
            quoted(desk, pattern)
    assert len(desk.rounds()) == 1
    with pytest.raises(LedgerRefusal, match="--again"):
        quoted(desk, pattern)


@pytest.mark.parametrize("ids", [None, "own", "others"])
def test_the_pilots_people_and_costs_are_refused_as_with_one_file(tmp_path, ids):
    """The same people in another form of Unicode; the same costs in another order, without ids."""
    one, other = both(tmp_path, FITTED)
    rows = read_rows(one / "reports.csv")
    costs = np.array([float(row["cost"]) for row in rows])
    if ids is not None:
        costs = np.random.default_rng(8).uniform(1.0, 5.0, 80)
    names = [f"pilot {k}" for k in range(80)]
    if ids == "own":
        names[:2] = ["seller 3", "e\u0301"]
    for desk in (one, other):
        write_pilot(desk.folder, costs[::-1], None if ids is None else names)
    pattern = divided(other, 3)
    refusals = []
    for act in (one.quote, lambda: quoted(other, pattern)):
        try:
            act()
        except FileProblem as refusal:
            refusals.append(str(refusal))
    words = {None: "the same costs", "own": "2 of these sellers", "others": None}[ids]
    assert [words is not None and words in told for told in refusals] == ([True] * 2 if words else [])


def test_partitions_to_which_the_distribution_was_fitted_are_known_without_their_pilot(tmp_path):
    _, other = both(tmp_path, FITTED)
    costs = np.array([float(row["cost"]) for row in read_rows(other / "reports.csv")])
    (other / "costs.json").write_text(json.dumps(dpm.Empirical(costs).to_dict()))
    with pytest.raises(FileProblem, match="these very reports"):
        quoted(other, divided(other, 3))
