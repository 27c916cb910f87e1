"""A disk that is full: one line that names the file, exit code 1, and everything as it was."""

import resource
import subprocess

import pytest

from dpmarket.campaign.checks import refuse_unbalanced
from dpmarket.campaign.database import open_market
from dpmarket.campaign.place import campaign_named
from dpmarket.errors import FileProblem
from outside.driver import FileCampaign
from outside.goods import GOODS, sellers, tables
from support.commands import COMMAND, run


def limited(size, *arguments, cwd):
    """Run the command so that no file can grow beyond a size: the kernel then says that it is too large."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run([COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, preexec_fn=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def state_of(folder):
    path = folder / "rules.db"
    if not path.exists() or not path.stat().st_size:  # begun, and nothing of it on the disk
        return None
    try:
        market = open_market(path, folder / "state")
    except FileProblem:  # begun, and its tables did not fit
        return None
    with market:
        refuse_unbalanced(market)
        with market.look() as c:
            found = campaign_named(c, "a campaign")
    return found and found.state


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    good = GOODS["two classes"]
    FileCampaign(tmp_path, good.rules(1000), *tables(*sellers(good, 1000)))
    return tmp_path


@pytest.mark.parametrize("size", [2_000, 120_000])
def test_quotes_that_do_not_fit_on_the_disk_are_not_given(folder, size):
    done = limited(size, "quote", "reports.csv", "-o", "quotes.csv", cwd=folder)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "quotes.csv" in done.stderr or "rules.db" in done.stderr
    assert not (folder / "quotes.csv").exists()
    assert state_of(folder) in (None, "open")
    run("quote", "reports.csv", "-o", "quotes.csv", cwd=folder)
    assert state_of(folder) == "offered"


def test_a_training_whose_log_does_not_fit_on_the_disk_spends_nothing(folder):
    run("quote", "reports.csv", "-o", "quotes.csv", cwd=folder)
    train = ("train", "data.csv", "-o", "model.json")
    done = limited(1_000, *train, cwd=folder)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "model.json").exists()
    run(*train, cwd=folder)
    assert state_of(folder) == "released"


def test_a_model_that_does_not_fit_on_the_disk_is_spent_and_said_to_be(folder):
    run("quote", "reports.csv", "-o", "quotes.csv", cwd=folder)
    train = ("train", "data.csv", "-o", "model.json")
    done = limited(60_000, *train, cwd=folder)
    assert done.returncode == 1
    assert "rules.db" in done.stderr
    assert not (folder / "model.json").exists()
    assert "sellers are paid" in run(*train, cwd=folder, code=1).stderr
    assert state_of(folder) == "failed"
