"""Make, find and destroy private keys, and seal what only their holder may read.

Sealing is HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) of the package cryptography. What something is
sealed for goes in as well: a row that was put in the place of another does not open.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk
from dpmarket.market.wrapping import unwrapped, wrapped, write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

OPERATOR = "operator"
"""The name of the key that outlives campaigns: for payees and for what certificates commit to."""


def new_key(folder: Path, name: str) -> bytes:
    """Make a key pair; the private half goes to a file for its owner only, the public half is returned.

    Where there is a master key (:mod:`dpmarket.market.wrapping`), the private half is wrapped by it.

    Raises
    ------
    FileProblem
        The file cannot be written, the master key cannot be used, or the package cryptography is missing or
        too old.
    """
    _suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    path = _path(folder, name, public)
    content = wrapped(private.private_bytes_raw(), path.name)
    try:
        write_private(path, content)
        flush_to_disk(folder)
    except OSError as problem:
        raise FileProblem(f"cannot write a key to {folder}: {problem.strerror or problem}.") from None
    return public


def operator_key(folder: Path) -> bytes:
    """Return the operator's public key; its pair is made if there is none."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    found = sorted(folder.glob(f"{OPERATOR}-*.key"))
    if not found:
        return new_key(folder, OPERATOR)
    private = X25519PrivateKey.from_private_bytes(_read(found[0]))
    return private.public_key().public_bytes_raw()


def has_key(folder: Path, name: str, public: bytes) -> bool:
    """Whether the private half of a key is still there."""
    return _path(folder, name, public).exists()


def destroy_key(folder: Path, name: str, public: bytes) -> None:
    """Destroy the private half of a key: what was sealed to it can never be opened again.

    Raises
    ------
    FileProblem
        It is there and cannot be removed.
    """
    _destroy(_path(folder, name, public))


def names_of_keys(folder: Path) -> dict[str, int]:
    """Return whose keys are in a folder, and how many of each; the operator's are left out."""
    found = Counter(path.name.rsplit("-", 1)[0] for path in folder.glob("*-*.key"))
    found.pop(OPERATOR, None)
    return dict(found)


def destroy_other_keys(folder: Path, name: str, public: bytes | None) -> int:
    """Destroy all keys of a name but one; return how many there were.

    Parameters
    ----------
    folder, name
        Where, and whose.
    public
        The public half of the one that stays; None: none stays.

    Raises
    ------
    FileProblem
        One cannot be removed.
    """
    kept = None if public is None else _path(folder, name, public)
    others = [path for path in folder.glob(f"{name}-*.key") if path != kept]
    for path in others:
        _destroy(path)
    return len(others)


def seal(public: bytes, content: bytes, *purpose: str) -> bytes:
    """Seal bytes so that only the holder of the private key can open them, for the same purpose."""
    suite = _suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return bytes(suite.encrypt(content, X25519PublicKey.from_public_bytes(public), _info(purpose)))


class ShortKey:
    """A key pair that lives in this process's memory only, for one answer."""

    def __init__(self) -> None:
        self._suite = _suite()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "ShortKey()"

    def open(self, sealed: bytes, *purpose: str) -> bytes:
        """Return what was sealed to this key for a purpose."""
        return bytes(self._suite.decrypt(sealed, self._private, _info(purpose)))


class Opener:
    """Opens what was sealed to a key: reads the private half once."""

    def __init__(self, folder: Path, name: str, public: bytes) -> None:
        self._suite = _suite()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.from_private_bytes(_read(_path(folder, name, public)))

    def __repr__(self) -> str:
        return "Opener()"

    def open(self, sealed: bytes, *purpose: str) -> bytes | None:
        """Return what was sealed for a purpose; None if it was not, or not with this key."""
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(self._suite.decrypt(sealed, self._private, _info(purpose)))
        except (InvalidTag, ValueError):
            return None


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
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        flush_to_disk(path.parent)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise FileProblem(f"cannot destroy the key {path.name}: {problem.strerror or problem}.") from None


def _path(folder: Path, name: str, public: bytes) -> Path:
    # Named after the public half: who makes a second pair by mistake replaces nothing.
    return folder / f"{name}-{hashlib.sha256(public).hexdigest()[:16]}.key"


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise FileProblem(f"cannot read the key {path.name}: {problem.strerror or problem}.") from None
    return unwrapped(content, path.name)
