"""Sealing: private keys in a folder, HPKE for what only their holder may read, and wrapping of the keys.

Sealing is HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) of the package cryptography. The purpose is part
of what is sealed: a row that was put in the place of another does not open. A campaign's private key is
destroyed before noise is drawn; the folder of keys therefore belongs in no backup.

Where ``DPMARKET_MASTER_KEY_FILE`` names a master key (64 hexadecimal digits, ``openssl rand -hex 32``),
private keys are wrapped by it with AES-256-GCM, bound to their file's name.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dpmarket.campaign.log import write_private
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

OPERATOR = "operator"
"""The name of the key that outlives campaigns: for payees and for what certificates commit to."""


def new_key(folder: Path, name: str) -> bytes:
    """Make a key pair; the private half goes to a file for its owner only, the public half is returned.

    Where there is a master key, the private half is wrapped by it.

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


def keep_operator_key(folder: Path, public: bytes | None) -> bytes:
    """Return the operator's public key, made if the market has none yet.

    Parameters
    ----------
    folder
        The folder of private keys.
    public
        The public half that the database knows; None: there is none, and a pair is made.

    Raises
    ------
    FileProblem
        The database knows a key whose private half is not in the folder. A second one is never made.
    """
    if public is None:
        return new_key(folder, OPERATOR)
    if not has_key(folder, OPERATOR, public):
        raise FileProblem(
            f"the operator's private key is not in {folder}: name the right folder of keys, or put the key "
            "back from its own copy. Without it payees and contacts cannot be read."
        )
    return public


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
    # Named after the public half: a second pair made by mistake replaces nothing.
    return folder / f"{name}-{hashlib.sha256(public).hexdigest()[:16]}.key"


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise FileProblem(f"cannot read the key {path.name}: {problem.strerror or problem}.") from None
    return unwrapped(content, path.name)


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
