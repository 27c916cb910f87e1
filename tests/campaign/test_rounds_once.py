"""A round is what was reported under which rules: in any order, once, and never by rules that changed."""

import re
import sqlite3

import numpy as np
import polars as pl
import pytest

from dpmarket.campaign import certify_quotes, read_market, read_quotes
from dpmarket.campaign.ids import spelling_problems
from dpmarket.campaign.reports import reading_reports
from dpmarket.errors import DpmarketError, FileProblem, Infeasible, LedgerRefusal
from dpmarket.files import columns
from dpmarket.ledger import open_ledger, rounds, writing
from dpmarket.report.from_campaign import read_campaign
from support.campaigns import MARKET, read_rows, seller_ids, write_rows
from support.desks import Desk, market_text


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "desk")


def test_reports_in_another_order_are_the_same_round_and_get_the_same_file(desk):
    first = desk.quote()
    rows = [list(row.values()) for row in read_rows(desk / "reports.csv")]
    desk.report("shuffled.csv", [rows[k] for k in np.random.default_rng(0).permutation(60)])
    again = desk.quote("shuffled.csv", "again.csv")
    assert (again.is_new, again.round) == (False, first.round)
    assert (desk / "again.csv").read_bytes() == (desk / "quotes.csv").read_bytes()
    assert len(desk.rounds()) == 1
    np.testing.assert_allclose(again.outcome.epsilons, first.outcome.epsilons, rtol=0)


def test_a_quotes_file_says_its_round_scale_and_currency_once(desk):
    desk.market.write_text(market_text(money={"minor_units": 1000, "currency": "CHF"}))
    entered = desk.quote().round
    rows = read_rows(desk / "quotes.csv")
    assert [rows[0][name] for name in ("currency", "minor_units", "round")] == [
        "CHF",
        "1000",
        entered.identity,
    ]
    assert {row["round"] for row in rows[1:]} == {""}
    quotes = read_quotes(desk / "quotes.csv")
    assert (quotes.scale, quotes.currency, quotes.round) == (1000, "CHF", entered.identity)
    assert quotes.seller_ids == seller_ids(60)
    # Rows of two files in one are no quotes.
    both = [*rows, dict(rows[0], seller="other", round="f" * 32)]
    write_rows(desk / "both.csv", list(rows[0]), [row.values() for row in both])
    with pytest.raises(FileProblem, match="several rounds"):
        read_quotes(desk / "both.csv")


def test_the_identity_does_not_confirm_a_guessed_cost(tmp_path):
    """Two ledgers give the same reports different identities: without the key there is nothing to compare."""
    one, other = (Desk(tmp_path / name).quote().round for name in ("one", "other"))
    assert one.identity != other.identity
    assert one.digest != other.digest


CHANGES = {
    "features.age.low": ("age = { low = 18,", "age = { low = 17,"),
    "features.age.high": ("high = 90", "high = 91"),
    "label.values": ('["no", "yes"]', '["yes", "no"]'),
    "label.column": ('"has bought"', '"has returned"'),
    "objective.payment_weight": ("0.001", "0.002"),
    "costs.distribution": ("uniform(1, 5)", "uniform(1, 6)"),
    "features.height": ("[features]\n", "[features]\nheight = { low = 1, high = 2 }\n"),
    "money.minor_units": ("[label]", "[money]\nminor_units = 1000\n\n[label]"),
    "sellers.expected": ("[label]", "[sellers]\nexpected = 70\n\n[label]"),
}


