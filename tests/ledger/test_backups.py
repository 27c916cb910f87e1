"""A backup is one private file, whole or not there, of the moment at which it was made."""

import os
import shutil
import sqlite3
import stat
import threading

import pytest

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    back_up,
    check_everything,
    existing_ledger,
    open_ledger,
    outside,
    put_back,
    reading,
    releases,
    repair,
    rounds_of,
    settle,
    writing,
)
from dpmarket.ledger.attempts import describe_round
from dpmarket.ledger.engine import new_id
from support.ledgers import enter, new_database, quotes


@pytest.fixture
def programs():
    import pgserver

    return os.path.join(os.path.dirname(pgserver.__file__), "pginstall", "bin")


@pytest.fixture
def another(place, request, tmp_path):
    """Where the same kind of ledger can go."""
    if isinstance(place, os.PathLike):
        return tmp_path / "another.ledger"
    return new_database(request.getfixturevalue("server"))


def options(place, request):
    """Name the programs of the server, where there is one."""
    return {} if isinstance(place, os.PathLike) else {"programs": request.getfixturevalue("programs")}


def test_a_backup_is_private_and_whole_and_comes_back_as_it_was(place, another, tmp_path, request):
    more = options(place, request)
    with open_ledger(place) as ledger:
        with writing(ledger) as connection:
            enter(connection, quotes([0.5, 0.25]))
        made = back_up(place, tmp_path / "monday", **more)
        with writing(ledger) as connection:
            enter(connection, quotes([0.1]), name="later")
        identity = ledger.id
    assert made.path == tmp_path / "monday"
    assert made.size == made.path.stat().st_size > 0
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
    put_back(made.path, another, **more)
    with existing_ledger(another) as ledger, reading(ledger) as connection:
        check_everything(connection, ledger)
        assert ledger.id == identity
        assert len(rounds_of(connection)) == 1


def test_nothing_is_written_over(place, another, tmp_path, request):
    more = options(place, request)
    with open_ledger(place):
        pass
    back_up(place, tmp_path / "monday", **more)
    before = (tmp_path / "monday").read_bytes()
    with pytest.raises(FileProblem, match="exists"):
        back_up(place, tmp_path / "monday", **more)
    assert (tmp_path / "monday").read_bytes() == before
    with pytest.raises(FileProblem, match=r"exists; stop|has tables"):
        put_back(tmp_path / "monday", place, **more)
    put_back(tmp_path / "monday", another, **more)


def test_a_ledger_is_copied_while_others_write_and_every_copy_adds_up(place, tmp_path, request):
    more = options(place, request)
    with open_ledger(place) as ledger:
        begun, ended = threading.Event(), threading.Event()

        def write():
            while not ended.is_set():
                with writing(ledger) as connection:
                    enter(connection, quotes([0.5, 0.25, 0.125]))
                begun.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert begun.wait(60.0)
            copies = [back_up(place, tmp_path / f"copy {k}", **more).path for k in range(4)]
        finally:
            ended.set()
            thread.join()
    if more:
        return  # PostgreSQL's own snapshot; one copy is put back above
    counts = []
    for copy in copies:
        with existing_ledger(copy) as opened, reading(opened) as connection:
            check_everything(connection, opened)
            counts.append(len(rounds_of(connection)))
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_what_is_no_copy_or_damaged_or_of_another_revision_is_refused_and_leaves_nothing(tmp_path):
    place, copy = tmp_path / "a.ledger", tmp_path / "copy"
    with open_ledger(place) as ledger, writing(ledger) as connection:
        enter(connection, quotes([0.5, 0.25]))
    back_up(place, copy)
    broken = bytearray(copy.read_bytes())
    broken[5000:9000] = bytes(4000)
    (tmp_path / "broken").write_bytes(broken)
    (tmp_path / "text").write_text("no database\n")
    for name, statement in (
        ("earlier", "DROP TABLE alembic_version"),
        ("later", "UPDATE alembic_version SET version_num = 'ledger_99'"),
        ("other", "PRAGMA application_id = 7"),
    ):
        shutil.copy(copy, tmp_path / name)
        connection = sqlite3.connect(tmp_path / name, isolation_level=None)
        connection.execute(statement)
        connection.close()
    wanted = tmp_path / "wanted.ledger"
    for name, words in (
        ("broken", "damaged|malformed"),
        ("text", "no copy of a ledger"),
        ("earlier", "expected revision ledger_1 of its tables, found none"),
        ("later", "found ledger_99; another version of dpmarket wrote it"),
        ("other", "something else"),
        ("missing", "No such file"),
    ):
        with pytest.raises(FileProblem, match=words):
            put_back(tmp_path / name, wanted)
        assert not wanted.exists()
    with pytest.raises(FileProblem, match="a copy of a file, and the place is a PostgreSQL database"):
        put_back(copy, "postgresql://nobody@localhost/none")
    with pytest.raises(FileProblem, match="cannot find the ledger"):
        back_up(tmp_path / "missing", tmp_path / "x")
    for name in ("earlier", "other"):
        with pytest.raises(FileProblem, match=f"cannot use {tmp_path / name}: "):
            back_up(tmp_path / name, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


def test_a_disk_that_is_full_leaves_no_half_of_a_backup(tmp_path, monkeypatch):
    place = tmp_path / "a.ledger"
    with open_ledger(place):
        pass

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileProblem, match="No space left"):
        back_up(place, tmp_path / "copy")
    assert sorted(os.listdir(tmp_path)) == ["a.ledger"]


@pytest.mark.slow
def test_programs_of_another_version_are_refused(server, tmp_path, programs):
    place = new_database(server)
    with open_ledger(place):
        pass
    with pytest.raises(FileProblem, match="cannot find pg_dump"):
        back_up(place, tmp_path / "copy", programs=tmp_path)
    other = tmp_path / "pg_dump"
    other.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    other.chmod(0o700)
    with pytest.raises(FileProblem, match="found 9; name the folder"):
        back_up(place, tmp_path / "copy", programs=tmp_path)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("marked", [False, True], ids=["debit", "mark"])
def test_a_backup_from_before_a_logged_debit_or_mark_is_refused_until_repaired_as_spent(
    place, another, tmp_path, request, marked
):
    more = options(place, request)
    with open_ledger(place) as ledger:
        with writing(ledger) as connection:
            number = enter(connection, quotes([0.5, 0.25])).number
        settle(ledger)
        back_up(place, tmp_path / "copy", **more)
        attempt = new_id()
        with writing(ledger) as connection:
            releases.debit(connection, attempt, [number])
            known = describe_round(connection, rounds_of(connection)[0], attempt, 0)
        outside.append(ledger.id, attempt, "debit", [known])
        if marked:
            with writing(ledger) as connection:
                releases.mark(connection, attempt)
            outside.append(ledger.id, attempt, "mark")
    put_back(tmp_path / "copy", another, **more)
    with existing_ledger(another) as ledger:
        with pytest.raises(LedgerRefusal, match="enters everything as spent"):
            settle(ledger)
        assert repair(ledger).spent == 1
        settle(ledger)
        with reading(ledger) as connection:
            check_everything(connection, ledger)
            assert [one.state for one in rounds_of(connection)] == ["lost"]
