"""Do acts in forks of a process that has loaded everything, and kill them after a write.

Run as a script: reads one JSON list per line (place, folder, act, values, time, the number of the write after
which the fork kills itself); writes the fork's exit code (negative: the signal).
"""

import json
import os
import subprocess
import sys
from pathlib import Path


class Acts:
    """A process whose forks do acts."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def do(self, place, folder, act, values, now, kill_at):
        asked = [str(place), str(folder), act, values, now.isoformat(), kill_at]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _act(place, folder, act, values, now, kill_at):
    from datetime import datetime

    from campaign.live import opened
    from support.forking import _kill_at

    place = place if "://" in place else Path(place)
    with opened(place, Path(folder), lambda: datetime.fromisoformat(now), make=False) as market:
        _kill_at(kill_at)
        ACTS[act](market, Path(folder), *values)


def noisy(folder):
    """Return a release that notes each time it draws noise."""
    from campaign.live import release

    def draw(records, sellers, before_noise):
        before_noise()
        with (folder / "noise").open("a") as file:
            file.write("1\n")
        return release(records, sellers, before_noise)

    return draw


def methods(folder):
    """Return what a worker needs, with noise that is counted."""
    from dataclasses import replace

    from campaign.live import METHODS

    return replace(METHODS, release=lambda campaign: noisy(folder))


def _choose(market, folder, participation):
    from dpmarket.campaign.acts import Caller
    from dpmarket.campaign.quoting import choose

    market.run(choose, Caller(participation=participation), 2.0, key="k" * 20)


def _accept(market, folder, participation):
    from dpmarket.campaign.acts import Caller
    from dpmarket.campaign.sellers import accept

    market.run(accept, Caller(participation=participation))


def _withdraw(market, folder, participation):
    from dpmarket.campaign.acts import Caller
    from dpmarket.campaign.sellers import withdraw

    market.run(withdraw, Caller(participation=participation))


def _work(market, folder):
    from dpmarket.campaign.worker import work

    work(market, methods(folder))


def _pay(market, folder, campaign):
    from dpmarket.campaign.acts import OWNER
    from dpmarket.campaign.payouts import pay_out, payout_lines

    made = market.run(pay_out, OWNER, campaign)
    lines = payout_lines(market, made.id)
    (folder / "paid").write_text("\n".join(lines.get_column("reference")))


ACTS = {"choose": _choose, "accept": _accept, "withdraw": _withdraw, "work": _work, "pay": _pay}


def _serve():
    sys.path[:] = [one for one in sys.path if Path(one) != Path(__file__).parent]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import support.forking  # noqa: F401

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
