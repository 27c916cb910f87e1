"""Desks that earlier versions wrote are brought up to date and go on; later ones are refused, unchanged."""

import re
import sqlite3
import tarfile
from pathlib import Path

import pytest
import sqlalchemy as sa

import dpmarket as dpm
from dpmarket import market
from dpmarket.errors import FileProblem
from dpmarket.ledger import check_everything, open_ledger, reading, writing
from dpmarket.market import tables
from dpmarket.market.desk import desk_revision
from support.live import DELIVER, START

STORED = {path.name.removesuffix(".tar.gz"): path for path in (Path(__file__).parent / "data").iterdir()}
VERSIONS = Path(market.__path__[0]) / "migrations" / "versions"


@pytest.fixture
def unpacked(tmp_path, state, request):
    """A stored desk's folder, with its log outside where the test looks for it."""
    with tarfile.open(STORED[request.param]) as archive:
        archive.extractall(tmp_path, filter="data")
    assert (state / "spent.log").exists()
    return tmp_path


def test_every_earlier_revision_has_a_stored_desk():
    """Make one with make_stored.py from the last commit before a new revision."""
    assert set(STORED) >= set(tables.EARLIER)
    made = {
        re.search(r'^revision = "(\w+)"', path.read_text(), re.MULTILINE)[1] for path in VERSIONS.glob("*.py")
    }
    assert made == {*tables.EARLIER, tables.HEAD}


def states(connection):
    campaigns = dict(connection.execute(sa.text("SELECT title, state FROM live_campaign")).all())
    people = connection.execute(sa.text("SELECT state FROM participation ORDER BY state")).scalars().all()
    return campaigns, people


@pytest.mark.parametrize("unpacked", sorted(STORED), indirect=True)
def test_a_desk_of_every_earlier_revision_goes_on_where_it_was(unpacked):
    place = unpacked / "market.ledger"
    before = sqlite3.connect(place)
    kept = before.execute("SELECT id, state, spent_epsilon FROM participation ORDER BY id").fetchall()
    paid = before.execute("SELECT kind, amount, state FROM transfer ORDER BY id").fetchall()
    before.close()
    with market.open_desk(place, unpacked / "keys") as desk:
        with reading(desk.ledger) as connection:
            assert desk_revision(connection) == tables.HEAD
            check_everything(connection, desk.ledger)
            market.check_market(connection)
            campaigns, _ = states(connection)
            assert sorted(campaigns.values()) == ["open", "released"]
            rows = connection.execute(
                sa.text("SELECT id, state, spent_epsilon FROM participation ORDER BY id")
            )
            assert [tuple(row) for row in rows] == kept
            rows = connection.execute(sa.text("SELECT kind, amount, state FROM transfer ORDER BY id"))
            assert [tuple(row) for row in rows] == paid
        # Who had delivered is trained on by this version, with the key that the earlier one made.
        market.work(desk, START)
        jobs = {job.kind for job in market.work(desk, DELIVER)}
        assert jobs >= {"close", "train", "certify"}
        with reading(desk.ledger) as connection:
            check_everything(connection, desk.ledger)
            market.check_market(connection)
            campaigns, people = states(connection)
            assert set(campaigns.values()) == {"released"}
            assert people.count("spent") == 4
            bodies = connection.execute(sa.text("SELECT body FROM certificate")).scalars().all()
            assert [dpm.verify(bytes(body)).passed for body in bodies] == [True, True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE market_version SET version_num = 'market_999'", "found revision market_999"),
        ("UPDATE alembic_version SET version_num = 'version_999'", "found revision version_999"),
        ("PRAGMA user_version = 99", "found version 99"),
    ],
    ids=["desk", "ledger", "file"],
)
def test_a_newer_database_is_refused_in_one_line_and_stays_as_it_is(tmp_path, change, words):
    place = tmp_path / "market.ledger"
    with market.open_desk(place, tmp_path / "keys"):
        pass
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute(change)
    connection.close()
    before = place.read_bytes()
    with pytest.raises(FileProblem) as refusal, market.open_desk(place, tmp_path / "keys"):
        pass
    message = str(refusal.value)
    assert words in message
    assert "a newer version of dpmarket wrote it: install that one" in message
    assert "\n" not in message
    assert place.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("table", ["market_version", "alembic_version"])
def test_a_newer_database_on_a_server_is_refused(server, tmp_path, table):
    from support.ledgers import new_database

    place = new_database(server)
    with market.open_desk(place, tmp_path / "keys"):
        pass
    with open_ledger(place) as ledger, writing(ledger) as connection:
        connection.execute(sa.text(f"UPDATE {table} SET version_num = 'later_999'"))
    with (
        pytest.raises(FileProblem, match="a newer version of dpmarket"),
        market.open_desk(place, tmp_path / "keys"),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("revision", [*tables.EARLIER])
def test_a_desk_on_a_server_is_brought_up_to_date_from_every_earlier_revision(server, tmp_path, revision):
    """Its tables are made by the frozen migrations up to a revision, as that version of the package did."""
    from alembic import command
    from alembic.config import Config

    from support.ledgers import new_database
    from support.live import SOLD, Live

    place = new_database(server)
    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent))
    with open_ledger(place) as ledger, writing(ledger) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.execute(
            sa.text(
                "INSERT INTO member (id, name, role, made_at) VALUES ('m', 'kept', 'buyer', '2026-01-01')"
            )
        )
    with market.open_desk(place, tmp_path / "keys") as desk:
        with reading(desk.ledger) as connection:
            assert desk_revision(connection) == tables.HEAD
            names = connection.execute(sa.text("SELECT name FROM member")).scalars().all()
            assert names == ["kept"]
        live = Live(desk)
        live.newcomer("a", *SOLD)
        assert live.state() == "open"
