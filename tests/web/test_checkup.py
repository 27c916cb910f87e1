"""``dpmarket service check`` finds what is wrong, says what to do, and changes nothing."""

import contextlib
import json
import os
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from dpmarket.errors import FileProblem
from dpmarket.ledger import writing
from dpmarket.market import tables
from dpmarket.market.desk import time_text
from dpmarket.web.checkup import check_service
from dpmarket.web.running import opened
from dpmarket.web.settings import read_settings
from dpmarket.web.setup import init_service, invite_member
from support.commands import run
from support.live import SOLD, Live


@pytest.fixture(autouse=True)
def own_state(monkeypatch):
    monkeypatch.delenv("DPMARKET_STATE", raising=False)
    monkeypatch.delenv("DPMARKET_MASTER_KEY_FILE", raising=False)
    before = dict(os.environ)
    yield
    for name in ("DPMARKET_STATE", "DPMARKET_MASTER_KEY_FILE"):
        os.environ.pop(name, None)
    os.environ.update(before)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "service"
    init_service(made, "A. Operator")
    return made


@contextlib.contextmanager
def desk_of(folder):
    with opened(read_settings(folder)) as desk:
        yield desk


def sold(folder, seats=3):
    """Return a campaign with somebody who delivered."""
    with desk_of(folder) as desk:
        live = Live(desk, seats=seats)
        live.newcomer("a", *SOLD)
    return live


def found_in(folder, **options):
    """Return what is wrong, but for jobs: the campaigns here were due long ago, and nobody works."""
    return [one for one in check_service(folder, **options) if one.kind != "jobs"]


def kinds(folder, **options):
    return [one.kind for one in found_in(folder, **options)]


def snapshot(folder):
    return {
        path: (path.stat().st_mode, path.is_file() and (path.stat().st_mtime_ns, path.read_bytes()))
        for path in sorted(folder.rglob("*"))
    }


def test_a_service_that_was_just_made_is_well_and_looking_changes_nothing(folder):
    before = snapshot(folder)
    assert check_service(folder) == []
    assert snapshot(folder) == before
    done = run("service", "check", folder)
    assert done.stdout == "All is well\n"
    assert json.loads(run("service", "check", folder, "--json").stdout) == {"well": True, "findings": []}


def test_without_a_service_one_line_says_so(tmp_path):
    with pytest.raises(FileProblem, match="service init"):
        check_service(tmp_path)
    assert "service init" in run("service", "check", tmp_path, code=1).stderr


@pytest.mark.parametrize("name", [".", "settings.toml", "data/market.ledger", "keys", "state", "data"])
def test_a_mode_that_lets_others_in_is_found_with_the_command_that_mends_it(folder, name):
    path = folder / name
    path.chmod(path.stat().st_mode | 0o044)
    (finding,) = check_service(folder)
    assert finding.kind == "mode"
    assert finding.todo.startswith("chmod ")
    assert finding.todo.endswith(str(path.resolve() if name == "." else path))
    done = run("service", "check", folder, code=1)
    assert done.stdout.startswith("1 finding\n  mode: others can use")
    mode, target = finding.todo.split()[1:]
    os.chmod(target, int(mode, 8))
    assert check_service(folder) == []


def test_a_key_that_others_can_read_is_found(folder):
    (key,) = (folder / "keys").glob("operator-*.key")
    key.chmod(0o640)
    assert [one.todo for one in check_service(folder)] == [f"chmod 600 {key}"]


def test_missing_keys_are_found(folder, tmp_path):
    live = sold(folder)
    (key,) = (folder / "keys").glob(f"{live.campaign}-*.key")
    shutil.move(key, tmp_path / "aside")
    (finding,) = found_in(folder)
    assert finding.kind == "keys"
    assert live.campaign in finding.found
    shutil.move(tmp_path / "aside", key)
    assert found_in(folder) == []
    (operator,) = (folder / "keys").glob("operator-*.key")
    operator.unlink()
    (finding,) = found_in(folder)
    assert "payees" in finding.todo


