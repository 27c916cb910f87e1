"""Desks are made and opened; those of another revision are refused."""

import secrets
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import FileProblem, InvalidInput, LedgerRefusal, MarketRefusal
from dpmarket.ledger import open_ledger, reading
from dpmarket.ledger.engine import looking_at
from dpmarket.market import campaigns, keys, tables
from dpmarket.market.desk import time_text
from dpmarket.market.jobs import end_job, enter_job, renew_job, runs
from support.live import MARKET, SOLD, START, Live


def test_a_desk_is_opened_again_as_it_was(place, tmp_path):
    with market.open_desk(place, tmp_path / "keys") as desk:
        who = Live(desk).newcomer("a", "consent")
    with market.open_desk(place, tmp_path / "keys") as desk, reading(desk.ledger) as connection:
        caller = market.Caller("seller", who)
        assert market.show_standing(connection, caller, who).state == "consented"


def test_a_table_of_something_else_is_not_taken_for_one_of_a_desk(place, tmp_path):
    name = next(iter(tables.metadata.tables))
    with open_ledger(place) as ledger, ledger.engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {name} (x INTEGER)"))
    with pytest.raises(FileProblem, match="as a ledger"), market.open_desk(place, tmp_path / "keys"):
        pass
    with looking_at(place) as connection:
        found = set(sa.inspect(connection).get_table_names())
    assert found & {"market_version", *tables.metadata.tables} == {name}


def test_those_who_open_a_new_desk_at_once_have_one(place, tmp_path):
    def opened(_):
        with market.open_desk(place, tmp_path / "keys") as desk:
            return desk.ledger.id

    with open_ledger(place), ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(opened, range(4)))) == 1


@pytest.mark.parametrize(
    ("table", "revision"),
    [("market_version", "market_5"), ("market_version", "market_99"), ("alembic_version", "version_3")],
)
def test_a_database_of_another_revision_is_refused_in_one_sentence_and_stays_as_it_is(
    place, tmp_path, table, revision
):
    with market.open_desk(place, tmp_path / "keys"):
        pass
    with open_ledger(place) as ledger, ledger.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {table} SET version_num = '{revision}'"))
    words = f"found {revision}; another version of dpmarket wrote it: install that one. Nothing was changed."
    with pytest.raises(FileProblem, match=words) as refusal, market.open_desk(place, tmp_path / "keys"):
        pass
    assert "\n" not in str(refusal.value)
    with looking_at(place) as connection:
        found = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar_one()
    assert found == revision


@pytest.fixture
def master(tmp_path, monkeypatch):
    path = tmp_path / "master"
    path.write_text(f"{secrets.token_hex(32)}\n")
    path.chmod(0o600)
    monkeypatch.setenv("DPMARKET_MASTER_KEY_FILE", str(path))
    return path


