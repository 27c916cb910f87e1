"""Wrap private keys by a master key, so that who copies the folder of keys has none of them.

The master key lies in a file of its own, which ``DPMARKET_MASTER_KEY_FILE`` names: 64 hexadecimal digits
(``openssl rand -hex 32``), for its owner only. A wrapped key is AES-256-GCM of the key, with the name of its
file as what must fit: one that was put in the place of another does not unwrap.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk

VARIABLE = "DPMARKET_MASTER_KEY_FILE"
"""The environment variable that names the master key's file; without it keys are not wrapped."""

_MAGIC = b"dpmarket wrapped key 1\n"
_NONCE = 12


def master_key() -> bytes | None:
    """Return the master key; None if no file of it is named.

    Raises
    ------
    FileProblem
        The file is missing, is no file, can be read by others, or holds something else.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise FileProblem(f"cannot use the master key in {path}: expected a file ({VARIABLE}).")
        if mode & 0o077:
            raise FileProblem(
                f"cannot use the master key in {path}: expected a file that only its owner can read (chmod "
                f"600), found the mode {stat.S_IMODE(mode):o}."
            )
        content = path.read_bytes()
    except OSError as problem:
        reason = problem.strerror or problem
        raise FileProblem(f"cannot read the master key in {path}: {reason} ({VARIABLE}).") from None
    if not re.fullmatch(rb"[0-9a-fA-F]{64}\n?", content):
        raise FileProblem(f"cannot use the master key in {path}: expected 64 hexadecimal digits.")
    return bytes.fromhex(content.decode().strip())


def wrapped(content: bytes, name: str) -> bytes:
    """Return a private key as it goes to its file: wrapped, or in clear where there is no master key."""
    master = master_key()
    if master is None:
        return content
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE)
    return _MAGIC + nonce + AESGCM(master).encrypt(nonce, content, name.encode())


def unwrapped(content: bytes, name: str) -> bytes:
    """Return the private key that a file holds.

    Raises
    ------
    FileProblem
        It is wrapped, and there is no master key or another one; or it was changed.
    """
    if not content.startswith(_MAGIC):
        return content
    master = master_key()
    if master is None:
        raise FileProblem(
            f"cannot use the key {name}: it is wrapped; name the master key's file ({VARIABLE})."
        )
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    start = len(_MAGIC)
    nonce, sealed = content[start : start + _NONCE], content[start + _NONCE :]
    try:
        return AESGCM(master).decrypt(nonce, sealed, name.encode())
    except (InvalidTag, ValueError):
        raise FileProblem(
            f"cannot use the key {name}: it was wrapped by another master key, or changed."
        ) from None


def wrap_folder(folder: Path) -> int:
    """Wrap all keys of a folder that are in clear, if there is a master key; return how many.

    Whenever it is killed, every key is there, once; what was in clear is overwritten.

    Raises
    ------
    FileProblem
        The master key cannot be used, or a key cannot be read or written.
    """
    if master_key() is None:
        return 0
    count = 0
    for path in sorted(folder.glob("*.key")):
        try:
            with path.open("r+b") as clear:
                content = clear.read()
                if content.startswith(_MAGIC):
                    continue
                temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
                write_private(temporary, wrapped(content, path.name))
                os.replace(temporary, path)
                flush_to_disk(folder)
                clear.seek(0)
                clear.write(bytes(len(content)))
                clear.flush()
                os.fsync(clear.fileno())
                count += 1
        except OSError as problem:
            raise FileProblem(f"cannot wrap the key {path.name}: {problem.strerror or problem}.") from None
    return count


def write_private(path: Path, content: bytes) -> None:
    """Write a new file for its owner only, and to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