def test_keys_wrapped_by_another_master_key_and_a_missing_master_key_are_found(folder, tmp_path):
    master = tmp_path / "master"
    master.write_text("ab" * 32)
    master.chmod(0o600)
    settings = folder / "settings.toml"
    settings.write_text(settings.read_text() + f'master_key_file = "{master}"\n')
    with desk_of(folder):
        pass  # wraps the keys
    assert check_service(folder) == []
    master.write_text("cd" * 32)
    (finding,) = found_in(folder)
    assert (finding.kind, "another master key" in finding.found) == ("keys", True)
    master.unlink()
    assert kinds(folder) == ["keys", "keys"]


def test_a_key_of_a_campaign_that_is_over_is_found(folder, tmp_path):
    live = sold(folder)
    (key,) = (folder / "keys").glob(f"{live.campaign}-*.key")
    shutil.copy(key, tmp_path / "copy")
    with desk_of(folder) as live.desk:
        live.close()
        live.train()
    assert kinds(folder) == []
    shutil.copy(tmp_path / "copy", key)
    assert "still there" in " ".join(one.found for one in check_service(folder))


def test_tables_of_another_revision_are_found(folder):
    with desk_of(folder) as desk:
        for table, value in (("market_version", "market_5"), ("alembic_version", "version_3")):
            with writing(desk.ledger) as connection:
                trial = sa.text(f"SELECT version_num FROM {table}")
                before = connection.execute(trial).scalar_one()
                connection.execute(sa.text(f"UPDATE {table} SET version_num = '{value}'"))
            (finding,) = found_in(folder)
            assert finding.kind == "schema"
            assert value in finding.found
            assert "install the version" in finding.todo
            with writing(desk.ledger) as connection:
                connection.execute(sa.text(f"UPDATE {table} SET version_num = '{before}'"))
    assert check_service(folder) == []


def test_books_that_do_not_balance_are_found(folder):
    sold(folder)
    with desk_of(folder) as desk, writing(desk.ledger) as connection:
        connection.execute(tables.person.update().values(held_epsilon=tables.person.c.held_epsilon / 2))
    (finding,) = found_in(folder)
    assert finding.kind == "books"
    assert "epsilon does not add up" in finding.found


@pytest.mark.parametrize(("attempts", "error", "told"), [(8, "LedgerRefusal", 1), (7, "FileProblem", 0)])
def test_what_is_put_off_again_and_again_is_found(folder, attempts, error, told):
    campaign = sold(folder).campaign
    job, due = tables.job, time_text(datetime.now(UTC) + timedelta(minutes=9))
    row = {"id": "j", "kind": "train", "campaign": campaign, "state": "waiting", "attempts": attempts}
    with desk_of(folder) as desk, writing(desk.ledger) as connection:
        connection.execute(job.delete())
        connection.execute(job.insert().values(**row, error_kind=error, due_at=due))
    found = [one.found for one in check_service(folder) if "tried" in one.found]
    assert (
        found
        == [f"campaign {campaign}: 'train' was tried 8 times (LedgerRefusal), and is tried again."] * told
    )


def test_a_ledger_that_is_gone_is_found(folder):
    for path in (folder / "data").iterdir():
        path.unlink()
    (finding,) = found_in(folder)
    assert (finding.kind, "service restore" in finding.todo) == ("books", True)
    assert list((folder / "data").iterdir()) == []


@pytest.mark.parametrize("rest", ["nothing", "empty", "no tables"])
def test_a_service_whose_ledger_is_gone_is_not_begun_anew(folder, tmp_path, rest):
    """A disk that is not mounted must not become a service that has forgotten everybody."""
    for path in (folder / "data").iterdir():
        path.unlink()
    if rest == "empty":
        (folder / "data" / "market.ledger").touch()
    elif rest == "no tables":
        with contextlib.closing(sqlite3.connect(folder / "data" / "market.ledger")) as file:
            file.executescript("CREATE TABLE one (x); DROP TABLE one")
        assert (folder / "data" / "market.ledger").stat().st_size > 0
    before = snapshot(folder)
    for command in (["serve", folder, "--port", "0", "--metrics-port", "0"], ["worker", folder]):
        refused = run(*command, code=1).stderr
        assert "database is not there" in refused
        assert len(refused.splitlines()) == 1
    with pytest.raises(FileProblem, match="service restore"):
        invite_member(folder, "A clinic", "buyer")
    assert snapshot(folder) == before
    refused = run("service", "backup", folder, tmp_path / "copy", code=1).stderr
    assert not refused.endswith("..\n")
    assert list(tmp_path.glob("*copy*")) == []


