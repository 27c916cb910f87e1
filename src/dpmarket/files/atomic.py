"""Write files so that a reader sees the old one or the new one, never half of one."""

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from dpmarket.errors import FileProblem

PUBLIC = 0o666  # mode of a file that others may read, as far as the process's umask lets them
PRIVATE = 0o600  # mode of a confidential file: only its owner may read it


def is_standard_stream(path: str | os.PathLike[str]) -> bool:
    """Whether the path is ``-``, which stands for standard input and output."""
    return os.fspath(path) == "-"


def refuse_existing(target: str | os.PathLike[str]) -> None:
    """Refuse a target that exists, before work is done that would have nowhere to go."""
    if not is_standard_stream(target) and Path(target).exists():
        raise _existing(target)


def refuse_unwritable(target: str | os.PathLike[str]) -> None:
    """Refuse a target whose folder is missing or cannot be written, before work is done for nothing."""
    path = Path(target)
    if is_standard_stream(target):
        return
    if not path.parent.is_dir():
        raise FileProblem(f"cannot write {path}: the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise FileProblem(f"cannot write {path}: it is a folder; name a file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileProblem(f"cannot write {path}: the folder {path.parent} cannot be written.")


def refuse_same(output: str | os.PathLike[str], *others: str | os.PathLike[str]) -> None:
    """Refuse an output that is one of the other files, under whatever name: writing it would destroy that."""
    if is_standard_stream(output):
        return
    for other in others:
        if not is_standard_stream(other) and _is_same(output, other):
            raise FileProblem(
                f"cannot write to {output}: it is {other}, which is still needed; name another file."
            )


@contextlib.contextmanager
def atomic_path(
    target: str | os.PathLike[str], *, overwrite: bool = True, mode: int = PUBLIC
) -> Iterator[Path]:
    """Give an empty temporary file beside ``target``; on success it takes the target's place, in one step.

    If the block raises, or the process is killed, the old file stays as it was. With ``overwrite=False`` an
    existing target is refused, even if it appears while the block runs. Who may read the file is ``mode``,
    less what the umask forbids, and less what an old file forbade; the same holds for the temporary file.
    """
    path = Path(target)
    refuse_unwritable(path)
    if not overwrite:
        refuse_existing(path)
    with _beside(path) as temporary:
        old = path.stat().st_mode if path.exists() else None
        _create(temporary, mode if old is None else PRIVATE)
        yield temporary
        flush_to_disk(temporary)
        if old is not None:
            os.chmod(temporary, old & mode)
        if overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
        flush_to_disk(path.parent)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Give the path of a temporary file or folder, removed at the end; refuse what cannot be done."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
    except FileProblem:
        raise
    except FileExistsError:
        raise _existing(path) from None
    except OSError as problem:
        raise FileProblem(f"cannot write {path}: {problem.strerror or problem}.") from None
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def write_bytes(target: str | os.PathLike[str], data: bytes, *, overwrite: bool = True) -> None:
    """Write ``data`` to ``target``, atomically; ``-`` is the standard output."""
    if is_standard_stream(target):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with atomic_path(target, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)


def private_bytes(target: str | os.PathLike[str], data: bytes, *, overwrite: bool = False) -> None:
    """Write ``data`` to a file that only its owner may read, atomically, whatever an older one's mode."""
    with atomic_path(target, overwrite=overwrite, mode=PRIVATE) as temporary:
        temporary.write_bytes(data)


def write_folder(target: str | os.PathLike[str], files: Iterable[tuple[str, bytes]]) -> None:
    """Write confidential files, one at a time, into a new folder that appears when all of them are there."""
    path = Path(target)
    if path.exists():
        raise FileProblem(f"{path} exists; name another folder.")
    refuse_unwritable(path)
    with _beside(path) as temporary:
        temporary.mkdir(mode=0o700)
        for name, data in files:
            _create(temporary / name, PRIVATE)
            (temporary / name).write_bytes(data)
            flush_to_disk(temporary / name)
        flush_to_disk(temporary)
        os.rename(temporary, path)
        flush_to_disk(path.parent)


def read_bytes(source: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a whole file of at most so many bytes, or refuse it in one sentence; ``-`` is standard input."""
    size = -1 if most is None else most + 1
    try:
        if is_standard_stream(source):
            data = sys.stdin.buffer.read(size)
        else:
            with Path(source).open("rb") as file:
                data = file.read(size)
    except FileNotFoundError:
        raise FileProblem(f"cannot read {source}: there is no such file.") from None
    except IsADirectoryError:
        raise FileProblem(f"cannot read {source}: it is a folder; name a file.") from None
    except OSError as problem:
        raise FileProblem(f"cannot read {source}: {problem.strerror or problem}.") from None
    if most is not None and len(data) > most:
        raise FileProblem(f"cannot read {source}: it is larger than any such file, {most:,} bytes.")
    return data


def flush_to_disk(path: Path) -> None:
    """Write a file, or a folder's list of files, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))


def _existing(target: str | os.PathLike[str]) -> FileProblem:
    return FileProblem(f"{target} exists; name another file, or say that it may be overwritten (--force).")


def _is_same(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(path) == os.path.realpath(other)