def test_with_a_master_key_no_private_key_lies_in_clear(place, master, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.delenv("DPMARKET_MASTER_KEY_FILE")
        with market.open_desk(place, tmp_path / "keys") as desk:
            live = Live(desk)
            for name in "ab":
                live.newcomer(name, *SOLD)
            market.operator_key(desk.keys)
        clear = {path.name: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert sorted(map(len, clear.values())) == [32, 32]
    with market.open_desk(place, tmp_path / "keys") as desk:
        live.desk = desk
        keys.new_key(desk.keys, "another")
        held = {path.name: path for path in desk.keys.iterdir()}
        assert set(clear) < set(held)
        for path in held.values():
            assert path.read_bytes().startswith(b"dpmarket wrapped key")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert not any(content in path.read_bytes() for content in clear.values())
        live.close()
        assert live.train() == "released"  # records that were sealed before are opened
        assert not any(path.name.startswith(live.campaign) for path in desk.keys.iterdir())


def test_a_wrapped_key_opens_by_its_master_key_in_its_own_place_only(master, tmp_path, monkeypatch):
    folder = tmp_path / "keys"
    folder.mkdir()
    public, other = (keys.new_key(folder, name) for name in ("spring", "autumn"))
    sealed = keys.seal(public, b"content", "record")
    assert keys.Opener(folder, "spring", public).open(sealed, "record") == b"content"
    (path,), (second,) = folder.glob("spring-*"), folder.glob("autumn-*")
    right = path.read_bytes()
    for wrong in (second.read_bytes(), right[:-1], right[:-1] + bytes([right[-1] ^ 1]), right[:30]):
        path.write_bytes(wrong)
        with pytest.raises(FileProblem, match="another master key, or changed"):
            keys.Opener(folder, "spring", public)
    path.write_bytes(right)
    monkeypatch.delenv("DPMARKET_MASTER_KEY_FILE")
    with pytest.raises(FileProblem, match="it is wrapped; name the master key's file"):
        keys.Opener(folder, "spring", public)
    assert other != public


@pytest.mark.parametrize("wrong", ["missing", "wide", "short", "folder"])
def test_a_master_key_that_cannot_be_trusted_is_refused_and_nothing_is_made(master, tmp_path, wrong):
    folder = tmp_path / "keys"
    folder.mkdir()
    if wrong == "wide":
        master.chmod(0o640)
    else:
        content = master.read_text()
        master.unlink()
        if wrong == "short":
            master.write_text(content[:-3])
            master.chmod(0o600)
        if wrong == "folder":
            master.mkdir(mode=0o700)
    with pytest.raises(FileProblem, match="master key") as problem:
        keys.new_key(folder, "spring")
    assert len(str(problem.value).splitlines()) == 1
    assert list(folder.iterdir()) == []
    with pytest.raises(FileProblem, match="master key"), market.open_desk(tmp_path / "x.ledger", folder):
        pass
    assert not (tmp_path / "x.ledger").exists()


def test_keys_are_for_their_owner_only_and_destroyed_for_good(tmp_path):
    public = keys.new_key(tmp_path, "spring")
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sealed = keys.seal(public, b"content", "record", "a")
    opener = keys.Opener(tmp_path, "spring", public)
    assert opener.open(sealed, "record", "a") == b"content"
    assert opener.open(sealed, "record", "b") is None
    assert opener.open(sealed, "reco", "rda") is None
    assert opener.open(b"", "record", "a") is None
    assert sealed != keys.seal(public, b"content", "record", "a")
    keys.destroy_key(tmp_path, "spring", public)
    assert list(tmp_path.iterdir()) == []
    keys.destroy_key(tmp_path, "spring", public)
    with pytest.raises(FileProblem, match="cannot read the key"):
        keys.Opener(tmp_path, "spring", public)


def test_the_folder_of_keys_is_made_for_its_owner_only(desk):
    assert stat.S_IMODE(desk.keys.stat().st_mode) == 0o700
    assert market.operator_key(desk.keys) == market.operator_key(desk.keys)


def test_without_the_package_cryptography_sealing_says_what_to_install():
    code = (
        "import sys; sys.modules['cryptography.hazmat.primitives.hpke'] = None\n"
        "from pathlib import Path\n"
        "from dpmarket import market\n"
        "try:\n    market.new_key(Path(), 'x')\n"
        "except Exception as problem:\n    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'dpmarket[service]'" in done.stdout


def test_times_need_a_zone_and_sort_as_texts():
    with pytest.raises(InvalidInput, match="zone"):
        time_text(START.replace(tzinfo=None))
    assert time_text(START) < time_text(START.replace(second=1)) < time_text(START.replace(day=2))


def test_a_rule_of_the_database_is_named_without_the_row(live):
    who = live.newcomer("a", "consent")
    with pytest.raises(LedgerRefusal) as refusal, live.acting() as connection:
        connection.execute(tables.person.update().values(held_epsilon=1e6))
    assert "person_cap" in str(refusal.value)
    assert "1000000" not in str(refusal.value)
    assert live.state(who) == "consented"


def test_a_job_has_one_worker_until_its_lease_is_over(live):
    late = START + 2 * live.desk.terms.job
    with live.acting() as connection:
        enter_job(connection, "train", live.campaign, time_text(START))
    first = market.claim_job(live.desk, START)
    assert (first.kind, first.attempts) == ("train", 1)
    assert market.claim_job(live.desk, START) is None
    assert renew_job(live.desk, first, START + live.desk.terms.job)
    assert market.claim_job(live.desk, START + live.desk.terms.job) is None
    second = market.claim_job(live.desk, late)
    assert (second.kind, second.attempts) == ("train", 2)
    assert not renew_job(live.desk, first, late)
    with live.acting() as connection:
        end_job(connection, first)  # too late: it is another's
    assert renew_job(live.desk, second, late)
    with live.acting() as connection:
        end_job(connection, second)
    assert market.claim_job(live.desk, late + live.desk.terms.job * 2) is None


def test_a_job_that_takes_longer_than_its_lease_stays_its_workers(live, monkeypatch):
    desk = replace(live.desk, terms=replace(live.desk.terms, job=timedelta(seconds=0.4)))
    seen = []

    def long(desk, job, now):
        for _ in range(600):
            with reading(desk.ledger) as connection:
                if runs(connection, "train", job.campaign, START + timedelta(seconds=1)):
                    seen.append(job.kind)
                    return
            time.sleep(0.05)

    with live.acting() as connection:
        enter_job(connection, "train", live.campaign, time_text(START))
    monkeypatch.setattr("dpmarket.market.worker._do", long)
    assert [job.attempts for job in market.work(desk, START)] == [1]
    assert seen == ["train"]


def draft(live, buyer, title, connection):
    schedule = market.Schedule(live.now, live.now + timedelta(days=1), live.now + timedelta(days=2))
    return market.draft_campaign(
        connection, buyer, title, MARKET, "online", schedule, consent_version=1, now=live.now
    )


def test_a_title_is_taken_by_ones_own_campaigns_only(live):
    """That another buyer has a campaign of some title is nobody's business."""
    with live.acting() as connection:
        other = market.add_member(connection, "Another buyer", "buyer", live.now)
        made = draft(live, other, "spring", connection)
    assert made.title == live.looked(market.campaign_of, live.campaign).title == "spring"
    assert (made.campaign, made.escrow) != (
        live.campaign,
        live.looked(market.campaign_of, live.campaign).escrow,
    )
    with pytest.raises(MarketRefusal, match="you have a campaign of this title"), live.acting() as connection:
        draft(live, other, "spring", connection)
    assert live.balance().funded == live.escrow


def test_the_ledgers_name_of_a_campaign_gives_its_title_back():
    for title in ("spring", "", "spring [1]", "x [0123456789abcdef0123456789abcdef]"):
        names = {campaigns.ledger_name(title) for _ in range(2)}
        assert len(names) == 2
        assert {campaigns.title_of(name) for name in names} == {title}
