"""Sealing: private keys in a folder, HPKE for what only their holder may read, and wrapping of the keys.

Sealing is HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) of the package cryptography. The purpose is part
of what is sealed: a row that was put in the place of another does not open. A campaign's private key is
destroyed before noise is drawn; the folder of keys therefore belongs in no backup.

With a master key (64 hexadecimal digits, ``openssl rand -hex 32``) private keys are wrapped by it with
AES-256-GCM, bound to their file's name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dpmarket.campaign.log import file_problems
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk, private_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

OPERATOR = "operator"  # the key that outlives campaigns: for payees and for what certificates commit to


def key_pair() -> tuple[bytes, bytes]:
    """Return the private and the public half of a new key."""
    _suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def new_key(folder: Path, name: str) -> bytes:
    """Make a key pair; the private half goes to a file for its owner only, the public half is returned."""
    private, public = key_pair()
    path = _path(folder, name, public)
    private_bytes(path, _wrapped(private, path.name))
    return public


def has_key(folder: Path, name: str, public: bytes) -> bool:
    """Whether the private half of a key is still there."""
    return _path(folder, name, public).exists()


def destroy_key(folder: Path, name: str, public: bytes) -> None:
    """Destroy the private half of a key: what was sealed to it can never be opened again."""
    _destroy(_path(folder, name, public))


def destroy_other_keys(folder: Path, name: str, public: bytes | None) -> None:
    """Destroy all keys of a name but one."""
    kept = None if public is None else _path(folder, name, public)
    for path in set(folder.glob(f"{name}-*.key")) - {kept}:
        _destroy(path)


def seal(public: bytes, content: bytes, *purpose: str) -> bytes:
    """Seal bytes so that only the holder of the private key can open them, for the same purpose."""
    suite = _suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return bytes(suite.encrypt(content, X25519PublicKey.from_public_bytes(public), _info(purpose)))


class Opener:
    """Opens what was sealed to a key, with its private half."""

    def __init__(self, private: bytes) -> None:
        self._suite = _suite()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.from_private_bytes(private)

    def open(self, sealed: bytes, *purpose: str) -> bytes | None:
        """Return what was sealed for a purpose; None if it was not, or not with this key."""
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._suite.decrypt(sealed, self._private, _info(purpose)))
        except (InvalidTag, ValueError):
            return None


def opener_of(folder: Path | None, name: str, public: bytes | None) -> Opener:
    """Return what opens rows that are sealed to a key of a folder."""
    if folder is None or public is None:
        raise FileProblem("no private keys are here: a worker has them.")
    path = _path(folder, name, public)
    with file_problems(f"cannot read the key {path.name}"):
        return Opener(_unwrapped(path.read_bytes(), path.name))


def _suite() -> Suite:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError:
        raise FileProblem(
            "sealing records needs a version of the package cryptography with HPKE: "
            "pip install 'dpmarket[service]'."
        ) from None
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def _info(purpose: tuple[str, ...]) -> bytes:
    """Write a purpose in one way only: each part with its length before it."""
    parts = (part.encode() for part in ("dpmarket", *purpose))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _destroy(path: Path) -> None:
    refusal = f"cannot destroy the key {path.name}"
    with file_problems(refusal), contextlib.suppress(FileNotFoundError):  # another worker was quicker
        with path.open("r+b") as file:
            _overwrite(file)
        path.unlink()
        flush_to_disk(path.parent)


def _overwrite(file: BinaryIO) -> None:
    """Write zeros over a file's content, and to the disk."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    file.write(bytes(size))
    file.flush()
    os.fsync(file.fileno())


def _path(folder: Path, name: str, public: bytes) -> Path:
    # Named after the public half: a second pair made by mistake replaces nothing.
    return folder / f"{name}-{hashlib.sha256(public).hexdigest()[:16]}.key"


VARIABLE = "DPMARKET_MASTER_KEY_FILE"  # names the master key's file; without it keys are not wrapped

_MAGIC = b"dpmarket wrapped key 1\n"
_NONCE = 12


def master_key() -> bytes | None:
    """Return the master key; None if no file of it is named."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    refusal = f"cannot use the master key in {path} ({VARIABLE})"
    with file_problems(refusal):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            expected = "expected a file that only its owner can read (chmod 600)"
            raise FileProblem(f"{refusal}: {expected}, found the mode {stat.S_IMODE(mode):o}.")
        content = path.read_bytes()
    if not re.fullmatch(rb"[0-9a-fA-F]{64}\n?", content):
        raise FileProblem(f"{refusal}: expected 64 hexadecimal digits.")
    return bytes.fromhex(content.decode().strip())


def _wrapped(content: bytes, name: str) -> bytes:
    """Return a private key as it goes to its file: wrapped, or in clear where there is no master key."""
    master = master_key()
    if master is None:
        return content
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE)
    return _MAGIC + nonce + AESGCM(master).encrypt(nonce, content, name.encode())


def _unwrapped(content: bytes, name: str) -> bytes:
    """Return the private key that a file holds."""
    if not content.startswith(_MAGIC):
        return content
    master = master_key()
    refusal = f"cannot use the key {name}"
    if master is None:
        raise FileProblem(f"{refusal}: it is wrapped; name the master key's file ({VARIABLE}).")
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, sealed = content[len(_MAGIC) :][:_NONCE], content[len(_MAGIC) + _NONCE :]
    try:
        return AESGCM(master).decrypt(nonce, sealed, name.encode())
    except (InvalidTag, ValueError):
        raise FileProblem(f"{refusal}: it was wrapped by another master key, or changed.") from None


def wrap_folder(folder: Path) -> None:
    """Wrap all keys of a folder that are in clear, and overwrite those, if there is a master key."""
    if master_key() is None:
        return
    for path in sorted(folder.glob("*.key")):
        with file_problems(f"cannot wrap the key {path.name}"), path.open("r+b") as clear:
            content = clear.read()
            if content.startswith(_MAGIC):
                continue
            private_bytes(path, _wrapped(content, path.name), overwrite=True)
            _overwrite(clear)
