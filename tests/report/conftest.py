import pytest

from dpmarket.report.demo import run_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A whole demonstration, with few simulated campaigns."""
    return run_demo(tmp_path_factory.mktemp("demo") / "first")
