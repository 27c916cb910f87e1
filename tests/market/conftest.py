"""A desk on each database; keys and the log outside in folders of the test's own."""

import pytest

from dpmarket.market import open_desk
from support.ledgers import new_database, postgres_server
from support.live import Live


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
def desk(place, tmp_path):
    with open_desk(place, tmp_path / "keys") as opened:
        yield opened


@pytest.fixture
def live(desk):
    return Live(desk)


@pytest.fixture
def offline(desk):
    return Live(desk, "offline")
