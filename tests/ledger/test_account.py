"""A ledger's odometer as the account of models that are fitted outside of a campaign."""

import threading

import numpy as np
import pytest

from dpmarket import Infeasible, InvalidInput, PrivateLogisticRegression
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import LedgerAccount, account, accounts, check_ledger, open_ledger, reading, repair
from dpmarket.ledger.outside import read_log
from dpmarket.privacy import PrivacyAccount, SeededNoise
from support.desks import copy_ledger

PEOPLE = [f"p{k}" for k in range(40)]


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    with open_ledger(tmp_path / "market.ledger") as opened:
        yield opened


def records():
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
    return x, (x[:, 0] > 0).astype(int)


def test_a_ledger_account_obeys_the_protocol(ledger):
    assert isinstance(LedgerAccount(ledger, 1.0), PrivacyAccount)


def test_models_count_for_the_limit_and_are_refused_beyond_it(ledger):
    account = LedgerAccount(ledger, limit=2.5)
    model = PrivateLogisticRegression(classes=(0, 1), epsilon=1.0, noise_source=SeededNoise(1))
    for _ in range(2):
        model.fit(*records(), people=PEOPLE, account=account)
    assert account.left(PEOPLE) == pytest.approx(np.full(40, 0.5), abs=1e-5)
    assert LedgerAccount(ledger, limit=3.0).left(["p1", "new"]) == pytest.approx([1.0, 3.0], abs=1e-5)
    with reading(ledger) as connection:
        table = accounts(connection)
        check_ledger(connection)
    assert table["spent"].to_numpy() == pytest.approx(np.full(40, 2.0), abs=1e-5)
    lines = len(read_log())
    with pytest.raises(Infeasible, match="found 40 of 40 people"):
        model.fit(*records(), people=PEOPLE, account=account)
    assert len(read_log()) == lines
    assert account.left(["p0"])[0] == pytest.approx(0.5, abs=1e-5)


def test_who_is_charged_is_in_the_log_before_noise_is_drawn(ledger):
    seen = []

    class Watching(SeededNoise):
        def draw(self, *arguments):
            seen.append([line.kind for line in read_log()])
            return super().draw(*arguments)

    model = PrivateLogisticRegression(classes=(0, 1), epsilon=1.0, noise_source=Watching(1))
    model.fit(*records(), people=PEOPLE, account=LedgerAccount(ledger, limit=5.0))
    assert seen == [["debit", "mark"]]


@pytest.mark.parametrize(
    "people", [["a", "a"], [1, 2], ["a", ""], ["a"], ["a", " b"], ["Zo\u00eb", "Zoe\u0308"]]
)
def test_people_that_no_ledger_knows_by_such_names_are_refused(ledger, people):
    with pytest.raises(InvalidInput):
        LedgerAccount(ledger, 1.0).charge(people, [0.1, 0.1])
    assert read_log() == []


def test_another_spelling_of_an_id_is_no_second_limit(ledger):
    account = LedgerAccount(ledger, limit=1.0)
    account.charge(["Zo\u00eb"], [1.0])
    assert account.left(["Zoe\u0308"]).tolist() == [0.0]
    with pytest.raises(Infeasible):
        account.charge(["Zoe\u0308"], [1.0])


def test_a_copy_of_a_ledger_that_charged_meanwhile_is_noticed(ledger, tmp_path, monkeypatch):
    LedgerAccount(ledger, limit=2.0).charge(["ann"], [0.5])
    copy_ledger(tmp_path / "market.ledger", tmp_path / "copy.ledger")
    real, waiting = account.log_debit, [1.0]

    def meanwhile(*arguments):
        if waiting:
            with open_ledger(tmp_path / "copy.ledger") as copy:
                LedgerAccount(copy, limit=2.0).charge(["ann"], [waiting.pop()])
        return real(*arguments)

    monkeypatch.setattr(account, "log_debit", meanwhile)
    with pytest.raises(LedgerRefusal, match=r"with a copy of this ledger.*ledger repair .*market\.ledger'"):
        LedgerAccount(ledger, limit=2.0).charge(["ann"], [1.0])
    assert [line.kind for line in read_log()].count("mark") == 2
    assert LedgerAccount(ledger, limit=2.0).left(["ann"]) == pytest.approx([1.5])  # given back here
    repair(ledger)
    assert LedgerAccount(ledger, limit=2.0).left(["ann"]) == pytest.approx([0.5])
    with pytest.raises(Infeasible):
        LedgerAccount(ledger, limit=2.0).charge(["ann"], [1.0])


def test_two_copies_of_a_ledger_that_charge_at_the_same_time_charge_once(ledger, tmp_path, monkeypatch):
    LedgerAccount(ledger, limit=2.0).charge(["ann"], [0.5])
    copy_ledger(tmp_path / "market.ledger", tmp_path / "copy.ledger")
    together = threading.Barrier(2, timeout=60)

    def at_once(real):
        def called(*arguments):
            together.wait()
            return real(*arguments)

        return called

    for step in ("log_debit", "mark_attempt"):
        monkeypatch.setattr(account, step, at_once(getattr(account, step)))
    done, refused = [], []

    def charge(place):
        with open_ledger(place) as own:
            try:
                LedgerAccount(own, limit=2.0).charge(["ann"], [1.0])
                done.append(place)
            except LedgerRefusal as problem:
                refused.append(str(problem))

    places = (tmp_path / "market.ledger", tmp_path / "copy.ledger")
    threads = [threading.Thread(target=charge, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == len(refused) == 1
    assert "with a copy of this ledger" in refused[0]
    assert [line.kind for line in read_log()].count("mark") == 2


def test_an_older_copy_that_was_put_back_charges_nobody(ledger, tmp_path):
    LedgerAccount(ledger, limit=2.0).charge(["ann"], [0.5])
    copy_ledger(tmp_path / "market.ledger", tmp_path / "backup")
    LedgerAccount(ledger, limit=2.0).charge(["ann"], [1.0])
    copy_ledger(tmp_path / "backup", tmp_path / "market.ledger")
    lines = len(read_log())
    with pytest.raises(LedgerRefusal, match="was an older copy put back"):
        LedgerAccount(ledger, limit=2.0).charge(["ann"], [1.0])
    assert len(read_log()) == lines
