"""A drill: back up, go on, lose the database, restore. Nothing is spent twice, nobody who left is back."""

import base64
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import back_up, check_everything, put_back, reading
from dpmarket.market import Caller, check_market, work
from dpmarket.web.backups import back_up_service
from dpmarket.web.checkup import check_service
from dpmarket.web.running import opened
from dpmarket.web.settings import read_settings
from dpmarket.web.setup import init_service, invite_member
from support.commands import run
from support.ledgers import new_database, postgres_server
from support.live import DELIVER, SOLD, Live


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def service(request, tmp_path, monkeypatch):
    """A service's folder, and a function that makes its database be lost."""
    for name in ("DPMARKET_STATE", "DPMARKET_MASTER_KEY_FILE"):
        monkeypatch.setenv(name, "")  # so that what the service sets is undone
        monkeypatch.delenv(name)
    folder = tmp_path / "service"
    if request.param == "sqlite":
        init_service(folder, "A. Operator")

        def lose():
            for path in (folder / "data").iterdir():
                path.rename(tmp_path / f"lost {path.name}")

        return folder, lose
    address = request.getfixturevalue("server")
    import pgserver

    programs = Path(pgserver.__file__).parent / "pginstall" / "bin"
    monkeypatch.setenv("DPMARKET_POSTGRES_PROGRAMS", str(programs))
    monkeypatch.setenv("DPMARKET_DATABASE_URL", new_database(address))
    init_service(folder, "A. Operator")

    def lose():
        monkeypatch.setenv("DPMARKET_DATABASE_URL", new_database(address))

    return folder, lose


def test_the_drill(service, tmp_path):
    folder, lose = service
    backup = tmp_path / "monday"
    with opened(read_settings(folder)) as desk:
        spring, autumn = Live(desk), Live(desk, title="autumn")
        early, leaving = (spring.newcomer(name, *SOLD) for name in ("early", "leaving"))
        gone, stays = (autumn.newcomer(name, *SOLD) for name in ("gone", "stays"))
        (uninvited,) = autumn.invite("uninvited")
        autumn.withdraw(uninvited)
        assert json.loads(run("service", "backup", folder, backup, "--json").stdout)["bytes"] > 0
        spring.withdraw(leaving)
        autumn.withdraw(gone)
        assert autumn.withdraw(uninvited) == "no invitations"
        late = spring.newcomer("late", *SOLD)
        spring.close()
        assert spring.train() == "released"
        owed = spring.balance().owed
        spent = {who: spring.limits(who).spent for who in (early, late)}
    assert run("service", "restore", folder, backup, code=1).stderr  # there is a database
    lose()
    done = json.loads(run("service", "restore", folder, backup, "--json").stdout)
    assert (done["spent"], done["rounds"]) == (1, 1)
    with opened(read_settings(folder)) as desk:
        spring.desk = autumn.desk = desk
        assert spring.state() == "lost"  # spent and paid, and its key is gone: nobody trains it again
        assert spring.balance().owed == owed
        assert spring.state(early) == "spent"
        assert spent[early] <= spring.limits(early).spent <= spent[early] + 1e-5
        assert spring.state(leaving) == "expired"
        assert autumn.state() == "open"
        assert (autumn.state(gone), autumn.state(stays)) == ("withdrawn", "delivered")
        records = sa.text("SELECT participation FROM record")
        assert autumn.looked(lambda connection: connection.execute(records).scalars().all()) == [stays]
        asked = sa.text("SELECT count(*) FROM person WHERE invitations = 0")
        assert autumn.looked(lambda connection: connection.execute(asked).scalar()) == 1
        paymaster = Caller("paymaster", "p")
        lines = market.make_payout(desk, paymaster, spring.campaign, spring.now)
        assert sum(line.amount for line in lines) == owed
        # The other campaign goes on with who stayed.
        autumn.now = DELIVER
        done = [job.kind for job in work(desk, DELIVER) if job.campaign == autumn.campaign]
        assert done == ["close", "train", "certify"]
        assert (autumn.state(), autumn.state(stays)) == ("released", "spent")
        with reading(desk.ledger) as connection:
            check_everything(connection, desk.ledger)
            check_market(connection)
    assert check_service(folder, tells_time=lambda: datetime.now(UTC) + timedelta(seconds=1)) == []


