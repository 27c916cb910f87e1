"""A ledger on each database; the log outside in a folder of the test's own."""

import pytest

from dpmarket.ledger import open_ledger
from support.ledgers import new_database, postgres_server


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("DPMARKET_STATE", str(folder))
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request, tmp_path):
    """Where a new ledger goes."""
    if request.param == "sqlite":
        return tmp_path / "market.ledger"
    return new_database(request.getfixturevalue("server"))


@pytest.fixture
def ledger(place):
    with open_ledger(place) as opened:
        yield opened
