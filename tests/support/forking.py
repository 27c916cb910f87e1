"""Run commands in forks of a process that has loaded everything, so that a kill hits work, not imports.

Run as a script: reads one JSON list per line, the folder, the state folder, a file for the output (or null),
the number of the write after which the fork kills itself (or null) and the arguments; writes the process id
of the fork, then, once it has ended, its exit code (negative: the signal that killed it).
"""

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path


class Forks:
    """A process whose forks run commands in a folder, which may be another one for every command."""

    def __init__(self, folder=None):
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout.readline() == "ready\n"

    def start(self, *arguments, output=None, kill_at=None):
        """Start a command, with its output into a file if one is given; return its process id.

        With ``kill_at`` it kills itself right after its so-many-th write to a database or to the disk.
        """
        places = [str(self.folder), os.environ["DPMARKET_STATE"], output and str(output)]
        self._process.stdin.write(json.dumps([*places, kill_at, *arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self):
        """Return the exit code of the command that was started."""
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _kill_at(number):
    """Let this process kill itself after one of its writes: a changed row, a commit, a file on the disk."""
    import sqlalchemy as sa

    writes = 0

    def count():
        nonlocal writes
        writes += 1
        if writes == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function):
        def call(*arguments, **options):
            result = function(*arguments, **options)
            count()
            return result

        return call

    @sa.event.listens_for(sa.Engine, "after_cursor_execute")
    def _executed(connection, cursor, statement, *_):
        words = statement.upper().split()
        # One that begins by WITH changes several tables at once.
        changes = words[:1] if words[0] != "WITH" else words
        if {"INSERT", "UPDATE", "DELETE", "(INSERT", "(UPDATE", "(DELETE"}.intersection(changes):
            count()

    @sa.event.listens_for(sa.Engine, "commit")
    def _committing(connection):
        count()

    dialect = sa.engine.default.DefaultDialect
    dialect.do_commit = counted(dialect.do_commit)  # and after it, when nobody was told yet
    for name in ("fsync", "replace", "link", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


def _load():
    """Load everything, and look for no garbage in it: a fork that did would copy all of it first."""
    import importlib
    import pkgutil

    gc.disable()
    import numpy as np

    import dpmarket as dpm

    for module in pkgutil.walk_packages(dpm.__path__, "dpmarket."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # Compile without touching polars, whose threads a fork would not have.
    dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(5, 0.01)).run(np.linspace(1, 5, 60))
    dpm.PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)).fit(np.eye(4) / 2, [0, 1, 0, 1])
    gc.freeze()
    gc.enable()


def _serve():
    _load()
    from dpmarket.cli.app import main

    print("ready", flush=True)
    for line in sys.stdin:
        fork = os.fork()
        if fork == 0:
            folder, state, output, kill_at, *arguments = json.loads(line)
            os.chdir(folder)
            os.environ["DPMARKET_STATE"] = state
            if kill_at is not None:
                _kill_at(kill_at)
            sys.argv = ["dpmarket", *arguments]
            if output:
                os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            code = 0
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        print(fork, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
