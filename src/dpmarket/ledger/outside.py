"""Keep a log of spending outside of every ledger, so that a restored backup cannot spend twice.

The log is a file of lines in the state folder, each a JSON object that holds the digest of the line before.
A line is on the disk before the function that wrote it returns. Beside the log lie the pages of what each
debit spends on whom, of who withdrew and of who was paid, and a lock file for every training that runs.
Confidential, like the ledgers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk
from dpmarket.ledger.engine import now

_START = "0" * 64
_TEXTS = ("at", "ledger", "attempt", "kind")
_PAGE = {"page", "page_digest"}
# What is read of a line by its kind: of what it is about, and of each of its rounds.
_ABOUT = {
    "begun": {"place"},
    "payout": {"payout", "made_at", *_PAGE},
    "payments": {"payout", "entry", "kind", *_PAGE},
    "refund": {"transfer", "campaign", "amount", "state"},
    "left": {"participation"},
    "uninvited": {"person"},
}
_ROUND = {
    "withdrawn": {"identity", "withdrawn", "leaving", *_PAGE},
    "debit": {
        *("identity", "digest", "repetition", "campaign", "rules", "minor_units", "currency", "mechanism"),
        *("ceiling", *_PAGE),
    },
}


@dataclass(frozen=True)
class Line:
    """One line of the log.

    Attributes
    ----------
    at
        When, in UTC.
    ledger, attempt
        Whose line it is: a ledger's id and an attempt's.
    kind
        ``begun`` (a ledger is used with this log, at this place), ``withdrawn``, ``debit``, ``mark`` or
        ``returned``; ``payout`` and ``payments`` (what became of one); of a live desk, ``refund``, ``left``
        (a campaign) and ``uninvited``.
    rounds
        For withdrawals and debits, what is known about each round, as plain data.
    about
        For ``begun``, the ledger's place and key; for who left, the participation or person; for money that
        goes out, the payout or the transfer, and where its page is.
    digest
        What the next line refers to.
    """

    at: str
    ledger: str
    attempt: str
    kind: str
    rounds: tuple[Mapping[str, Any], ...]
    about: Mapping[str, str]
    digest: str


def state_folder() -> Path:
    """Return where the log lies: ``DPMARKET_STATE``, or ``dpmarket`` in the user's state folder."""
    named = os.environ.get("DPMARKET_STATE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "dpmarket"


def read_log() -> list[Line]:
    """Return all lines. One that was not finished when its writer died does not count.

    Raises
    ------
    FileProblem
        The log cannot be read, its chain is broken, or a line lacks something: it was edited.
    """
    path = state_folder() / "spent.log"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise FileProblem(f"cannot read {path}: {problem.strerror or problem}.") from None
    return _lines(data, path)


def known_key(ledger: str) -> bytes | None:
    """Return the key that a ledger was first used with, None if it is not known here."""
    found = (line.about["key"] for line in read_log() if line.ledger == ledger and "key" in line.about)
    key = next(found, None)
    return None if key is None else bytes.fromhex(key)


def append(
    ledger: str,
    attempt: str,
    kind: str,
    rounds: Sequence[Mapping[str, Any]] = (),
    about: Mapping[str, str] | None = None,
    check: Callable[[Sequence[Line]], None] = lambda lines: None,
) -> str:
    """Write a line to the log and to the disk; return its digest. If that fails, the log is as before.

    Parameters
    ----------
    ledger, attempt, kind, rounds, about
        As in :class:`Line`.
    check
        Called with all lines before this one, while nobody else can write any; what it raises stops the line.

    Raises
    ------
    FileProblem
        The log cannot be written, or its chain is broken.
    """
    folder = _made()
    path = folder / "spent.log"
    with _as_file_problem(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            flush_to_disk(folder)  # first: what fails after the line is written could not take it back
            data = _all(descriptor)
            lines = _lines(data, path)
            check(lines)
            whole = data.rfind(b"\n") + 1
            before = lines[-1].digest if lines else _START
            content = {
                "at": now(),
                "ledger": ledger,
                "attempt": attempt,
                "kind": kind,
                "rounds": list(rounds),
                "about": dict(about or {}),
                "before": before,
            }
            text = json.dumps(content, sort_keys=True, ensure_ascii=False)
            digest = hashlib.sha256(text.encode()).hexdigest()
            line = json.dumps({"line": text, "digest": digest}).encode() + b"\n"
            _write(descriptor, whole, line)
        finally:
            os.close(descriptor)
    return digest


def keep_page(attempt: str, number: int, content: bytes) -> dict[str, str]:
    """Keep what a line is about whom beside the log, on the disk; return its file's name and digest."""
    folder = _made()
    name = f"{attempt}-{number}.parquet"
    with _as_file_problem(folder / name):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write(descriptor, 0, content)
        except OSError:
            (folder / name).unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    return {"page": name, "page_digest": hashlib.sha256(content).hexdigest()}


def read_page(name: str, digest: str) -> bytes:
    """Return a page that :func:`keep_page` kept.

    Raises
    ------
    FileProblem
        It is not there, or not as it was.
    """
    path = state_folder() / Path(name).name
    with _as_file_problem(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise FileProblem(f"cannot use {path}: it is not as it was written.")
    return content


@contextlib.contextmanager
def running(attempt: str) -> Iterator[None]:
    """Show to others, for a ``with`` block, that an attempt is alive; it ends with the process, however."""
    path = _made() / f"{attempt}.running"
    descriptor = _taken(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _taken(path: Path) -> int:
    """Make and lock a file; again if somebody took it for a dead process's before it was locked."""
    while True:
        with _as_file_problem(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        os.close(descriptor)


def is_running(attempt: str) -> bool:
    """Whether the process of an attempt is alive."""
    path = state_folder() / f"{attempt}.running"
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise FileProblem(f"cannot open {path}: {problem.strerror or problem}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def forget_dead() -> None:
    """Remove what dead processes left to show that they were alive."""
    for path in state_folder().glob("*.running"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _lines(data: bytes, path: Path) -> list[Line]:
    lines: list[Line] = []
    before = _START
    for number, raw in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            outer = json.loads(raw)
            text, digest = outer["line"], outer["digest"]
            content = json.loads(text)
            whole = hashlib.sha256(text.encode()).hexdigest() == digest and content["before"] == before
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise FileProblem(f"cannot use {path}: its chain is broken at line {number}; was it edited?")
        if not _is_complete(content):
            raise FileProblem(f"cannot use {path}: line {number} lacks what such lines say; was it edited?")
        at, ledger, attempt, kind = (content[name] for name in _TEXTS)
        lines.append(Line(at, ledger, attempt, kind, tuple(content["rounds"]), content["about"], digest))
        before = digest
    return lines


def _is_complete(content: Mapping[str, Any]) -> bool:
    """Whether a line has everything that is read of lines of its kind."""
    rounds, about = content.get("rounds"), content.get("about")
    return (
        all(isinstance(content.get(name), str) for name in _TEXTS)
        and isinstance(about, dict)
        and all(isinstance(value, str) for value in about.values())
        and _ABOUT.get(content["kind"], set()) <= about.keys()
        and isinstance(rounds, list)
        and all(isinstance(one, dict) and _ROUND.get(content["kind"], set()) <= one.keys() for one in rounds)
    )


def _made() -> Path:
    folder = state_folder()
    with _as_file_problem(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _write(descriptor: int, start: int, data: bytes) -> None:
    """Write at a position, cut off what came after it, and flush; or leave the file as it was up to there."""
    try:
        os.ftruncate(descriptor, start)
        os.lseek(descriptor, start, os.SEEK_SET)
        done = 0
        while done < len(data):
            done += os.write(descriptor, data[done:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, start)
        os.fsync(descriptor)
        raise


@contextlib.contextmanager
def _as_file_problem(path: Path) -> Iterator[None]:
    try:
        yield
    except FileProblem:
        raise
    except OSError as problem:
        raise FileProblem(f"cannot use {path}: {problem.strerror or problem}.") from None
