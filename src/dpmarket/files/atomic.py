"""Write files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

from dpmarket.errors import FileProblem


def is_standard_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path is ``-``, which stands for standard input and output."""
    return os.fspath(path) == "-"


def refuse_existing(target: str | os.PathLike[str]) -> None:
    """Refuse a target that exists, before work is done that would have nowhere to go."""
    if not is_standard_stream(target) and Path(target).exists():
        raise FileProblem(f"{target} exists; name another file, or say that it may be overwritten (--force).")


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike[str], overwrite: bool = True) -> Iterator[Path]:
    """Give a temporary path beside ``target``; on success it takes the target's place.

    The new file is flushed to the disk before it replaces the old one, in one step. If the block raises,
    or the process is killed, the old file stays as it was. With ``overwrite=False`` an existing target is
    refused, even if it appears while the block runs.

    Raises
    ------
    FileProblem : the target's folder is missing or not writable, or the target exists and may not be
        overwritten.
    """
    path = Path(target)
    if not path.parent.is_dir():
        raise FileProblem(f"cannot write {path}: the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise FileProblem(f"cannot write {path}: it is a folder; name a file.")
    if not overwrite and path.exists():
        raise FileProblem(f"{path} exists; name another file, or say that it may be overwritten.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        _flush(temporary)
        _keep_mode(path, temporary)
        if overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
        _flush(path.parent)
    except FileExistsError:
        raise FileProblem(f"{path} exists; name another file, or say that it may be overwritten.") from None
    except OSError as problem:
        if isinstance(problem, FileProblem):
            raise
        raise FileProblem(f"cannot write {path}: {problem.strerror or problem}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(target: str | os.PathLike[str], data: bytes, overwrite: bool = True) -> None:
    """Write ``data`` to ``target``, atomically; ``-`` is the standard output."""
    if is_standard_stream(target):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with atomic_path(target, overwrite) as temporary:
        temporary.write_bytes(data)


def private_bytes(target: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to a new file that only its owner may read; an existing file is refused."""
    with atomic_path(target, overwrite=False) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def read_bytes(source: str | os.PathLike[str]) -> bytes:
    """Read a whole file, or say in one sentence why that cannot be done; ``-`` is the standard input."""
    if is_standard_stream(source):
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise FileProblem(f"cannot read {source}: there is no such file.") from None
    except OSError as problem:
        raise FileProblem(f"cannot read {source}: {problem.strerror or problem}.") from None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_mode(path: Path, temporary: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, path.stat().st_mode & 0o7777)
