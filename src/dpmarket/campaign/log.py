"""The anti-rollback log: a file outside of the database with every commit point, one line each.

A commit point is a row of ``commit_log`` first, written in the transaction of its act, and is copied to the
file after COMMIT (*shipped*) before anybody profits from it: before noise is drawn, a payout is handed out or
a refund is made. The file is therefore never ahead of the database, and a database that lacks its last line
was put back from a backup.

Every act reads the file's last line first and the database second: that line must be the database's own row
of that tick. A file that is shorter than ``market.shipped`` was lost or is another market's.

Lines are JSON objects ``{tick, at, kind, body, before}``; ``before`` is the digest of the line above. Kinds:

* ``begun``: the market's id, key and place, so that a lost database can be made again;
* ``spend``: an attempt passed its commit point; its snapshot names people, epsilons and payments;
* ``return``: an attempt was returned after its commit point, because its line could not be shipped;
* ``withdrawn``: people left a campaign;
* ``payout``: payments were handed out; a snapshot names them;
* ``refund``: money left escrow.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk, private_bytes

KINDS = ("begun", "spend", "return", "withdrawn", "payout", "refund")
NAME = "commit.log"
_BLOCK = 4096


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    tick: int
    text: str
    digest: str

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object that the line is."""
        return dict(json.loads(self.text))


def canonical(data: object) -> str:
    """Write plain data as JSON in one way only: sorted, without blanks."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(text: str) -> str:
    """Return the digest of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def make_line(tick: int, at: str, kind: str, body: dict[str, Any], before: str) -> Line:
    """Return the line of a commit point."""
    if kind not in KINDS:
        raise ValueError(f"no such kind of line: {kind}")
    text = canonical({"tick": tick, "at": at, "kind": kind, "body": body, "before": before})
    return Line(tick, text, digest_of(text))


def tick_of(line: Line | None) -> int:
    """Return the tick of a log's last line; 0: there is none."""
    return 0 if line is None else line.tick


class Log:
    """The log of one market, in a folder of its own, with its snapshots and liveness locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME

    def last(self) -> Line | None:
        """Return the last whole line; None if there is none."""
        with file_problems(f"cannot read {self.path}"):
            if not self.path.exists():
                return None
            with self.path.open("rb") as file:
                return _last_line(file, self.path)[0]

    def lines(self) -> list[Line]:
        """Return all whole lines, whose chain is checked."""
        with file_problems(f"cannot read {self.path}"):
            data = self.path.read_bytes() if self.path.exists() else b""
        found: list[Line] = []
        for number, raw in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
            line = _line(raw, self.path)
            before = found[-1].digest if found else ""
            if line.tick != number or line.content["before"] != before:
                raise FileProblem(
                    f"cannot use {self.path}: line {number} does not follow from the line above it; "
                    "put back the file's own newest copy."
                )
            found.append(line)
        return found

    def append(self, pending: Callable[[Line | None], Sequence[Line]]) -> int:
        """Append lines and write them to the disk, while no other process can; return the last tick."""
        self._make_folder()
        with file_problems(f"cannot use {self.path}"):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                last, end = _last_line(file, self.path)
                lines = pending(last)
                if not lines:
                    return tick_of(last)
                file.truncate(end)
                file.seek(end)
                file.write(b"".join(line.text.encode() + b"\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
                if last is None:
                    flush_to_disk(self.folder)
                return lines[-1].tick

    def rewrite(self, lines: Sequence[Line]) -> None:
        """Write the whole file anew, after it was lost."""
        self._make_folder()
        private_bytes(self.path, b"".join(line.text.encode() + b"\n" for line in lines), overwrite=True)

    def write_snapshot(self, name: str, table: pl.DataFrame) -> dict[str, str]:
        """Write a table beside the log and to the disk; return its name and digest for the line's body."""
        self._make_folder()
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        content = buffer.getvalue()
        path = self.folder / f"{name}.parquet"
        private_bytes(path, content, overwrite=True)  # perhaps one of an attempt that was not committed
        return {"file": path.name, "sha256": hashlib.sha256(content).hexdigest()}

    def read_snapshot(self, named: dict[str, str]) -> pl.DataFrame:
        """Return a table that :meth:`write_snapshot` wrote."""
        path = self.folder / Path(named["file"]).name
        with file_problems(f"cannot use {path}"):
            content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != named["sha256"]:
            raise FileProblem(f"cannot use {path}: its content differs from what the log says.")
        return pl.read_parquet(io.BytesIO(content))

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Hold a lock for a ``with`` block; it ends with the process. Gives whether it was free."""
        self._make_folder()
        with file_problems(f"cannot use {self.folder}"):
            descriptor = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _make_folder(self) -> None:
        with file_problems(f"cannot use {self.folder}"):
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)


def log_of_place(state: Path, place: str) -> Log | None:
    """Return the log of the market that was last begun at a place; None if there is none."""
    found: list[tuple[str, Log]] = []
    for path in state.glob(f"*/{NAME}"):
        with contextlib.suppress(OSError, FileProblem, ValueError), path.open("rb") as file:
            first = _line(file.readline().rstrip(b"\n"), path).content
            if first["kind"] == "begun" and first["body"]["place"] == place:
                found.append((first["at"], Log(path.parent)))
    return max(found, key=lambda one: one[0])[1] if found else None


def forget_place(state: Path, place: str) -> None:
    """Delete the logs of markets that were begun at a place; for places with public records only."""
    while (log := log_of_place(state, place)) is not None:
        shutil.rmtree(log.folder)


def _line(raw: bytes, path: Path) -> Line:
    try:
        text = raw.decode()
        tick = json.loads(text)["tick"]
    except (ValueError, KeyError, TypeError):
        wrong = "a line is not what dpmarket writes; put back the file's own newest copy."
        raise FileProblem(f"cannot use {path}: {wrong}") from None
    return Line(tick, text, digest_of(text))


def _last_line(file: BinaryIO, path: Path) -> tuple[Line | None, int]:
    """Return the last whole line and where it ends, read from the end."""
    size, length = file.seek(0, os.SEEK_END), _BLOCK
    while True:
        start = max(size - length, 0)
        file.seek(start)
        whole, newline, _ = file.read().rpartition(b"\n")
        if start == 0 or b"\n" in whole:
            raw = whole[whole.rfind(b"\n") + 1 :]
            return (_line(raw, path), start + len(whole) + 1) if newline else (None, 0)
        length *= 2


@contextlib.contextmanager
def file_problems(refusal: str) -> Iterator[None]:
    """Raise an operating-system error about a file as one sentence."""
    try:
        yield
    except FileProblem:
        raise
    except OSError as problem:
        raise FileProblem(f"{refusal}: {problem.strerror or problem}.") from None
