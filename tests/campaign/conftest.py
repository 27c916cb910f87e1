"""A market on each database, with its log and keys in folders of the test's own."""

import pytest

from campaign.live import Clock, Live, opened
from support.databases import new_database, postgres_server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request, tmp_path):
    """Where a new market goes."""
    if request.param == "sqlite":
        return tmp_path / "market.db"
    return new_database(request.getfixturevalue("server"))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def market(place, tmp_path, clock):
    with opened(place, tmp_path, clock) as market:
        yield market


@pytest.fixture
def live(market):
    return Live(market)
