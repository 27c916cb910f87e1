"""Opening a ledger: what it makes, tightens and refuses."""

import contextlib
import errno
import os
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    check_ledger,
    existing_ledger,
    open_ledger,
    preparing,
    reading,
    rounds_of,
    tables,
    writing,
)
from support.desks import Desk
from support.ledgers import campaign_in, enter, new_database, quotes


def test_every_ledger_has_an_id_and_a_key_of_its_own(tmp_path):
    with open_ledger(tmp_path / "a.ledger") as first, open_ledger(tmp_path / "b.ledger") as second:
        assert first.id != second.id
        assert first.key != second.key
        assert len(first.key) == 32
    with open_ledger(tmp_path / "a.ledger") as again:
        assert (again.id, again.key) == (first.id, first.key)


def test_a_ledger_keeps_what_was_written_on_both_databases(place):
    with open_ledger(place) as ledger, writing(ledger) as connection:
        entered = enter(connection, quotes([0.5, 0.25]))
    with open_ledger(place) as ledger, reading(ledger) as connection:
        assert rounds_of(connection) == [entered]
        check_ledger(connection)


@pytest.mark.slow
def test_on_postgresql_a_ledger_keeps_what_was_written(server):
    """The one test on a server that is always run."""
    test_a_ledger_keeps_what_was_written_on_both_databases(new_database(server))


