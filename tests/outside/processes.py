"""Processes that run commands: forks of one that has loaded the package, entered through its entry point."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

TESTS = Path(__file__).parents[1]
COMMAND = "dpmarket"


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments, cwd, code=0, text=None, kill_after=None):
    """Run a command in a folder to its end; fail unless it exits with ``code`` (None: whatever it is)."""
    return Running(*arguments, cwd=cwd, text=text, kill_after=kill_after).wait(code)


class Running:
    """A command that was started. Negative exit codes are signals.

    With ``kill_after`` the process kills itself right after its so-many-th write to a database or disk.
    """

    def __init__(self, *arguments, cwd, text=None, kill_after=None, environment=None):
        self._folder = Path(tempfile.mkdtemp(prefix="outside-"))
        (self._folder / "in").write_text(text or "", encoding="utf-8")
        self._said = " ".join([COMMAND, *map(str, arguments)])
        places = {"DPMARKET_STATE": str(Path(cwd) / "state"), **(environment or {})}
        details = (list(map(str, arguments)), str(cwd), str(self._folder), places, kill_after)
        self._process = forks().Process(target=_enter, args=details)
        self._process.start()

    @property
    def pid(self):
        return self._process.pid

    def out(self):
        return self._read("out")

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, code=0, seconds=300):
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError(f"{self._said} did not end within {seconds} s")
        done = Done(self._process.exitcode, self._read("out"), self._read("err"))
        shutil.rmtree(self._folder, ignore_errors=True)
        assert code is None or done.code == code, f"{self._said}: {done.code}\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err, done.err
        return done

    def _read(self, name):
        path = self._folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def forks():
    """Return the multiprocessing context whose processes are forks of one that has loaded the package."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["outside.loaded"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(TESTS) not in paths:  # the server itself starts with the environment alone
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, str(TESTS)]))
    return context


def _enter(arguments, cwd, folder, environment, kill_after):
    os.chdir(cwd)
    os.environ.update(environment)
    modes = {"in": os.O_RDONLY, "out": os.O_WRONLY | os.O_CREAT, "err": os.O_WRONLY | os.O_CREAT}
    for number, (name, mode) in enumerate(modes.items()):
        os.dup2(os.open(f"{folder}/{name}", mode), number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
    )
    sys.argv = [COMMAND, *arguments]
    if kill_after is not None:
        kill_after_write(kill_after)
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    entry.load()()


def kill_after_write(number):
    """Let this process kill itself after one of its writes: a changed row, a commit, a file on the disk."""
    import sqlalchemy as sa

    writes = 0

    def count(*_):
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

    def executed(connection, cursor, statement, *_):
        if re.search(r"\b(INSERT|UPDATE|DELETE)\b", statement.upper()):
            count()

    sa.event.listen(sa.Engine, "after_cursor_execute", executed)
    sa.event.listen(sa.Engine, "commit", count)
    dialect = sa.engine.default.DefaultDialect
    dialect.do_commit = counted(dialect.do_commit)
    for name in ("fsync", "replace", "link", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


def until(look, seconds=60.0):
    """Return the first true value of ``look()``; fail after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not happen within {seconds} s")
