"""Settings that every test shares, and the order of their files."""

import gc
import os

# One thread per worker: the workers are the parallelism. Must be set before the libraries load.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import tempfile  # noqa: E402
from collections import Counter  # noqa: E402
from pathlib import Path  # noqa: E402

# The log outside of ledgers: never the one of whoever runs the tests.
os.environ["DPMARKET_STATE"] = tempfile.mkdtemp(prefix="dpmarket-state-")

import hypothesis  # noqa: E402
import pytest  # noqa: E402

# The same examples in every run: a failure of `make test` is a fact about the code, not about luck.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
# For planted faults: the first failure is enough, and need not be made small.
hypothesis.settings.register_profile(
    "first", derandomize=True, deadline=None, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# The files that take longest, the longest first: one at the end would keep all workers but one idle.
LONGEST = (Path(__file__).parent / "longest.txt").read_text(encoding="utf-8").split()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage in what is imported, neither now nor later: all of it stays. Later, less often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(700, 10, 100)
        gc.enable()


def pytest_collection_modifyitems(items):
    """Put the files that take longest first, then those with the most tests; a file's own order stays.

    For planted faults the files stay in the order of the command line: those that are likely to find it.
    """
    if os.environ.get("HYPOTHESIS_PROFILE") == "first":
        return
    files = [item.nodeid.partition("::")[0].removeprefix("tests/") for item in items]
    place = {name: place - len(LONGEST) for place, name in enumerate(LONGEST)}
    tests = Counter(files)
    order = sorted(range(len(items)), key=lambda i: (place.get(files[i], 0), -tests[files[i]], files[i]))
    items[:] = [items[i] for i in order]
