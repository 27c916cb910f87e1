"""The log outside of ledgers in a folder of the test's own."""

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("DPMARKET_STATE", str(folder))
    return folder
