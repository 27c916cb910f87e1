"""A training that dies, a backup that comes back, a penalty that must rise: what is spent stays spent."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from dpmarket.campaign import read_market
from dpmarket.campaign.records import read_records
from dpmarket.campaign.spending import raised_penalty
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal
from dpmarket.ledger import existing_ledger, outside, repair
from dpmarket.privacy import noise
from support.campaigns import MARKET, seller_ids
from support.desks import Desk, copy_ledger

HEADS = {"before": "dpmarket.campaign.training.read_records", "after": "dpmarket.privacy.noise._draw"}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path / "desk")


def killed(desk, where):
    """Train in a process of its own that kills itself at a step."""
    code = (
        "import os, signal, sys, pytest\n"
        "from dpmarket.campaign import train_file\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"pytest.MonkeyPatch().setattr({where!r}, die)\n"
        "train_file('market.toml', 'quotes.csv', 'data.csv', 'model.json')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=desk.folder, stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_killed_before_the_mark_it_is_undone_on_the_next_start(desk):
    desk.quote()
    killed(desk, HEADS["before"])
    assert desk.rounds()[0].state == "debited"
    assert desk.train().is_new
    assert [line.kind for line in outside.read_log()] == ["begun", "debit", "returned", "debit", "mark"]


def test_killed_after_the_mark_it_is_spent_and_paid_and_says_what_again_would_cost(desk):
    desk.quote()
    desk.withdraw("007")
    killed(desk, HEADS["after"])
    payment = desk.balance().held / 100
    with pytest.raises(LedgerRefusal, match=rf"sellers are paid.*--again.* {payment:.2f} on top"):
        desk.train()
    assert desk.rounds()[0].state == "lost"
    assert desk.balance().owed == round(payment * 100)
    assert desk.pay().payout.amount == round(payment * 100)
    assert desk.quote(again=True).round.repetition == 1
    desk.records_of(seller for seller in seller_ids(60) if seller != "007")
    assert desk.train().is_new


def test_a_second_training_while_one_runs_says_so(desk, monkeypatch):
    desk.quote()
    reading, go_on, results = threading.Event(), threading.Event(), []
    monkeypatch.setattr("dpmarket.campaign.training.read_records", waiting(reading, go_on))
    thread = threading.Thread(target=lambda: results.append(desk.train()))
    thread.start()
    assert reading.wait(60)
    with pytest.raises(LedgerRefusal, match="a training on these quotes is under way since"):
        desk.train(output="other.json")
    with pytest.raises(LedgerRefusal, match="cannot be taken back"):
        desk.withdraw("007")
    go_on.set()
    thread.join()
    assert results[0].is_new
    assert desk.rounds()[0].state == "released"


def waiting(reading, go_on):
    def read(*arguments):
        reading.set()
        assert go_on.wait(60)
        return read_records(*arguments)

    return read


def test_who_was_taken_for_dead_cannot_draw_noise(desk, monkeypatch):
    """Another process, which does not see that it is alive, undoes the debit and trains."""
    desk.quote()
    models = []

    def overtaken(*arguments):
        if not models:
            models.append(None)
            with monkeypatch.context() as patch:
                patch.setattr("dpmarket.ledger.outside.is_running", lambda attempt: False)
                models.append(desk.train(output="other.json").model)
        return read_records(*arguments)

    monkeypatch.setattr("dpmarket.campaign.training.read_records", overtaken)
    with pytest.raises(LedgerRefusal, match="given up by another process"):
        desk.train()
    assert desk.rounds()[0].state == "released"
    assert desk.train(output="third.json").model == models[1]
    assert [line.kind for line in outside.read_log()].count("mark") == 1


COPIED_IN = {
    "debited": "dpmarket.campaign.training.read_records",
    "marked": "dpmarket.privacy.noise._draw",
}


@pytest.mark.parametrize("moment", ["quoted", "debited", "marked"])
def test_a_restored_backup_does_not_train_again(desk, monkeypatch, tmp_path, moment):
    desk.quote()
    ledger, backup = desk / "market.ledger", tmp_path / "backup"
    copy_ledger(ledger, backup)
    if moment in COPIED_IN:
        original = {"debited": read_records, "marked": noise._draw}[moment]

        def copied(*arguments):
            copy_ledger(ledger, backup)
            return original(*arguments)

        monkeypatch.setattr(COPIED_IN[moment], copied)
    assert desk.train().is_new
    copy_ledger(backup, ledger)
    if moment == "marked":  # the backup itself knows that it is spent
        with pytest.raises(LedgerRefusal, match="spent at"):
            desk.train(output="other.json")
    else:
        for act in (desk.train, desk.quote, lambda: desk.withdraw("007"), desk.pay):
            with pytest.raises(
                LedgerRefusal,
                match=r"older copy put back\? 'dpmarket ledger repair .*market[.]ledger'",
            ):
                act()
        with existing_ledger(ledger) as opened:
            assert repair(opened).spent == 1
        with pytest.raises(LedgerRefusal, match="spent at"):
            desk.train(output="other.json")
    assert desk.rounds()[0].state == "lost"
    assert desk.balance().owed == desk.rounds()[0].payments
    assert [line.kind for line in outside.read_log()].count("mark") == 1


def test_a_copy_of_the_ledger_and_another_state_folder_do_not_train_again(desk, monkeypatch, tmp_path):
    """From before the first debit: the ledger knows with which log it was first quoted."""
    desk.quote()
    copy_ledger(desk / "market.ledger", tmp_path / "backup")
    assert desk.train().is_new
    copy_ledger(tmp_path / "backup", desk / "market.ledger")
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "somebody else's"))
    with pytest.raises(LedgerRefusal, match=r"not the one that the ledger .* was used with"):
        desk.train(output="second.json")
    with existing_ledger(desk / "market.ledger") as ledger:
        assert repair(ledger).spent == 1  # what the lost log knew, nobody knows
    with pytest.raises(LedgerRefusal, match="spent at"):
        desk.train(output="second.json")


def test_a_lost_ledger_is_not_begun_again_unnoticed(desk):
    desk.quote()
    desk.train()
    for path in desk.folder.glob("market.ledger*"):
        path.unlink()
    before = desk.files()
    with pytest.raises(LedgerRefusal, match="it is gone"):
        desk.quote(output="second.csv")
    assert desk.files() == before


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_spent(desk):
    desk.quote()
    for output in ("nowhere/model.json", "."):
        with pytest.raises(FileProblem, match="cannot write"):
            desk.train(output=output)
    assert desk.rounds()[0].state == "open"
    assert [line.kind for line in outside.read_log()] == ["begun"]


def test_disk_full_at_the_mark_gives_everything_back(desk, monkeypatch):
    desk.quote()
    append = outside.append

    def full(ledger, attempt, kind, rounds=(), **more):
        if kind == "mark":
            raise FileProblem("cannot use spent.log: No space left on device.")
        return append(ledger, attempt, kind, rounds, **more)

    with monkeypatch.context() as patch:
        patch.setattr(outside, "append", full)
        with pytest.raises(FileProblem, match=r"spent\.log: No space"):
            desk.train()
    assert desk.rounds()[0].state == "open"
    assert desk.train().is_new


def test_withdrawals_that_make_promises_infeasible_raise_the_penalty(tmp_path):
    market = MARKET + "\n[training]\nl2 = 0.05\n"
    desk = Desk(tmp_path / "desk", market=market)
    desk.quote()
    promised = {seller: row[0] for seller, row in desk.accounts().items()}
    stay = [seller for seller in sorted(promised, key=promised.get) if promised[seller] > 0.0][:3]
    desk.withdraw(*(seller for seller in seller_ids(60) if seller not in stay))
    result = desk.train()
    own = np.array([promised[seller] for seller in stay])
    assert result.raised_l2 == raised_penalty(read_market(desk.market), own) > 0.05
    assert result.model.l2 == result.raised_l2
    assert all(spent <= promised[seller] for seller, (_, spent, _) in desk.accounts().items())
    # It is the least without slack: a little less has slack, and more noise for the same promises.
    assert result.model.noise_rate * result.model.row_bound == pytest.approx(own.sum(), rel=1e-4)


def test_an_infeasible_penalty_without_withdrawals_is_refused_and_given_back(tmp_path):
    desk = Desk(tmp_path / "desk", market=MARKET + "\n[training]\nl2 = 0.00001\n")
    desk.quote()
    with pytest.raises(Infeasible):
        desk.train()
    assert desk.rounds()[0].state == "open"


def test_if_everybody_withdrew_there_is_nothing_to_train_on(desk):
    desk.quote()
    desk.withdraw(*seller_ids(60))
    with pytest.raises(LedgerRefusal, match="everybody who was promised something has withdrawn"):
        desk.train()
    assert desk.rounds()[0].state == "open"
    assert desk.balance().held == 0
