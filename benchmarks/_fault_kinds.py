"""Break a running service, a little at a time: kill, freeze, cut, fill, shift; and heal what was broken.

Everything here is called from one thread, which also starts again what died.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from _fault_places import Database, Process, set_clock
from _fault_proxy import Wire

KINDS = {
    "web process killed": 10,
    "worker killed": 8,
    "worker killed while it trains": 1,
    "process frozen for seconds": 8,
    "database killed": 2,
    "database's child killed": 4,
    "calls cut": 8,
    "answers cut off": 12,
    "database connections cut": 8,
    "database cut off after COMMIT": 16,
    "disk full": 6,
    "clock of one process shifted": 12,
}
"""How often each is chosen, against the others."""
IN_TRAINING = "worker killed while it trains"
_SKEW = 45 * 60.0  # seconds: more than a seat lasts, less than is left of any campaign
_TRAINING_SECONDS = 8.0


class Breaker:
    """What can be broken, and what was.

    Parameters
    ----------
    database, webs, workers
        The processes.
    calls, connections
        Wires from callers to each web process, and from all processes to the database.
    disk
        The folder that is a disk of its own; None: none could be made, and writing is forbidden instead.
    state
        Where trainings show that they are alive.
    seed
        Of what is chosen.
    """

    def __init__(
        self,
        database: Database,
        webs: list[Process],
        workers: list[Process],
        *,
        calls: list[Wire],
        connections: Wire,
        disk: Path | None,
        state: Path,
        seed: int,
    ) -> None:
        self.database, self.webs, self.workers = database, webs, workers
        self._calls, self._connections, self._disk, self._state = calls, connections, disk, state
        self._rng = random.Random(seed)
        self._healing: list[tuple[float, Callable[[], None]]] = []
        self.shift = 0.0
        self.done: Counter[str] = Counter()
        self.found_dead: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(self.done.values())

    @property
    def processes(self) -> list[Process]:
        return [*self.webs, *self.workers]

    def tend(self) -> None:
        """Start what is down again, and heal what has been broken for long enough."""
        for when, heal in [one for one in self._healing if one[0] <= time.monotonic()]:
            self._healing.remove((when, heal))
            heal()
        if self.database.is_down():
            self.database.begin()
        for process in self.processes:
            if process.is_down():
                if process.code not in (None, -signal.SIGKILL):  # nobody killed it: it gave up by itself
                    self.found_dead["web" if process.port else "worker"] += 1
                process.begin()

    def heal(self) -> None:
        """Heal everything now, and wait until all of it works."""
        for _, heal in self._healing:
            heal()
        self._healing.clear()
        self.database.wait()
        while not all(web.is_ready() for web in self.webs):
            self.tend()
            time.sleep(0.1)

    def is_well(self) -> bool:
        """Whether somebody can be answered, and nothing that was killed is still on its way back."""
        return all(web.is_ready() for web in self.webs) and not any(one.is_down() for one in self.workers)

    def move_clock(self, seconds: float) -> None:
        """Let time pass for all processes."""
        self.shift += seconds
        for process in self.processes:
            set_clock(process, self.shift)

    def break_something(self) -> str:
        """Choose a kind of fault and do it; return which."""
        kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        return self.break_by(kind)

    def break_by(self, kind: str) -> str:
        acts: dict[str, Callable[[], object]] = {
            "web process killed": lambda: self._rng.choice(self.webs).kill(),
            "worker killed": lambda: self._rng.choice(self.workers).kill(),
            "worker killed while it trains": self._kill_in_training,
            "process frozen for seconds": self._freeze,
            "database killed": self.database.kill,
            "database's child killed": lambda: self.database.kill_child(self._rng.randrange(100)),
            "calls cut": lambda: self._rng.choice(self._calls).cut(),
            "answers cut off": lambda: self._rng.choice(self._calls).cut_answers(self._rng.randint(1, 4)),
            "database connections cut": lambda: self._connections.cut(self._rng.choice((1, 2, None))),
            "database cut off after COMMIT": lambda: self._connections.cut_after(b"COMMIT"),
            "disk full": self._fill,
            "clock of one process shifted": self._skew,
        }
        acts[kind]()
        self.done[kind] += 1
        return kind

    def _later(self, seconds: float, heal: Callable[[], None]) -> None:
        self._healing.append((time.monotonic() + seconds, heal))

    def _kill_in_training(self) -> None:
        """Kill all workers in the moment in which a training begins; or, if none does, now."""
        end = time.monotonic() + _TRAINING_SECONDS
        while time.monotonic() < end and not list(self._state.glob("*.running")):
            time.sleep(0.0005)
        time.sleep(self._rng.choice((0.0, 0.0, 0.005, 0.02)))
        for worker in self.workers:
            worker.kill()

    def _freeze(self) -> None:
        """Stop a process as a busy machine does: it knows nothing of it, and goes on later."""
        process = self._rng.choice(self.processes)
        if not process.is_down():
            process.send(signal.SIGSTOP)
            self._later(self._rng.uniform(1.0, 5.0), lambda: process.send(signal.SIGCONT))

    def _fill(self) -> None:
        seconds = self._rng.uniform(1.0, 3.0)
        if self._disk is None:
            for worker in self.workers:
                worker.limit_files(1)
                self._later(seconds, lambda worker=worker: worker.limit_files(-1))
            return
        ballast = self._disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            free = os.statvfs(self._disk).f_bavail * os.statvfs(self._disk).f_frsize
            os.posix_fallocate(file.fileno(), 0, max(free - 65536, 1))
            while file.write(bytes(4096)):
                pass
        self._later(seconds, lambda: ballast.unlink(missing_ok=True))

    def _skew(self) -> None:
        process = self._rng.choice(self.processes)
        process.skew = self._rng.uniform(-_SKEW, _SKEW)
        set_clock(process, self.shift)

        def right() -> None:
            process.skew = 0.0
            set_clock(process, self.shift)

        self._later(self._rng.uniform(3.0, 10.0), right)
