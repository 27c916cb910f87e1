"""Copies of one ledger, edited ones and emptied ones: what was spent with one is spent for all of them."""

import os
import shutil
import sqlite3
import threading

import pytest

from dpmarket.campaign import read_quotes, spending, train_file
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import existing_ledger, found_again, outside, quotes_of, repair, settle
from support.campaigns import read_rows, seller_ids
from support.desks import Desk, copy_ledger, market_text


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "desk")


def copied(desk, folder):
    """Return a desk with a copy of everything that another one has."""
    twin = Desk(folder)
    for path in desk.folder.iterdir():
        if path.is_file() and ".ledger" not in path.name:
            shutil.copy(path, twin / path.name)
    copy_ledger(desk / "market.ledger", twin / "market.ledger")
    return twin


def before(monkeypatch, name, step):
    """Run a step in the moment before a function of the spending module is called for the first time."""
    real, waiting = getattr(spending, name), [step]

    def called(*arguments, **more):
        if waiting:
            waiting.pop()()
        return real(*arguments, **more)

    monkeypatch.setattr(spending, name, called)


def test_two_copies_of_which_one_was_opened_before_the_other_trained_release_one_model(
    desk, tmp_path, monkeypatch
):
    desk.quote()
    twin = copied(desk, tmp_path / "twin")
    before(monkeypatch, "log_debit", twin.train)
    with pytest.raises(LedgerRefusal, match="with a copy of this ledger"):
        desk.train()
    assert not (desk / "model.json").exists()
    assert twin.rounds()[0].state == "released"
    with pytest.raises(LedgerRefusal, match="was an older copy put back"):
        desk.train()
    with existing_ledger(desk / "market.ledger") as ledger:
        assert repair(ledger).spent == 1
    assert desk.rounds()[0].state == "lost"
    assert [line.kind for line in outside.read_log()].count("mark") == 1


