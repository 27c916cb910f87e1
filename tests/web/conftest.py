"""One service for all tests of a file: each test has campaigns of its own."""

import pytest

from support.shop import open_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with open_shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened
