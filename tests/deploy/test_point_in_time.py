"""PostgreSQL's point-in-time recovery brings back an old database; the anti-rollback log refuses it."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from dpmarket.campaign.acts import OWNER, id_of
from dpmarket.campaign.checks import books
from dpmarket.campaign.database import open_market
from dpmarket.campaign.repair import repair
from dpmarket.campaign.views import show_money
from dpmarket.errors import FileProblem
from outside.driver import until
from support.shop import SOLD, open_shop

pytestmark = pytest.mark.slow
PROGRAMS = Path(find_spec("pgserver").origin).parent / "pginstall" / "bin"
USER = {"user": "nobody"} if os.geteuid() == 0 else {}  # a server refuses to run as root


def call(program, *arguments):
    command = [str(PROGRAMS / program), *map(str, arguments)]
    subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=120, **USER)


@contextlib.contextmanager
def folder_for_server():
    made = Path(tempfile.mkdtemp(prefix="recovery-"))
    try:
        if USER:
            shutil.chown(made, USER["user"])
        yield made
    finally:
        shutil.rmtree(made)


@contextlib.contextmanager
def running(data, log):
    call("pg_ctl", "-D", data, "-l", log, "-w", "start")
    try:
        yield
    finally:
        call("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


def test_a_market_recovered_to_before_its_training_is_refused_then_repaired_and_pays_once(tmp_path):
    with folder_for_server() as place, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        data, old, archive = place / "data", place / "old", place / "archive"
        call("initdb", "-D", data, "-U", "market", "--auth=trust")
        subprocess.run(["mkdir", archive], check=True, **USER)
        settings = {
            "port": port, "unix_socket_directories": place, "listen_addresses": "127.0.0.1", "fsync": "off",
            "archive_mode": "on", "archive_command": f"cp %p {archive}/%f",
            "restore_command": f"cp {archive}/%f %p", "recovery_target_name": "before",
            "recovery_target_action": "promote",
        }  # fmt: skip
        with open(data / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        address = f"postgresql://market@127.0.0.1:{port}/postgres"
        with running(data, place / "log"):
            call("pg_basebackup", "-D", old, "-h", "127.0.0.1", "-p", port, "-U", "market")
            with open_shop(tmp_path, database_url=address) as shop:
                folders = (shop.settings.state_folder, shop.settings.keys)
                campaign = shop.open()
                offered = [shop.seller(campaign, *SOLD).me()["payment"] for _ in range(3)]
                with psycopg.connect(address, autocommit=True) as server:
                    server.execute("select pg_create_restore_point('before')")
                shop.clock.pass_(days=9.1)
                shop.work()
                assert shop.members["buyer"].campaign(campaign)["state"] == "released"
            with psycopg.connect(address, autocommit=True) as server:
                server.execute("select pg_switch_wal()")
        (old / "recovery.signal").touch()
        with running(old, place / "log"):
            with psycopg.connect(address, autocommit=True) as server:
                until(lambda: not server.execute("select pg_is_in_recovery()").fetchone()[0])
            with (
                open_market(address, *folders) as market,
                pytest.raises(FileProblem, match="commit points that it lacks"),
            ):
                market.verify()
            assert repair(address, *folders) == ["spend"]
            with open_market(address, *folders) as market, market.look() as c:
                assert books(c) == []
                assert show_money(c, OWNER, id_of(campaign)).owed == sum(offered)
