"""The log outside: chained, on the disk, and stronger than a backup that was put back."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import sqlalchemy as sa

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    Repair,
    check_everything,
    check_ledger,
    open_ledger,
    outside,
    reading,
    releases,
    repair,
    rounds,
    settle,
    tables,
    withdraw,
    writing,
)
from dpmarket.ledger.attempts import describe_round, end_attempt, log_debit
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.places import forget_place, found_again, refuse_lost
from dpmarket.ledger.restoring import enter_logged_withdrawals
from support.ledgers import enter, new_database, quotes


def begin(ledger, *numbers):
    """Debit as a training does, up to the log's line."""
    attempt = new_id()
    with writing(ledger) as connection:
        releases.debit(connection, attempt, numbers)
        known = [
            describe_round(connection, rounds.round_of(connection, number), attempt, k)
            for k, number in enumerate(numbers)
        ]
    outside.append(ledger.id, attempt, "debit", known)
    return attempt


def mark(ledger, attempt):
    with writing(ledger) as connection:
        releases.mark(connection, attempt)
    outside.append(ledger.id, attempt, "mark")


def states(ledger):
    with reading(ledger) as connection:
        check_ledger(connection)
        return [found.state for found in rounds.rounds_of(connection)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "market.ledger"


@pytest.fixture
def two(path):
    """A ledger with two rounds."""
    with open_ledger(path) as opened:
        with writing(opened) as connection:
            enter(connection, quotes([0.5, 0.25]))
            enter(connection, quotes([1.0], ["zoë"]))
        yield opened


def test_lines_are_chained_and_an_edited_one_is_found(state):
    outside.append("l", "a", "begun", about={"place": "x"})
    outside.append("l", "a", "mark")
    lines = outside.read_log()
    assert [(line.kind, line.about) for line in lines] == [("begun", {"place": "x"}), ("mark", {})]
    path = state / "spent.log"
    assert path.stat().st_mode & 0o077 == 0
    whole = path.read_bytes()
    for wrong in (
        whole.replace(b"mark", b"mork"),
        whole[whole.index(b"\n") + 1 :],
        b"\n".join(reversed(whole.splitlines())) + b"\n",
        whole + b"{}\n",
    ):
        path.write_bytes(wrong)
        with pytest.raises(FileProblem, match="chain is broken"):
            outside.read_log()
    first = json.loads(whole.splitlines()[0])
    assert set(first) == {"line", "digest"}


@pytest.mark.parametrize(
    ("kind", "where", "name"),
    [
        ("withdrawn", None, "about"),
        ("withdrawn", "rounds", "leaving"),
        ("debit", "rounds", "rules"),
        ("debit", None, "rounds"),
        ("begun", "about", "place"),
    ],
)
def test_a_chained_line_that_lacks_something_is_refused_in_one_sentence(two, state, kind, where, name):
    settle(two)
    with writing(two) as connection:
        withdraw(connection, 1, ["søren 1"])
    begin(two, 1)
    path, before, written = state / "spent.log", "0" * 64, []
    for raw in path.read_bytes().splitlines():
        content = {**json.loads(json.loads(raw)["line"]), "before": before}
        if content["kind"] == kind:
            part = content if where is None else content[where]
            for one in part if where == "rounds" else [part]:
                del one[name]
        text = json.dumps(content)
        before = hashlib.sha256(text.encode()).hexdigest()
        written.append(json.dumps({"line": text, "digest": before}) + "\n")
    path.write_text("".join(written))
    for step in (settle, repair):
        with pytest.raises(FileProblem, match="lacks what such lines say"):
            step(two)


def test_a_line_that_was_not_finished_does_not_count_and_is_written_over(state):
    outside.append("l", "a", "debit")
    path = state / "spent.log"
    with path.open("ab") as file:
        file.write(b'{"line": "half')
    assert [line.attempt for line in outside.read_log()] == ["a"]
    outside.append("l", "b", "debit")
    assert [line.attempt for line in outside.read_log()] == ["a", "b"]


def test_a_log_that_cannot_be_written_is_as_before(state, monkeypatch):
    outside.append("l", "a", "debit")
    before = (state / "spent.log").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(outside.os, "fsync", full)
        with pytest.raises(FileProblem, match=r"spent\.log: No space left"):
            outside.append("l", "a", "mark")
    assert (state / "spent.log").read_bytes() == before


def test_dead_before_the_mark_is_undone_and_after_it_is_lost(two):
    first, second = begin(two, 1), begin(two, 2)
    mark(two, second)
    settle(two)
    assert states(two) == ["open", "lost"]
    assert [line.kind for line in outside.read_log() if line.attempt == first] == ["debit", "returned"]


@pytest.mark.parametrize(("state", "counts"), [("lost", 0), ("returned", 1)])
def test_a_debit_counts_as_its_attempt_ended(two, state, counts):
    attempt = begin(two, 1)
    if state == "lost":
        mark(two, attempt)
    settle(two)
    assert states(two) == ["lost" if state == "lost" else "open", "open"]
    with writing(two) as connection:
        connection.execute(tables.debit.update().values(counts=counts))
    with pytest.raises(FileProblem, match="does not add up") as refusal:
        states(two)
    assert any("its debits do not add up" in line for line in refusal.value.details)


def test_dead_between_debit_and_log_is_undone(two):
    attempt = new_id()
    with writing(two) as connection:
        releases.debit(connection, attempt, [1])
    settle(two)
    assert states(two) == ["open", "open"]
    assert [line.kind for line in outside.read_log()] == ["begun"]


def test_a_mark_in_the_log_alone_is_a_mark(two, path, tmp_path):
    attempt = begin(two, 1)
    backup(path, tmp_path / "copy")
    mark(two, attempt)
    restore(path, tmp_path / "copy")
    with open_ledger(path) as older:
        with pytest.raises(LedgerRefusal, match="ledger repair"):
            settle(older)
        assert repair(older).spent == 1
        settle(older)
        assert states(older) == ["lost", "open"]


def test_what_runs_is_left_alone(two):
    attempt = new_id()
    with outside.running(attempt):
        with writing(two) as connection:
            releases.debit(connection, attempt, [1])
        settle(two)
        assert states(two) == ["debited", "open"]
        assert outside.is_running(attempt)
    assert not outside.is_running(attempt)
    settle(two)
    assert states(two) == ["open", "open"]


def backup(path, copy):
    shutil.copy(path, copy)
    wal = path.with_name(path.name + "-wal")
    if wal.exists():
        shutil.copy(wal, copy.with_name(copy.name + "-wal"))


def restore(path, copy):
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    shutil.copy(copy, path)
    wal = copy.with_name(copy.name + "-wal")
    if wal.exists():
        shutil.copy(wal, path.with_name(path.name + "-wal"))


@pytest.mark.parametrize(
    "when", ["before the round", "before the debit", "before the mark", "after the mark"]
)
def test_a_restored_backup_cannot_spend_twice(path, tmp_path, when):
    copy = tmp_path / "copy"
    with open_ledger(path) as ledger, writing(ledger) as connection:
        enter(connection, quotes([0.125], ["early"]))
    if when == "before the round":
        backup(path, copy)
    with open_ledger(path) as ledger, writing(ledger) as connection:
        number = enter(connection, quotes([0.5, 0.25])).number
    if when == "before the debit":
        backup(path, copy)
    with open_ledger(path) as ledger:
        with writing(ledger) as connection:
            rounds.withdraw(connection, number, ["søren 1"])
        attempt = begin(ledger, number)
    if when == "before the mark":
        backup(path, copy)
    with open_ledger(path) as ledger:
        mark(ledger, attempt)
    if when == "after the mark":
        backup(path, copy)
    with open_ledger(path) as ledger, writing(ledger) as connection:
        spent = (np.array([0.4, 0.0]), np.array([1.0, 0.0]))
        releases.release(connection, attempt, "{}", {number: spent})
    restore(path, copy)
    with open_ledger(path) as ledger:
        if when == "after the mark":
            settle(ledger)
        else:
            with pytest.raises(LedgerRefusal, match="does not know of 1 trainings"):
                settle(ledger)
            with pytest.raises(FileProblem, match="does not know"), reading(ledger) as connection:
                check_everything(connection, ledger)
            assert repair(ledger).spent == 1
        with reading(ledger) as connection:
            check_everything(connection, ledger)
            (entered,) = [found for found in rounds.rounds_of(connection) if found.state != "open"]
            assert entered.state == "lost"
            quoted = rounds.quotes_of(connection, entered.number)
            spent = dict(zip(quoted.get_column("seller"), rounds.spent_of(connection, entered), strict=True))
        assert spent["søren 0"] == 0.5
        assert spent.get("søren 1", 0.0) == 0.0  # had withdrawn before the debit
        with pytest.raises(LedgerRefusal, match="spent already"):
            begin(ledger, entered.number)
        settle(ledger)


def test_a_log_that_is_lost_or_older_is_found_and_written_again(two, state):
    attempt = begin(two, 1)
    with writing(two) as connection:
        releases.mark(connection, attempt, outside.read_log()[-1].digest)
    outside.append(two.id, attempt, "mark")
    shutil.rmtree(state)
    with pytest.raises(LedgerRefusal, match="DPMARKET_STATE"):
        settle(two)
    # What a newer copy of the ledger spent since, nobody knows: open promises count as spent.
    found = repair(two)
    assert (found.spent, found.logged) == (1, 1)
    settle(two)
    assert [line.kind for line in outside.read_log()] == ["debit", "mark"] * 2 + ["begun"]
    assert states(two) == ["lost", "lost"]
    assert repair(two) == Repair(0, 0, 0, 0)


def test_repair_changes_nothing_where_nothing_is_wrong(two):
    attempt = begin(two, 1)
    with writing(two) as connection:
        releases.give_back(connection, attempt)
    outside.append(two.id, attempt, "returned")
    found = repair(two)
    assert (found.spent, found.rounds, found.logged) == (0, 0, 0)
    assert states(two) == ["open", "open"]


def test_a_line_that_cannot_be_made_lasting_is_not_written(state, monkeypatch):
    """The folder is flushed first: afterwards nothing can fail that would leave the line."""
    outside.append("l", "a", "debit")

    def fails(folder):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(outside, "flush_to_disk", fails)
    with pytest.raises(FileProblem, match="Input/output error"):
        outside.append("l", "a", "mark")
    assert [line.kind for line in outside.read_log()] == ["debit"]


@pytest.mark.parametrize("copied", ["before both", "between"])
def test_two_logged_debits_of_one_round_are_repaired_to_one(path, tmp_path, copied):
    """The first died after it was given back and before that was logged."""
    with open_ledger(path) as ledger, writing(ledger) as connection:
        number = enter(connection, quotes([0.5, 0.25])).number
    if copied == "before both":
        backup(path, tmp_path / "copy")
    with open_ledger(path) as ledger:
        first = begin(ledger, number)
    if copied == "between":
        backup(path, tmp_path / "copy")
    with open_ledger(path) as ledger:
        with writing(ledger) as connection:
            assert releases.give_back(connection, first)
        mark(ledger, begin(ledger, number))
    restore(path, tmp_path / "copy")
    with open_ledger(path) as ledger:
        assert repair(ledger).spent == 1
        assert states(ledger) == ["lost"]
        settle(ledger)
        assert states(ledger) == ["lost"]


def test_an_attempt_that_was_given_back_may_be_debited_after_a_full_disk(two, monkeypatch):
    attempt = begin(two, 1)
    append = outside.append

    def full(ledger, attempt, kind, *rest, **more):
        if kind == "returned":
            raise FileProblem("no space")
        return append(ledger, attempt, kind, *rest, **more)

    monkeypatch.setattr(outside, "append", full)
    end_attempt(two, attempt)
    assert states(two) == ["open", "open"]
    second = begin(two, 1)
    mark(two, second)
    settle(two)
    assert states(two) == ["lost", "open"]


def test_a_restored_backup_does_not_forget_who_withdrew(path, tmp_path):
    with open_ledger(path) as ledger, writing(ledger) as connection:
        number = enter(connection, quotes([0.5, 0.25, 0.125])).number
    with open_ledger(path) as ledger, writing(ledger) as connection:
        assert withdraw(connection, number, ["søren 0"]) == 1
    backup(path, tmp_path / "copy")
    with open_ledger(path) as ledger, writing(ledger) as connection:
        assert withdraw(connection, number, ["søren 0", "søren 2"]) == 1
    restore(path, tmp_path / "copy")
    with open_ledger(path) as ledger:
        with pytest.raises(LedgerRefusal, match="does not know of all who withdrew"):
            settle(ledger)
        assert repair(ledger) == Repair(0, 0, 1, 0)
        settle(ledger)
        with reading(ledger) as connection:
            check_everything(connection, ledger)
            kept = rounds.kept_quotes(connection, number)
        assert kept.get_column("seller").to_list() == ["søren 1"]


def test_a_round_that_is_entered_anew_does_not_forget_who_withdrew(path, tmp_path):
    table = quotes([0.5, 0.25])
    with open_ledger(path) as ledger, writing(ledger) as connection:
        enter(connection, quotes([1.0], ["zoë"]))
    backup(path, tmp_path / "copy")
    with open_ledger(path) as ledger, writing(ledger) as connection:
        withdraw(connection, enter(connection, table, digest="same").number, ["søren 1"])
    restore(path, tmp_path / "copy")
    with open_ledger(path) as ledger:
        settle(ledger)
        with writing(ledger) as connection:
            number = enter(connection, table, digest="same").number
            assert enter_logged_withdrawals(connection, outside.read_log()) == 1
        settle(ledger)
        with reading(ledger) as connection:
            check_everything(connection, ledger)
            assert rounds.kept_quotes(connection, number).get_column("seller").to_list() == ["søren 0"]


def test_a_withdrawal_that_cannot_be_logged_is_none(two, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outside, "_write", full)
    with pytest.raises(FileProblem, match="No space"), writing(two) as connection:
        withdraw(connection, 1, ["søren 0"])
    with reading(two) as connection:
        assert rounds.count_withdrawn(connection, 1) == 0


def test_a_lost_ledger_is_not_begun_again_unnoticed_and_can_be_made_again(path):
    with open_ledger(path) as ledger:
        with writing(ledger) as connection:
            number = enter(connection, quotes([0.5, 0.25])).number
        settle(ledger)
        mark(ledger, begin(ledger, number))
        settle(ledger)
    for name in path.parent.glob("market.ledger*"):
        name.unlink()
    with pytest.raises(LedgerRefusal, match=r"there was a ledger at .* it is gone"):
        refuse_lost(path)
    assert not path.exists()
    with found_again(path) as again:
        assert (again.id, again.key) == (ledger.id, ledger.key)
        assert repair(again).spent == 1
        settle(again)
        assert states(again) == ["lost"]
        with reading(again) as connection:
            assert rounds.quotes_of(connection, 1).get_column("seller").to_list() == ["søren 0", "søren 1"]
    refuse_lost(path.with_name("other.ledger"))


def test_a_ledger_that_was_moved_or_is_done_with_leaves_its_place(path, tmp_path):
    with open_ledger(path) as ledger:
        with writing(ledger) as connection:
            number = enter(connection, quotes([0.5])).number
        settle(ledger)
        mark(ledger, begin(ledger, number))
        settle(ledger)
    moved = tmp_path / "moved.ledger"
    path.rename(moved)
    with open_ledger(moved) as ledger:
        settle(ledger)
    refuse_lost(path)
    moved.rename(path)
    with pytest.raises(LedgerRefusal, match="it is gone"):
        refuse_lost(moved)
    forget_place(moved)
    refuse_lost(moved)


def test_ledgers_share_a_log_and_do_not_mind_each_other(two, tmp_path):
    begin(two, 1)
    with open_ledger(tmp_path / "other.ledger") as other:
        settle(other)


def test_an_attempt_that_died_between_its_two_marks_is_lost_in_the_log_too(ledger):
    attempt = new_id()
    with writing(ledger) as connection:
        entered = enter(connection, quotes([0.1, 0.2]))
        releases.debit(connection, attempt, [entered.number])
    head, _ = log_debit(ledger, attempt, [entered])
    with writing(ledger) as connection:
        releases.mark(connection, attempt, head)
    end_attempt(ledger, attempt)
    assert [line.kind for line in outside.read_log()] == ["debit", "mark"]
    with reading(ledger) as connection:
        assert releases.release_with(connection, attempt).state == "lost"


@pytest.mark.slow
def test_a_server_is_one_place_by_whatever_address_it_is_reached(server):
    """Web and worker have addresses of their own: the log does not grow whenever one follows the other."""
    address = new_database(server)
    with open_ledger(address) as ledger, writing(ledger) as connection:
        enter(connection, quotes([0.5, 1.0]))
    for name in ("web", "worker", "web"):
        other = sa.make_url(address).update_query_dict({"application_name": name})
        with open_ledger(other.render_as_string(hide_password=False)) as ledger:
            settle(ledger)
    assert [line.kind for line in outside.read_log()] == ["begun"]


def test_what_a_dead_training_left_is_removed_and_what_a_living_one_shows_is_not(state, monkeypatch):
    with outside.running("living"):
        (state / "dead.running").touch()
        outside.forget_dead()
        assert [path.name for path in state.glob("*.running")] == ["living.running"]
        assert outside.is_running("living")
        assert not outside.is_running("dead")
    # A file that is taken for a dead one's before it is locked is made again.
    lock, taken = outside.fcntl.flock, []

    def removed_before(descriptor, how):
        if not taken:
            taken.append(descriptor)
            (state / "new.running").unlink()
        lock(descriptor, how)

    monkeypatch.setattr(outside.fcntl, "flock", removed_before)
    with outside.running("new"):
        assert outside.is_running("new")
    assert list(state.glob("*.running")) == []
