"""The log outside: chained, on the disk, and stronger than a backup that was put back."""

import json
import shutil

import numpy as np
import pytest

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    check_everything,
    check_ledger,
    open_ledger,
    outside,
    reading,
    releases,
    repair,
    rounds,
    settle,
    writing,
)
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.restoring import describe_round
from support.ledgers import enter, quotes


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
    outside.append("l", "a", "debit", [{"identity": "x"}])
    outside.append("l", "a", "mark")
    lines = outside.read_log()
    assert [(line.kind, line.rounds) for line in lines] == [("debit", ({"identity": "x"},)), ("mark", ())]
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


def test_dead_between_debit_and_log_is_undone(two):
    attempt = new_id()
    with writing(two) as connection:
        releases.debit(connection, attempt, [1])
    settle(two)
    assert states(two) == ["open", "open"]
    assert outside.read_log() == []


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
    assert repair(two).logged == 1
    settle(two)
    assert [line.kind for line in outside.read_log()] == ["debit", "mark"]
    assert states(two) == ["lost", "open"]


def test_repair_changes_nothing_where_nothing_is_wrong(two):
    attempt = begin(two, 1)
    with writing(two) as connection:
        releases.give_back(connection, attempt)
    outside.append(two.id, attempt, "returned")
    found = repair(two)
    assert (found.spent, found.rounds, found.logged) == (0, 0, 0)
    assert states(two) == ["open", "open"]


def test_ledgers_share_a_log_and_do_not_mind_each_other(two, tmp_path):
    begin(two, 1)
    with open_ledger(tmp_path / "other.ledger") as other:
        settle(other)