@pytest.mark.parametrize("key", CHANGES)
def test_rules_that_changed_since_quoting_are_refused_by_their_key(desk, key):
    desk.quote()
    desk.market.write_text(MARKET.replace(*CHANGES[key]))
    before = desk.files()
    desk.report("more.csv", [("new", 1.5), ("newer", 2.5)])
    acts = {
        "quote": lambda: desk.quote("more.csv", "more-quotes.csv"),
        "train": desk.train,
        "certify": lambda: certify_quotes(desk.market, desk / "quotes.csv"),
        "report": lambda: read_campaign(desk.market, desk / "reports.csv", desk / "quotes.csv"),
    }
    for name, act in acts.items():
        with pytest.raises(LedgerRefusal, match=rf"changed since .*: {re.escape(key)}\b"):
            act()
        assert {k: v for k, v in desk.files().items() if k != "more.csv"} == before, name
    desk.market.write_text(MARKET)
    assert desk.train().is_new


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"sellers": 5}', '{"objective": []}', "[" * 100_000])
@pytest.mark.parametrize("table", ["campaign", "release"])
def test_what_was_edited_to_be_no_rules_or_no_model_is_refused_in_one_sentence(desk, table, text):
    desk.quote()
    desk.train()
    with sqlite3.connect(desk / "market.ledger") as database:
        column = {"campaign": "rules", "release": "model"}[table]
        database.execute(f"UPDATE {table} SET {column} = ?", [text])
    database.close()
    desk.report("other.csv", [("somebody", 2.0), ("else", 3.0)])
    steps = [lambda: desk.train(output="second.json")]
    if table == "campaign":
        steps += [lambda: desk.quote("other.csv", "other-quotes.csv")]
    if table == "campaign" or not text.startswith("{") or text == "{":
        steps += [desk.rounds]  # an object without a delta is looked into only where it is used
    for step in steps:
        with pytest.raises(FileProblem) as refusal:
            step()
        assert "\n" not in str(refusal.value)


def test_nothing_is_quoted_from_files_into_a_draft_of_the_live_service(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(ledger={"campaign": "spring"}))
    with open_ledger(desk / "market.ledger") as ledger, writing(ledger) as connection:
        rounds.make_campaign(connection, "spring", None, 100, "EUR")
    with pytest.raises(LedgerRefusal, match="a draft of the live service"):
        desk.quote()
    assert not (desk / "quotes.csv").exists()
    assert desk.rounds() == []


def test_what_is_no_rule_may_change_and_another_spelling_is_no_change(desk):
    desk.quote()
    changed = MARKET.replace("uniform(1, 5)", "uniform( 1.0,5)") + "\n[training]\nl2 = 0.5\n"
    desk.market.write_text(changed)
    assert desk.train().model.noise()["l2"] == 0.5


def test_another_spelling_of_the_distribution_is_the_same_round(desk):
    first = desk.quote()
    desk.train()
    desk.market.write_text(MARKET.replace("uniform(1, 5)", "uniform(1.0,5)"))
    again = desk.quote(output="again.csv")
    assert (again.is_new, again.round.identity) == (False, first.round.identity)


def test_quotes_told_again_are_without_who_withdrew_and_train_as_the_first(desk):
    desk.quote()
    desk.withdraw("007")
    again = desk.quote(output="again.csv")
    rows = read_rows(desk / "again.csv")
    assert "007" not in {row["seller"] for row in rows}
    assert again.payments == sum(int(row["payment_minor_units"]) for row in rows) == desk.balance().held
    assert again.outcome.epsilons.size == len(rows) == 59
    desk.withdraw("7", quotes="again.csv")
    model = desk.train("again.csv").model
    assert desk.train("quotes.csv", output="same.json").model == model
    # Somebody else's row cannot be left out.
    header, *others = (desk / "again.csv").read_text().splitlines()
    (desk / "short.csv").write_text("\n".join([header, *others[:-1]]) + "\n")
    with pytest.raises(LedgerRefusal, match="no such quotes"):
        desk.train("short.csv")


@pytest.mark.parametrize("name", ["nowhere/list.csv", "list.txt", "taken.csv"])
def test_a_list_that_cannot_be_written_leaves_no_round(tmp_path, name):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"excluded": "out.csv"}))
    desk.report("out.csv", [("007", 1.0)])
    (desk / "taken.csv").write_text("mine")
    before = desk.files()
    with pytest.raises(FileProblem):
        desk.quote(not_quoted=desk / name, overwrite=False)
    after = desk.files()
    assert not after.pop("market.ledger", None) or not desk.rounds()
    assert after == before
    desk.quote(not_quoted=desk / "list.csv", overwrite=False)
    assert [row["seller"] for row in read_rows(desk / "list.csv")] == ["007"]


