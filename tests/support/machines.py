"""Run a machine of rules against ledgers at places of its own."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

# No power is cut here: where there is a disk in memory, its files are flushed at once.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_machine(machine, place_of, examples, steps, part=0):
    """Run a machine, the same way every time; ``place_of`` gives the place of a ledger, from a folder.

    A long run can be done in parts, each with examples of its own: what they are follows from the name of the
    class.
    """
    state = os.environ.get("DPMARKET_STATE")
    own = type(f"Run{part}", (machine,), {"place_of": staticmethod(place_of), "steps_done": 0})

    def counted():
        own.steps_done += 1

    own.count_step = staticmethod(counted)
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
            _min_steps=steps,
        )
    finally:
        if state is not None:
            os.environ["DPMARKET_STATE"] = state
    return own.steps_done
