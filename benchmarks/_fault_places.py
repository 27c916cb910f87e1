"""A service as processes that can be killed: PostgreSQL on a small disk, web processes, workers.

Everything listens on loopback and ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

COMMAND = [sys.executable, "-c", "from dpmarket.cli import main; main()"]
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 100
shared_buffers = 32MB
min_wal_size = 8MB
max_wal_size = 24MB
log_error_verbosity = terse
log_min_error_statement = panic
"""


class Failed(Exception):
    """The run cannot go on, or found what must not be."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    command: Sequence[str], log: Path, environment: dict[str, str], **options: object
) -> subprocess.Popen:
    """Start a process that is killed when the thread that started it ends."""
    libc = ctypes.CDLL(None)
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            preexec_fn=lambda: libc.prctl(_DIES_WITH_PARENT, signal.SIGKILL),
            **options,
        )


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Make a folder a disk of its own that can be filled; gives whether that was permitted."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "dpmarket-faults", str(folder)]
    mounted = (
        shutil.which("mount") and not subprocess.run(["mount", *options], capture_output=True).returncode
    )
    try:
        yield bool(mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Database:
    """A PostgreSQL of one's own.

    Parameters
    ----------
    folder
        On the disk that it has for itself; not there yet.
    log
        Where it tells what it does.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        import pgserver

        self._binaries = Path(pgserver.__file__).parent / "pginstall" / "bin"
        self._folder, self._log, self.port = folder, log, free_port()
        self._options: dict[str, object] = {"cwd": "/"}
        folder.mkdir()
        if os.geteuid() == 0:  # a server refuses to be root
            user = _unprivileged_user()
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        command = [self._binaries / "initdb", "-D", folder, "-U", "postgres", "-A", "trust"]
        subprocess.run(
            [*map(str, command), "--wal-segsize=1", "--encoding=UTF8", "--no-locale"],
            check=True, capture_output=True, **self._options,
        )  # fmt: skip
        with (folder / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS + f"port = {self.port}\n")
        self._process: subprocess.Popen | None = None

    def address(self, port: int | None = None, name: str = "market") -> str:
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{name}"

    def connect(self, name: str = "market") -> psycopg.Connection:
        return psycopg.connect(self.address(name=name), autocommit=True, connect_timeout=10)

    def begin(self) -> None:
        command = [str(self._binaries / "postgres"), "-D", str(self._folder)]
        self._process = start(
            command, self._log, {"PATH": os.environ["PATH"], "LC_ALL": "C"}, **self._options
        )

    def is_down(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until it answers; one that could not start yet (its children are dying) is started again."""
        end = time.monotonic() + seconds
        while True:
            if self.is_down():
                self.begin()
            with contextlib.suppress(psycopg.Error), self.connect("postgres"):
                return
            if time.monotonic() > end:
                raise Failed("the database does not come back")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the server's first process: its children notice, and die."""
        if not self.is_down():
            self._process.kill()
            self._process.wait()

    def kill_child(self, number: int) -> None:
        """Kill one of the processes that serve a connection: the server then throws all of them out."""
        if self.is_down():
            return
        with contextlib.suppress(psycopg.Error), self.connect("postgres") as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = 'market' ORDER BY pid"
            pids = [row[0] for row in connection.execute(query)]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[number % len(pids)], signal.SIGKILL)

    def dump(self, file: Path) -> None:
        """Write a backup."""
        self._tool("pg_dump", "-Fc", "-f", str(file), self.address())

    def restore(self, file: Path) -> None:
        """Put a backup in the place of the database."""
        with self.connect("postgres") as connection:
            connection.execute("DROP DATABASE market WITH (FORCE)")
            connection.execute("CREATE DATABASE market")
        self._tool("pg_restore", "--exit-on-error", "-d", self.address(), str(file))

    def _tool(self, name: str, *arguments: str) -> None:
        done = subprocess.run([str(self._binaries / name), *arguments], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{name}: {done.stderr.strip().splitlines()[-1]}")


class Process:
    """A web process or a worker, which can be killed and is started again.

    Parameters
    ----------
    arguments
        Of the command ``dpmarket``.
    log
        Where it writes.
    environment
        Its settings.
    port
        Where a web process answers; None for a worker.
    clock
        The file by which its clock is shifted.
    """

    def __init__(
        self, arguments: Sequence[str], log: Path, environment: dict[str, str], port: int | None, clock: Path
    ) -> None:
        self._arguments, self._log, self._environment = arguments, log, environment
        self.port, self.clock, self.skew = port, clock, 0.0
        self._process: subprocess.Popen | None = None

    def begin(self) -> None:
        self._process = start([*COMMAND, *self._arguments], self._log, self._environment)

    def is_down(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def send(self, number: int) -> None:
        if not self.is_down():
            self._process.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Wait for its end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def said(self) -> str:
        """Return its last words."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self) -> None:
        """Ask it to stop; a worker ends what it is at."""
        if not self.is_down():
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def limit_files(self, size: int) -> None:
        """Forbid it to write beyond this place of a file, where no disk can be filled; -1: no limit."""
        if not self.is_down():
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, hard))


def set_clock(process: Process, shift: float) -> None:
    """Move a process's clock, in one step that it sees whole or not at all."""
    new = process.clock.with_suffix(".new")
    new.write_text(repr(shift + process.skew), encoding="ascii")
    new.replace(process.clock)


def _unprivileged_user() -> pwd.struct_passwd:
    """Return a user who owns nothing here; tests of the ledger use the same."""
    from pgserver.utils import ensure_user_exists

    ensure_user_exists("pgserver")
    return pwd.getpwnam("pgserver")
