"""Killed at any moment, a command leaves no partial output and a ledger that opens and adds up."""

import contextlib
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from dpmarket.campaign import read_model, read_quotes
from dpmarket.ledger import accounts, check_ledger, existing_ledger, reading, rounds_of
from support.campaigns import make_campaign, read_rows
from support.forking import Forks

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

COMMANDS = {
    "init": (("init", "new.toml", "-q"), "new.toml"),
    "quote": (("quote", "reports.csv", "-o", "quotes.csv", "-q"), "quotes.csv"),
    "quote to parquet": (("quote", "reports.csv", "-o", "quotes.parquet", "-q"), "quotes.parquet"),
    "withdraw": (("withdraw", "007", "seller 3", "--quotes", "quotes.csv", "-q"), None),
    "train": (("train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json", "-q"), "model.json"),
    "predict": (("predict", "model.json", "data.csv", "-o", "out.csv", "-q"), "out.csv"),
}
NEEDS = {"withdraw": ("quote",), "train": ("quote",), "predict": ("quote", "train")}
TOLD = {"quote": "open", "quote to parquet": "open", "train": "released"}
SELLERS = 400


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state") / "own"))
        opened = Forks(tmp_path_factory.mktemp("here"))
        yield opened
        opened.close()


def _fresh(folder, template):
    """Put the files back, and the log outside of ledgers with them: as if nothing had happened since."""
    for path in folder.iterdir():
        path.unlink()
    for path in template.iterdir():
        if path.name != "state":
            shutil.copy2(path, folder / path.name)
    state = Path(os.environ["DPMARKET_STATE"])
    shutil.rmtree(state, ignore_errors=True)
    if (template / "state").exists():
        shutil.copytree(template / "state", state)


def _complete(folder, name, whole):
    """Whether the output is there; if so it must be whole."""
    path = folder / name
    if not path.exists():
        return False
    if name == "model.json":
        read_model(path)
    elif name.startswith("quotes"):
        # A round's identity is by the key of its ledger, which is new each time.
        assert read_quotes(path).table.equals(whole)
    else:
        assert path.read_bytes() == whole
    return True


def _check_ledger(folder):
    """Return the state of the only round, None if there is none yet; everything must add up."""
    place = folder / "market.ledger"
    if not place.exists() or place.stat().st_size == 0:  # killed while SQLite made it: the next quote uses it
        return None
    with existing_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
        check_ledger(connection)
        rounds = rounds_of(connection)
        assert len(rounds) <= 1
        if not rounds:
            return None
        for _, promised, spent, _ in accounts(connection).rows():
            assert spent <= promised
        assert accounts(connection).height == SELLERS
        return rounds[0].state


def _kill_at_random(forks, tmp_path, command, kills, seed):
    folder, template = forks.folder, tmp_path / "template"
    template.mkdir()
    make_campaign(template, SELLERS)
    _fresh(folder, template)
    for step in NEEDS.get(command, ()):
        forks.start(*COMMANDS[step][0])
        assert forks.wait() == 0
    shutil.rmtree(template)
    shutil.copytree(folder, template)
    if Path(os.environ["DPMARKET_STATE"]).exists():
        shutil.copytree(os.environ["DPMARKET_STATE"], template / "state")
    arguments, output = COMMANDS[command]
    start = time.perf_counter()
    forks.start(*arguments)
    assert forks.wait() == 0
    usual = time.perf_counter() - start
    whole = (folder / output).read_bytes() if output else b""
    if output and output.startswith("quotes"):
        whole = read_quotes(folder / output).table
    rng = random.Random(seed)
    seen = set()
    for _ in range(kills):
        _fresh(folder, template)
        child = forks.start(*arguments)
        time.sleep(rng.uniform(0.0, 1.3) * usual)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        code = forks.wait()
        assert code in (0, -signal.SIGKILL)
        there = _complete(folder, output, whole) if output else None
        state = _check_ledger(folder)
        seen.add((code, there, state))
        if there and command in TOLD:
            # What was told is in the ledger.
            assert state == TOLD[command]
        # And again: it finishes, or says why it cannot.
        forks.start(*arguments, *(("--force",) if output else ()))
        again = forks.wait()
        if command == "train" and state in ("marked", "lost"):
            assert again == 1
            assert _check_ledger(folder) == "lost"
            assert not there
        else:
            assert again == 0
            assert output is None or _complete(folder, output, whole)
        if command == "withdraw":
            assert [row["seller"] for row in read_rows(folder / "quotes.csv")][:1] == ["007"]
            quotes = read_quotes(folder / "quotes.csv", "seller")
            with existing_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
                gone = [row[0] for row in accounts(connection).rows() if row[1] == 0.0]
            expected = {row[0] for row in quotes.table.rows() if row[1] == 0.0} | {"007", "seller 3"}
            assert set(gone) == expected
        leftovers = [p.name for p in folder.iterdir() if p.name.endswith(".tmp")]
        assert all(name.startswith(".") for name in leftovers)
    return seen


@pytest.mark.parametrize("command", ["quote", "train"])
def test_a_killed_command_leaves_no_partial_output_and_a_ledger_that_adds_up(forks, tmp_path, command):
    _kill_at_random(forks, tmp_path, command, kills=6, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_many_times_every_command_leaves_whole_files_and_a_sound_ledger(forks, tmp_path, command):
    seen = _kill_at_random(forks, tmp_path, command, kills=60, seed=2)
    if command == "train":
        # The kills hit before the debit, and between debit and mark; what is not marked is undone.
        assert {"open", "debited"} <= {state for _, _, state in seen}