def test_a_restore_ends_what_lets_members_in(service, tmp_path):
    """A token that was revoked after the backup would be good again."""
    folder, lose = service
    run("service", "backup", folder, tmp_path / "copy")
    before = json.loads(run("service", "members", folder, "--json").stdout)
    assert sum(one["tokens"] for one in before) > 0
    lose()
    run("service", "restore", folder, tmp_path / "copy")
    after = json.loads(run("service", "members", folder, "--json").stdout)
    assert [(one["id"], one["tokens"]) for one in after] == [(one["id"], 0) for one in before]
    assert "link" in json.loads(run("service", "new-link", folder, after[0]["id"], "--json").stdout)


def test_a_database_that_is_put_back_by_hand_is_refused_until_it_is_repaired(service, tmp_path):
    """As somebody does it who has not read about 'service restore'."""
    folder, lose = service
    settings = read_settings(folder)
    with opened(settings) as desk:
        live = Live(desk)
        who = live.newcomer("a", *SOLD)
        back_up(settings.database, tmp_path / "copy", settings.postgres_programs)
        live.close()
        live.train()
    lose()
    settings = read_settings(folder)
    put_back(tmp_path / "copy", settings.database, settings.postgres_programs)
    with pytest.raises(LedgerRefusal, match="enters everything as spent"), opened(settings):
        pass
    assert [one.kind for one in check_service(folder)][:1] == ["log"]
    refused = run("serve", folder, "--port", "0", "--metrics-port", "0", "--no-worker", code=1).stderr
    assert "dpmarket ledger repair" in refused
    run("ledger", "repair", settings.database)
    with opened(settings) as live.desk:
        assert (live.state(), live.state(who)) == ("lost", "spent")


def test_a_database_that_is_lost_is_not_begun_anew(service):
    """A disk that is not mounted, or another name of it, must not make a service that knows nobody."""
    folder, lose = service
    lose()
    found = check_service(folder)
    assert {one.kind for one in found} <= {"books", "schema"}
    assert all("service restore" in one.todo for one in found)
    with pytest.raises(FileProblem, match="service restore"), opened(read_settings(folder)):
        pass
    with pytest.raises(FileProblem, match="service restore"):
        invite_member(folder, "A clinic", "buyer")
    assert check_service(folder) == found != []


def test_a_clock_that_is_apart_from_the_servers_is_found(service):
    """A clock that is ahead is known by another one only."""
    folder, _ = service
    found = check_service(folder, tells_time=lambda: datetime.now(UTC) + timedelta(minutes=51))
    on_server = "://" in str(read_settings(folder).database)
    assert [one.kind for one in found] == ["clock"] * on_server
    assert all("the database server's clock is 51 min from this one" in one.found for one in found)


def test_no_private_key_is_in_a_backup(service, tmp_path):
    folder, _ = service
    with opened(read_settings(folder)) as desk:
        live = Live(desk)
        live.newcomer("a", *SOLD)
        run("service", "backup", folder, tmp_path / "copy")
        content = (tmp_path / "copy").read_bytes()
        if content.startswith(b"PGDMP"):  # compressed: look at what comes out
            content = _plain(tmp_path / "copy")
        keys = [path.read_bytes() for path in sorted(desk.keys.iterdir())]
        public = live.looked(market.campaign_of, live.campaign).public_key
    assert len(keys) == 2
    assert bytes(public) in content or bytes(public).hex().encode() in content  # what is there is found
    for key in keys:
        assert len(key) == 32
        for form in (key, key.hex().encode(), base64.b64encode(key), base64.urlsafe_b64encode(key)):
            assert form not in content
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0


def _plain(path):
    import subprocess

    program = Path(os.environ["DPMARKET_POSTGRES_PROGRAMS"]) / "pg_restore"
    return subprocess.run([program, "--file=-", path], capture_output=True, check=True).stdout


def test_a_restore_of_what_is_no_backup_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    folder = tmp_path / "service"
    init_service(folder, "A. Operator")
    shutil.rmtree(folder / "data")
    (folder / "data").mkdir(mode=0o700)
    (tmp_path / "text").write_text("canary")
    done = run("service", "restore", folder, tmp_path / "text", code=1)
    assert done.stderr == f"dpmarket: cannot put back {tmp_path / 'text'}: it is no copy of a ledger.\n"
    assert list((folder / "data").iterdir()) == []
    with pytest.raises(FileProblem, match="service init"):
        back_up_service(tmp_path, tmp_path / "x")
