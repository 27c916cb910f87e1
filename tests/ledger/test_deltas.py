"""Deltas in the ledger: charged, counted, limited, and known again after a backup was put back."""

import shutil

import numpy as np
import polars as pl
import pytest

from dpmarket.errors import Infeasible
from dpmarket.ledger import (
    LedgerAccount,
    check_ledger,
    delta_charges,
    open_ledger,
    reading,
    repair,
    rounds_of,
)
from dpmarket.ledger.rounds import SELLER
from dpmarket.privacy import PrivacyAccount


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))


def counted(ledger, *names):
    with reading(ledger) as connection:
        check_ledger(connection)
        return delta_charges(connection, pl.DataFrame({SELLER: list(names)})).tolist()


def test_an_account_charges_epsilon_and_delta_and_refuses_more_of_either(tmp_path):
    with open_ledger(tmp_path / "a.ledger") as ledger:
        account = LedgerAccount(ledger, limit=2.0, delta_limit=2.5e-5)
        assert isinstance(account, PrivacyAccount)
        for _ in range(2):
            account.charge(["ann", "bob"], [0.5, 0.0], delta=1e-5)
        found = counted(ledger, "ann", "bob", "cem")
        assert 2e-5 <= found[0] <= 2e-5 * (1 + 1e-12)
        assert found[1:] == [0.0, 0.0]
        with pytest.raises(Infeasible, match="limit of delta, found 1 of 2"):
            account.charge(["ann", "dan"], [0.1, 0.1], delta=1e-5)
        assert counted(ledger, "dan") == [0.0]
        assert account.left_of_delta(["ann"])[0] <= 0.5e-5
        account.charge(["ann"], [0.1])
        assert account.left(["ann"])[0] == pytest.approx(0.9)


def test_without_a_limit_of_delta_no_promise_with_one_is_charged(tmp_path):
    with open_ledger(tmp_path / "a.ledger") as ledger:
        with pytest.raises(Infeasible, match="limit of delta"):
            LedgerAccount(ledger, limit=2.0).charge(["ann"], [0.5], delta=1e-9)
        with reading(ledger) as connection:
            assert rounds_of(connection) == []


def test_a_repair_of_an_old_copy_knows_the_deltas_again(tmp_path):
    place = tmp_path / "a.ledger"
    with open_ledger(place) as ledger:
        account = LedgerAccount(ledger, limit=9.0, delta_limit=1e-4)
        account.charge(["ann"], [0.5], delta=1e-5)
    shutil.copy(place, tmp_path / "old")
    with open_ledger(place) as ledger:
        LedgerAccount(ledger, limit=9.0, delta_limit=1e-4).charge(["ann"], [0.5], delta=3e-5)
    shutil.copy(tmp_path / "old", place)
    with open_ledger(place) as ledger:
        repair(ledger)
        assert np.allclose(counted(ledger, "ann"), [4e-5], rtol=1e-9)