def test_a_step_that_raises_leaves_nothing(ledger):

    def fail():
        with writing(ledger) as connection:
            enter(connection, quotes([0.5]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with reading(ledger) as connection:
        assert rounds_of(connection) == []


def test_reading_writes_nothing(ledger, place):
    with reading(ledger) as connection:
        if ledger.path is None:
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(tables.ledger.update().values(revision=7))
        else:
            connection.execute(sa.select(tables.ledger))
    with reading(ledger) as connection:
        assert connection.execute(sa.select(tables.ledger.c.revision)).scalar() == 0


def test_only_its_owner_reads_a_ledger_also_if_others_could_before(tmp_path):
    path = tmp_path / "market.ledger"
    with open_ledger(path):
        assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    with open_ledger(path) as ledger, writing(ledger) as connection:
        enter(connection, quotes([0.5]))
        assert path.stat().st_mode & 0o077 == 0
        assert path.with_name("market.ledger-wal").stat().st_mode & 0o077 == 0


def test_what_is_no_regular_file_is_refused_and_its_mode_left_alone(tmp_path):
    """A ledger is made private; a device or a pipe is everybody's."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    for place, words in ((pipe, "a pipe or a device"), (tmp_path, "it is a folder")):
        before = place.stat().st_mode
        with pytest.raises(FileProblem, match=words), open_ledger(place):
            pass
        assert place.stat().st_mode == before


def test_writers_of_one_process_come_one_after_the_other(ledger):
    seen = []

    def add():
        with writing(ledger) as connection:
            value = connection.execute(sa.select(tables.ledger.c.revision)).scalar_one()
            seen.append(value)
            connection.execute(tables.ledger.update().values(revision=value + 1))

    threads = [threading.Thread(target=add) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(12))


def test_a_read_only_ledger_can_be_looked_at_and_not_written(tmp_path, monkeypatch):
    path = tmp_path / "market.ledger"
    with open_ledger(path) as ledger, writing(ledger) as connection:
        enter(connection, quotes([0.5]))
    monkeypatch.setattr("dpmarket.ledger.engine.os.access", lambda *_: False)
    with open_ledger(path) as ledger:
        with reading(ledger) as connection:
            check_ledger(connection)
            assert len(rounds_of(connection)) == 1
        with pytest.raises(FileProblem, match="read-only"), writing(ledger):
            pass
        # Not only the program's care: the file is opened so that nothing can be written.
        with pytest.raises(sa.exc.DBAPIError, match="readonly"), ledger.engine.connect() as connection:
            connection.execute(tables.ledger.update().values(revision=7))


def test_a_ledger_of_something_else_or_of_another_version_is_refused(tmp_path):
    path = tmp_path / "market.ledger"
    with pytest.raises(FileProblem, match="cannot find the ledger"), existing_ledger(path):
        pass
    path.write_text("this is no database, but text that is long enough" * 100)
    with pytest.raises(FileProblem, match="not a database"), existing_ledger(path):
        pass
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(FileProblem, match="something else"), existing_ledger(path):
        pass
    path.unlink()
    with open_ledger(path):
        pass
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE alembic_version")
    other.close()
    before = path.read_bytes()
    with (
        pytest.raises(FileProblem, match="expected revision ledger_1 of its tables, found none; another"),
        open_ledger(path),
    ):
        pass
    assert path.read_bytes() == before
    for wrong, words in (("mysql://host/x", "got one of mysql"), ("://x", "address")):
        with pytest.raises(FileProblem, match=words), open_ledger(wrong):
            pass


def test_a_table_of_something_else_is_not_taken_for_one_of_a_ledger(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'other'}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE campaign (x INTEGER)"))
    with pytest.raises(sa.exc.OperationalError, match="already exists"), engine.begin() as connection:
        preparing.make_tables(connection)
    engine.dispose()


@pytest.mark.slow
def test_a_server_with_a_table_of_something_else_is_refused(server):
    address = new_database(server)
    with open_ledger(address) as ledger, ledger.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE alembic_version, ledger"))
    with pytest.raises(FileProblem, match="it has tables of something else"), open_ledger(address):
        pass


def test_a_server_that_cannot_be_reached_is_named_without_its_password():
    address = "postgresql://ann:s3cret@127.0.0.1:1/nowhere"
    with pytest.raises(FileProblem, match="cannot be reached") as refusal, open_ledger(address):
        pass
    assert "s3cret" not in str(refusal.value)


def test_what_the_database_forbids_is_a_refusal_without_the_row(ledger):
    with writing(ledger) as connection:
        campaign_in(connection)
    with pytest.raises(LedgerRefusal) as refusal, writing(ledger) as connection:
        connection.execute(tables.account.update().values(pending=-7777))
    assert "account_signs" in str(refusal.value)
    assert "7777" not in str(refusal.value)


@pytest.mark.parametrize(
    "edit",
    [
        "ledger SET id = x'ff'",
        "ledger SET key = 'text'",
        "campaign SET minor_units = 'ten'",
        "release SET debited_at = x'00'",
        "page SET digest = x'00'",
        "round SET promised = 'much'",
        "account SET pending = 0.5",
        "payout SET lines = x'01'",
    ],
)
def test_a_file_takes_no_value_of_another_type_than_its_column(tmp_path, edit, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    desk = Desk(tmp_path / "desk")
    desk.quote()
    desk.train()
    desk.pay()
    with (
        contextlib.closing(sqlite3.connect(desk / "market.ledger")) as database,
        pytest.raises(sqlite3.IntegrityError, match="cannot store"),
    ):
        database.execute(f"UPDATE {edit}")


def test_a_full_disk_is_called_so_also_where_sqlite_has_another_word(tmp_path, monkeypatch):
    """SQLite cannot enlarge a file beside the ledger, and says that the disk does not work."""
    problem = sqlite3.OperationalError("disk I/O error")
    problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    with open_ledger(tmp_path / "people.ledger") as ledger:
        with pytest.raises(FileProblem, match=r"people\.ledger .* disk I/O error"), reading(ledger):
            raise problem
        monkeypatch.setattr(shutil, "disk_usage", _gone)
        with pytest.raises(FileProblem, match=r"people\.ledger .* disk I/O error"), reading(ledger):
            raise problem
        monkeypatch.setattr(
            shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(1 << 30, 1 << 30, 0)
        )
        with pytest.raises(FileProblem, match=r"people\.ledger .* the disk is full"), reading(ledger):
            raise problem
        with pytest.raises(FileProblem, match=r"people\.ledger .* the disk is full"):
            enter_too_much(ledger)


def test_a_ledger_that_cannot_be_made_whole_is_not_made(tmp_path, monkeypatch):
    def full(connection):
        connection.exec_driver_sql("CREATE TABLE half (made INTEGER)")
        connection.exec_driver_sql("PRAGMA max_page_count = 2")
        made(connection)

    made = preparing.make_tables
    monkeypatch.setattr(preparing, "make_tables", full)
    with (
        pytest.raises(FileProblem, match=r"^cannot use .*people\.ledger as a ledger: the disk is full\.$"),
        open_ledger(tmp_path / "people.ledger"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(preparing, "make_tables", made)
    with open_ledger(tmp_path / "people.ledger") as ledger, writing(ledger) as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]


def test_a_new_ledger_that_sqlite_could_not_finish_is_not_put_in_place(tmp_path, monkeypatch):
    """SQLite closes a file without a word when what it wrote beside it does not fit into it."""
    prepare = preparing.prepare_file

    def cut_off(engine, path, *, read_only):
        prepare(engine, path, read_only=read_only)
        engine.dispose()
        os.truncate(path, 60_000)

    with monkeypatch.context() as patch:
        patch.setattr("dpmarket.ledger.engine.prepare_file", cut_off)
        with (
            pytest.raises(FileProblem, match=r"people\.ledger as a ledger"),
            open_ledger(tmp_path / "people.ledger"),
        ):
            pass
    assert list(tmp_path.iterdir()) == []
    with open_ledger(tmp_path / "people.ledger") as ledger, reading(ledger) as connection:
        check_ledger(connection)


def no_links(code=errno.EPERM):
    """Return what stands for ``os.link`` on a file system without links."""

    def refuse(source, target):
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV, errno.EACCES])
def test_where_a_file_cannot_have_two_names_a_ledger_is_made_in_its_place(tmp_path, monkeypatch, code):
    monkeypatch.setattr(os, "link", no_links(code))
    with open_ledger(tmp_path / "people.ledger") as ledger:
        own = ledger.id
    with open_ledger(tmp_path / "people.ledger") as ledger:
        assert ledger.id == own
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]
    assert (tmp_path / "people.ledger").stat().st_mode & 0o077 == 0


def test_without_second_names_nothing_that_exists_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links())
    path = tmp_path / "copy"
    with pytest.raises(FileProblem, match="it exists"), preparing.whole_file(path):
        path.write_bytes(b"somebody was quicker")
    assert path.read_bytes() == b"somebody was quicker"
    assert [found.name for found in tmp_path.iterdir()] == ["copy"]


def test_who_is_killed_before_the_temporary_name_is_gone_leaves_it_to_the_next(tmp_path):
    path, other = tmp_path / "people.ledger", tmp_path / ".dpmarket-0123456789ab.tmp"
    with open_ledger(path) as ledger:
        own = ledger.id
    os.link(path, tmp_path / ".dpmarket-ba9876543210.tmp")
    os.link(path, tmp_path / "kept on purpose")
    other.write_bytes(b"of somebody who is making a ledger")
    with open_ledger(path) as ledger:
        assert ledger.id == own
    assert sorted(found.name for found in tmp_path.iterdir()) == [other.name, "kept on purpose", path.name]


def test_long_names_can_be_used_and_longer_ones_are_refused_in_words(tmp_path):
    with open_ledger(tmp_path / ("x" * 240)) as ledger, writing(ledger) as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    with pytest.raises(FileProblem, match="name too long"), open_ledger(tmp_path / ("x" * 256)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x" * 240]


def test_processes_that_make_a_ledger_at_once_have_one(tmp_path):
    def opened(_):
        with open_ledger(tmp_path / "people.ledger") as ledger:
            return ledger.id, ledger.key

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(opened, range(16)))) == 1


def _gone(folder):
    raise FileNotFoundError


def enter_too_much(ledger):
    with writing(ledger) as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages:d}")
        campaign_in(connection, "x" * 100_000)
