"""Do acts of a live desk in forks of a process that has loaded everything, and kill them after a write.

Run as a script: reads one JSON object per line (place, keys, state folder, act, values, time, the number of
the write after which the fork kills itself or null); writes its exit code (negative: the signal).
"""

import json
import os
import subprocess
import sys
from pathlib import Path


class Acts:
    """A process whose forks do acts of a desk."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def do(self, place, keys, state, act, values, now, kill_at=None):
        """Do an act in a process of its own; return its exit code."""
        asked = [str(place), str(keys), str(state), act, values, now.isoformat(), kill_at]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _act(place, keys, state, act, values, now, kill_at):
    from datetime import datetime

    from forking import _kill_at

    from dpmarket import market

    os.environ["DPMARKET_STATE"] = state
    moment = datetime.fromisoformat(now)
    with market.open_desk(place, keys) as desk:
        if kill_at is not None:
            _kill_at(kill_at)
        if act == "work":
            market.work(desk, moment)
        elif act == "pay out":
            paymaster = market.Caller("paymaster", "")
            lines = market.make_payout(desk, paymaster, *values, moment)
            done = [line.reference for line in lines]
            market.enter_payments(desk, paymaster, *values, "confirmed", done, moment)
        else:
            with market.acting(desk) as connection:
                getattr(market, act)(connection, *values, moment)


def _serve():
    from forking import _load

    _load()
    print("ready", flush=True)
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            code = 1
            try:
                _act(*json.loads(line))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