def test_two_copies_that_train_at_the_same_time_draw_noise_once(desk, tmp_path, monkeypatch):
    desk.quote()
    twin = copied(desk, tmp_path / "twin")
    together = threading.Barrier(2, timeout=60)
    fitted = spending._fitted

    def both(*arguments, **options):
        together.wait()  # each has logged its debit when either goes on
        return fitted(*arguments, **options)

    debited = spending.log_debit

    def opened(*arguments):
        together.wait()  # and each was opened before that
        return debited(*arguments)

    monkeypatch.setattr(spending, "log_debit", opened)
    monkeypatch.setattr(spending, "_fitted", both)
    released, refused = [], []

    def train(one):
        try:
            released.append(one.train())
        except LedgerRefusal as problem:
            refused.append(str(problem))

    threads = [threading.Thread(target=train, args=(one,)) for one in (desk, twin)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(released) == len(refused) == 1
    assert "with a copy of this ledger" in refused[0]
    assert [line.kind for line in outside.read_log()].count("mark") == 1


def test_who_leaves_by_a_copy_while_another_one_trains_is_not_trained_on(desk, tmp_path, monkeypatch):
    desk.quote()
    twin = copied(desk, tmp_path / "twin")
    before(monkeypatch, "log_debit", lambda: twin.withdraw("007"))
    with pytest.raises(LedgerRefusal, match="with a copy of this ledger"):
        desk.train()
    with existing_ledger(desk / "market.ledger") as ledger:
        assert repair(ledger).withdrawn == 1
    assert desk.train().withdrawn == 1


def test_who_leaves_by_two_copies_at_the_same_time_has_left_in_both(desk, tmp_path, monkeypatch):
    desk.quote()
    twin = copied(desk, tmp_path / "twin")
    real, waiting = outside.keep_page, [lambda: twin.withdraw("007")]

    def kept(*arguments):
        if waiting:
            waiting.pop()()
        return real(*arguments)

    monkeypatch.setattr(outside, "keep_page", kept)
    desk.withdraw("7", "é")
    with pytest.raises(LedgerRefusal, match="does not know of all who withdrew"):
        desk.train()
    for one, missing in ((desk, 1), (twin, 2)):
        with existing_ledger(one / "market.ledger") as ledger:
            assert repair(ledger).withdrawn == missing
    assert desk.train().withdrawn == 3


def test_an_edited_identity_is_found_and_does_not_train_again(desk):
    desk.quote()
    copy_ledger(desk / "market.ledger", desk / "backup")
    desk.train()
    edits = ("id = 'x'", "id = 'x', log_head = NULL", "id = 'x', log_head = NULL, key = x'00'", "key = x'00'")
    for edit in edits:
        copy_ledger(desk / "backup", desk / "market.ledger")
        with sqlite3.connect(desk / "market.ledger") as database:
            database.execute(f"UPDATE ledger SET {edit}")
        database.close()
        with pytest.raises(FileProblem, match="does not add up"):
            desk.rounds()
        with pytest.raises(LedgerRefusal):
            desk.train(output="second.json")
        assert not (desk / "second.json").exists()


def test_a_ledger_of_another_key_is_found_before_anything_is_spent(desk):
    desk.quote()
    desk.withdraw("007")
    with sqlite3.connect(desk / "market.ledger") as database:
        database.execute("UPDATE ledger SET key = x'00'")
    database.close()
    with pytest.raises(FileProblem, match="does not add up") as refusal:
        desk.rounds()
    assert [line for line in refusal.value.details if "was used with another key" in line]


def test_a_ledger_in_which_a_spent_round_is_open_again_does_not_train_again(desk):
    desk.quote()
    desk.train()
    with sqlite3.connect(desk / "market.ledger") as database:
        database.execute("UPDATE debit SET counts = 0")
        database.execute("UPDATE round SET identity = '00'")
        database.execute("DELETE FROM page WHERE kind = 'spent'")
    database.close()
    with pytest.raises(FileProblem, match="does not add up") as refusal:
        desk.rounds()
    assert any("its debits do not add up" in line for line in refusal.value.details)
    forgot = pytest.raises(LedgerRefusal, match="does not know of 1 trainings")
    with existing_ledger(desk / "market.ledger") as ledger, forgot:
        settle(ledger)
    with pytest.raises(LedgerRefusal):
        desk.train(output="second.json")
    assert not (desk / "second.json").exists()


def test_a_logged_training_is_known_by_the_rounds_that_it_spent(desk):
    desk.quote()
    desk.train()
    with sqlite3.connect(desk / "market.ledger") as database:
        database.execute("UPDATE round SET identity = '00'")
    database.close()
    with pytest.raises(FileProblem, match="does not add up"):
        desk.rounds()
    forgot = pytest.raises(LedgerRefusal, match="does not know of 1 trainings")
    with existing_ledger(desk / "market.ledger") as ledger, forgot:
        settle(ledger)


def test_an_emptied_ledger_is_a_lost_one(desk):
    desk.quote()
    desk.train()
    for path in desk.folder.glob("market.ledger*"):
        path.write_bytes(b"")
    with pytest.raises(LedgerRefusal, match="it is gone"):
        desk.quote(output="second.csv")
    assert (desk / "market.ledger").read_bytes() == b""
    with found_again(desk / "market.ledger") as ledger:
        assert repair(ledger).spent == 1
    assert desk.rounds()[0].state == "lost"


def test_a_ledger_is_not_used_where_another_one_has_spent(desk):
    desk.quote()
    copy_ledger(desk / "market.ledger", desk / "aside")
    for path in desk.folder.glob("market.ledger*"):
        path.unlink()
    desk.quote(output="second.csv")  # nothing was spent yet: a ledger may be begun anew
    desk.train("second.csv")
    copy_ledger(desk / "market.ledger", desk / "newer")
    copy_ledger(desk / "aside", desk / "market.ledger")
    with pytest.raises(LedgerRefusal, match="another ledger was at"):
        desk.train(output="second.json")
    copy_ledger(desk / "newer", desk / "market.ledger")
    assert not desk.train("second.csv").is_new


def test_a_training_with_a_round_of_which_everybody_left_can_be_repaired(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"expected": 100}))
    desk.quote(online=True)
    desk.withdraw(*seller_ids(60))
    desk.report("new.csv", [(f"new {k}", 1.0 + k / 20) for k in range(40)])
    payments = desk.quote("new.csv", "new-quotes.csv", online=True).payments
    desk.records_of([f"new {k}" for k in range(40)])
    desk.train("quotes.csv", "new-quotes.csv")
    for path in desk.folder.glob("market.ledger*"):
        path.unlink()
    with found_again(desk / "market.ledger") as ledger:
        assert repair(ledger).rounds == 1
    assert [found.state for found in desk.rounds()] == ["lost"]
    assert desk.pay().payout.amount == payments
    with pytest.raises(LedgerRefusal, match="everybody who was quoted by these reports has withdrawn"):
        desk.quote(online=True) and desk.quote(online=True)


@pytest.mark.parametrize("output", ["second.csv", "second.parquet"])
def test_quotes_told_again_after_a_backup_from_before_them_list_nobody_who_left(tmp_path, output):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"expected": 100}))
    desk.report("other.csv", [("somebody", 2.0), ("else", 3.0)])
    desk.quote("other.csv", "other-quotes.csv", online=True)
    copy_ledger(desk / "market.ledger", desk / "backup")
    first = desk.quote(online=True)
    left = {row["seller"]: int(row["payment_minor_units"]) for row in read_rows(desk / "quotes.csv")[:3]}
    desk.withdraw(*left)
    copy_ledger(desk / "backup", desk / "market.ledger")
    second = desk.quote(output=output, online=True)
    assert second.is_new
    assert second.round.identity == first.round.identity
    assert second.payments == first.payments - sum(left.values())
    assert second.outcome.epsilons.size == 57
    told = read_quotes(desk / output)
    assert len(told) == 57
    assert not set(left) & set(told.seller_ids)
    assert desk.looked(lambda connection: quotes_of(connection, 2)).height == 60
    desk.train(output)
    assert desk.pay().payout.lines == int((told.epsilons > 0).sum()) > 0