def test_another_scale_or_currency_in_a_quotes_file_is_found(desk):
    desk.market.write_text(market_text(money={"currency": "CHF"}))
    desk.quote()
    text = (desk / "quotes.csv").read_text()
    (desk / "scale.csv").write_text(text.replace('"CHF","100"', '"CHF","10000"'))
    with pytest.raises(FileProblem, match="other money than minor units say"):
        read_quotes(desk / "scale.csv")
    rows = read_rows(desk / "scale.csv")
    names = [name for name in rows[0] if name != "payment"]
    write_rows(desk / "bare.csv", names, [[row[name] for name in names] for row in rows])
    (desk / "currency.csv").write_text(text.replace('"CHF","100"', '"EUR","100"'))
    for name in ("bare.csv", "currency.csv"):
        with pytest.raises(LedgerRefusal, match="no such quotes"):
            desk.train(name)
    assert desk.rounds()[0].state == "open"


def test_the_report_uses_what_was_decided_and_refuses_other_reports(desk, monkeypatch):
    desk.quote()

    def decide_nothing(*_):
        raise AssertionError("it was decided once")

    monkeypatch.setattr("dpmarket.mechanisms.OfflineMechanism.run", decide_nothing)
    found = read_campaign(desk.market, desk / "reports.csv", desk / "quotes.csv")
    np.testing.assert_array_equal(found.costs, desk.costs)
    np.testing.assert_array_equal(found.outcome.epsilons, read_quotes(desk / "quotes.csv").epsilons)
    rows = [list(row.values()) for row in read_rows(desk / "reports.csv")]
    rows[3][1] = str(float(rows[3][1]) * (1 + 1e-12))
    desk.report("reports.csv", rows)
    with pytest.raises(LedgerRefusal, match="not those"):
        read_campaign(desk.market, desk / "reports.csv", desk / "quotes.csv")


def test_ids_are_known_in_every_spelling_of_their_letters_and_blanks_are_refused(tmp_path):
    desk = Desk(tmp_path / "desk", sellers=12)
    desk.report("reports.csv", [("Zoe\u0308", 1.5), ("Bob", 2.0), ("Ann", 1.1)])
    desk.quote()
    assert read_quotes(desk / "quotes.csv").seller_ids == ["Zo\u00eb", "Bob", "Ann"]
    assert desk.withdraw("Zoe\u0308") == 1
    assert desk.statement("Zo\u00eb")[0].state == "withdrawn"
    desk.records_of(["Zoe\u0308", "Bob", "Ann"])
    assert desk.train().model.records == 2
    for wrong in (" Bob", "Bob ", "Bob\t", "Bob\u00a0", "\u3000Bob"):
        desk.report("reports.csv", [("Ann", 1.5), (wrong, 2.0)])
        with pytest.raises(FileProblem, match="blanks before or after it in 1 row: line 3"):
            desk.quote(output="other.csv")
        with pytest.raises(DpmarketError, match="without blanks"):
            desk.withdraw(wrong)
    desk.report("reports.csv", [("Zoe\u0308", 1.5), ("Zo\u00eb", 2.0)])
    with pytest.raises(FileProblem, match="an earlier row has already in 1 row: line 3"):
        desk.quote(output="other.csv")


def test_ids_that_are_wrong_are_found_in_every_block_of_many(monkeypatch):
    monkeypatch.setattr(columns, "_BLOCK", 3)
    ids = [*"abcdef", "g ", "h", "i i", *"jkl", "m\0", *"no", "p", "", "q", " e", *"rs", "\u2003t"]
    found = spelling_problems(pl.DataFrame({"who": ids}), "who")
    assert [(problem.words, problem.rows) for problem in found] == [
        ("an id with a NUL character", (12,)),
        ("an id with blanks before or after it", (6, 18, 21)),
    ]


def test_what_is_wrong_with_ids_goes_before_what_the_market_says_and_leaves_no_ledger(desk):
    """Ids are still being checked while prices are decided: the file's own faults are told all the same."""
    rows = [list(row.values()) for row in read_rows(desk / "reports.csv")]
    rows[7][0] = rows[3][0]
    desk.report("twice.csv", rows)
    desk.market.write_text(market_text(objective={"budget": 1e-4}, sellers={"expected": 60}))
    with pytest.raises(Infeasible):
        desk.quote()
    with pytest.raises(FileProblem, match=r"twice\.csv") as told:
        desk.quote("twice.csv")
    assert "line 9" in str(told.value.details)
    assert not (desk / "market.ledger").exists()
    assert not (desk / "quotes.csv").exists()
    # Who stops the program is not told about ids.
    with pytest.raises(KeyboardInterrupt), reading_reports(read_market(desk.market), desk / "twice.csv"):
        raise KeyboardInterrupt
