"""Run a machine of rules against ledgers at places of its own."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test


def run_machine(machine, place_of, examples, steps):
    """Run a machine, the same way every time; ``place_of`` gives the place of a ledger, from a folder."""
    state = os.environ.get("DPMARKET_STATE")
    own = type("Run", (machine,), {"place_of": staticmethod(place_of)})
    try:
        run_state_machine_as_test(
            own,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        if state is not None:
            os.environ["DPMARKET_STATE"] = state