def shared(tmp_path, name, **tables):
    ledger = {"campaign": name, "url": "../people.ledger"}
    return Desk(tmp_path / name, market=market_text(ledger=ledger, **tables))


def test_after_a_repair_nobody_gives_more_than_a_lifetime_allows(tmp_path):
    # Some sell more than half of a lifetime, others nothing.
    objective = {"max_epsilon": 0.35, "payment_weight": 0.03}
    keys = {"sellers": {"lifetime_epsilon": 0.35}, "objective": objective}
    spring, autumn, other = (shared(tmp_path, name, **keys) for name in ("spring", "autumn", "other"))
    ledger, copies = tmp_path / "people.ledger", [tmp_path / name for name in ("first", "second", "third")]
    other.report("reports.csv", [("somebody", 2.0), ("else", 3.0)])
    other.quote()
    copy_ledger(ledger, copies[0])
    spring.quote()
    copy_ledger(ledger, copies[1])
    copy_ledger(copies[0], ledger)
    autumn.quote()  # the ledger that was put back does not know of spring's promises
    copy_ledger(ledger, copies[2])
    copy_ledger(copies[1], ledger)
    spring.train()
    copy_ledger(copies[2], ledger)
    with existing_ledger(ledger) as opened:
        repair(opened)
    with pytest.raises(LedgerRefusal, match="would give more than a lifetime allows") as refusal:
        autumn.train()
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(spring / "quotes.csv")}
    over = [seller for seller, epsilon in promised.items() if 2 * epsilon > 0.35]
    assert 0 < len(over) < 60
    assert str(refusal.value).startswith(f"{len(over)} sellers")
    autumn.withdraw(*over)
    autumn.train()
    for seller in seller_ids(60):
        assert sum(line.spent for line in autumn.statement(seller)) <= 0.35


def test_a_limit_that_came_later_does_not_bind_who_is_not_in_its_campaign(tmp_path):
    spring = shared(tmp_path, "spring")
    spring.quote()
    objective = {"max_epsilon": 0.25}
    autumn = shared(tmp_path, "autumn", sellers={"lifetime_epsilon": 0.3}, objective=objective)
    autumn.report("reports.csv", [("somebody", 2.0), ("else", 3.0)])
    autumn.quote()
    assert max(float(row["epsilon"]) for row in read_rows(spring / "quotes.csv")) > 0.3
    assert spring.train().is_new


def test_after_a_repair_an_online_budget_is_not_exceeded(tmp_path):
    market = market_text(objective={"budget": 30.0}, sellers={"expected": 60})
    desk = Desk(tmp_path / "desk", market=market)
    ledger = desk / "market.ledger"
    desk.report("first.csv", [("first", 1.1), ("second", 1.2)])
    desk.quote("first.csv", "first-quotes.csv", online=True)
    copy_ledger(ledger, desk / "backup")
    ids = [f"one {k}" for k in range(40)], [f"two {k}" for k in range(40)]
    totals = []
    for name, own in zip(("one", "two"), ids, strict=True):
        copy_ledger(desk / "backup", ledger)
        desk.report(f"{name}.csv", [(seller, 1.0 + k / 20) for k, seller in enumerate(own)])
        totals.append(desk.quote(f"{name}.csv", f"{name}-quotes.csv", online=True).payments)
        copy_ledger(ledger, desk / name)
        desk.records_of([row["seller"] for row in read_rows(desk / f"{name}-quotes.csv")], f"{name}-data.csv")
    assert max(totals) <= 3000 < sum(totals)
    copy_ledger(desk / "one", ledger)
    desk.train("one-quotes.csv", data="one-data.csv")
    copy_ledger(desk / "two", ledger)
    with existing_ledger(ledger) as opened:
        repair(opened)
    with pytest.raises(LedgerRefusal, match="more than the budget"):
        desk.train("two-quotes.csv", data="two-data.csv")
    assert desk.balance().owed == totals[0]


def test_a_folder_whose_name_is_no_text_is_refused_in_one_line(tmp_path):
    folder = tmp_path / os.fsdecode(b"odd \xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    desk = Desk(folder)
    with pytest.raises(FileProblem, match="expected a file's name in UTF-8"):
        desk.quote()
    assert not (desk / "market.ledger").exists()
    with pytest.raises(FileProblem, match="expected a file's name in UTF-8"):
        train_file(desk.market, desk / "data.csv", desk / "data.csv", desk / "model.json")


@pytest.mark.parametrize("written", ["007 ", "\u00a0007", "x\0"])
def test_a_list_of_who_must_not_sell_has_ids_without_blanks(tmp_path, written):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"excluded": "pilot.csv"}))
    desk.report("pilot.csv", [("nobody", 1.0), (written, 2.0)])
    with pytest.raises(FileProblem, match=r"cannot use .*pilot\.csv"):
        desk.quote()
    assert not (desk / "market.ledger").exists()
