"""Settings that every test shares."""

import os

# One thread per worker: the workers are the parallelism. Must be set before the libraries load.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import tempfile  # noqa: E402

# The log outside of ledgers: never the one of whoever runs the tests.
os.environ["DPMARKET_STATE"] = tempfile.mkdtemp(prefix="dpmarket-state-")

import hypothesis  # noqa: E402

# The same examples in every run: a failure of `make test` is a fact about the code, not about luck.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
# For planted faults: the first failure is enough, and need not be made small.
hypothesis.settings.register_profile(
    "first", derandomize=True, deadline=None, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
