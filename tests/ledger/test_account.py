"""A ledger's odometer as the account of models that are fitted outside of a campaign."""

import numpy as np
import pytest

from dpmarket import Infeasible, InvalidInput, PrivateLogisticRegression
from dpmarket.ledger import LedgerAccount, accounts, check_ledger, open_ledger, reading
from dpmarket.ledger.outside import read_log
from dpmarket.privacy import PrivacyAccount, SeededNoise

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


@pytest.mark.parametrize("people", [["a", "a"], [1, 2], ["a", ""], ["a"]])
def test_people_that_no_ledger_knows_by_such_names_are_refused(ledger, people):
    with pytest.raises(InvalidInput):
        LedgerAccount(ledger, 1.0).charge(people, [0.1, 0.1])
    assert read_log() == []
