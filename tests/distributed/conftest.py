"""Two workers on this machine, shared by all tests of a session; they take what a test's client asks for."""

import warnings

import pytest

from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as made:
        yield made


@pytest.fixture
def client(cluster):
    with warnings.catch_warnings(), Client(cluster) as made:
        warnings.simplefilter("ignore")
        yield made
