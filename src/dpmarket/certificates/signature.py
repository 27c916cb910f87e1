"""Ed25519 signatures of certificates' bodies, by the ``cryptography`` package (``dpmarket[signing]``)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, private_bytes, read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dpmarket.certificates.certificate import Certificate

SIGNATURE = "dpmarket.signature/1"


def new_signing_key(target: str | os.PathLike[str]) -> str:
    """Write a new PEM key to a new file that only its owner can read; return the public key, hexadecimal."""
    kind = _kind_of_key()
    from cryptography.hazmat.primitives import serialization

    key = kind.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    private_bytes(target, text)
    return _public(key)


def sign(certificate: Certificate, key_file: str | os.PathLike[str]) -> bytes:
    """Return the signature of a certificate's body, which stands for the whole: a small JSON file."""
    kind = _kind_of_key()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key: object = load_pem_private_key(read_bytes(key_file), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, kind):
        raise FileProblem(f"expected an Ed25519 key in PEM form without a password in {key_file}.")
    data = {
        "schema": SIGNATURE,
        "certificate": certificate.digest,
        "public_key": _public(key),
        "signature": key.sign(certificate.body).hex(),
    }
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def read_signature(data: bytes) -> tuple[bytes, bytes]:
    """Return a signature file's signature and public key; whose it is must be known from elsewhere."""
    try:
        found = parse_json(data)
        if found["schema"] != SIGNATURE:
            raise ValueError
        return bytes.fromhex(found["signature"]), bytes.fromhex(found["public_key"])
    except (KeyError, TypeError, ValueError):
        raise InvalidInput("expected a signature file as dpmarket certify writes it.") from None


def _kind_of_key() -> type[Ed25519PrivateKey]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise InvalidInput(
            "signing needs the cryptography package: install dpmarket with the extra signing."
        ) from None
    return Ed25519PrivateKey


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()