def test_a_service_that_could_not_be_made_can_be_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_DATABASE_URL", "postgresql://market@127.0.0.1:1/none")
    with pytest.raises(FileProblem):
        init_service(tmp_path / "service", "A. Operator")
    monkeypatch.delenv("DPMARKET_DATABASE_URL")
    assert init_service(tmp_path / "service", "A. Operator").role == "operator"
    assert check_service(tmp_path / "service") == []


@pytest.mark.parametrize("what", ["lost", "edited", "behind"])
def test_a_log_outside_that_is_lost_edited_or_an_older_copy_is_found(folder, tmp_path, what):
    live = sold(folder)
    with desk_of(folder) as live.desk:
        shutil.copytree(folder / "state", tmp_path / "older")
        live.close()
        live.train()
        other = Live(live.desk, title="autumn")
        other.newcomer("b", *SOLD)
        if what == "behind":
            shutil.rmtree(tmp_path / "older")
            shutil.copytree(folder / "state", tmp_path / "older")
        other.close()
        other.train()
    log = folder / "state" / "spent.log"
    if what == "lost":
        log.unlink()
    elif what == "edited":
        log.write_bytes(log.read_bytes().replace(b"debit", b"debut", 1))
    else:
        shutil.copy(tmp_path / "older" / "spent.log", log)
    found = [one for one in check_service(folder) if one.kind == "log"]
    assert len(found) == 1
    assert "repair" in found[0].todo
    assert ("chain is broken" in found[0].found) == (what == "edited")


@pytest.mark.parametrize(
    ("behind", "zone"),
    [(timedelta(seconds=40), False), (timedelta(hours=2), True), (timedelta(minutes=51), False)],
)
def test_a_clock_behind_the_newest_entry_is_found_and_a_time_zone_guessed(folder, behind, zone):
    made = datetime.now(UTC)
    (finding,) = check_service(folder, tells_time=lambda: made - behind)
    assert finding.kind == "clock"
    assert ("time zone" in finding.found) == zone
    assert "timedatectl" in finding.todo
    assert check_service(folder, tells_time=lambda: made + timedelta(days=1)) == []


def test_a_disk_without_room_is_found(folder, monkeypatch):
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000_000))
    found = check_service(folder)
    assert {one.kind for one in found} == {"disk"}
    assert {one.found.split(" in ")[1].split(",")[0] for one in found} >= {str(folder / "data")}


def test_a_worker_that_is_missing_is_found(folder):
    live = sold(folder)
    late = datetime.now(UTC) + timedelta(days=400)
    (finding,) = check_service(folder, tells_time=lambda: late)
    assert (finding.kind, live.campaign in finding.found) == ("jobs", True)
    assert "dpmarket worker" in finding.todo


def test_an_address_without_tls_is_found(folder, monkeypatch):
    monkeypatch.setenv("DPMARKET_PUBLIC_URL", "http://market.example")
    assert kinds(folder) == ["address"]
    monkeypatch.setenv("DPMARKET_PUBLIC_URL", "https://market.example")
    assert kinds(folder) == []


def test_no_finding_holds_a_value_of_a_row_or_a_password(folder, monkeypatch):
    sold(folder)
    monkeypatch.setenv("DPMARKET_DATABASE_URL", "postgresql://market:canary@127.0.0.1:1/none")
    (finding,) = found_in(folder)
    assert "canary" not in finding.found + finding.todo
    assert finding.kind == "books"
