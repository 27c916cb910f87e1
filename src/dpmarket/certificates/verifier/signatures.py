"""Check an Ed25519 signature over a certificate's body; the ``cryptography`` package does the work."""

from __future__ import annotations

from .verdicts import FAILS, HOLDS, NOT_MADE, Check


def signature_check(body: bytes, signature: bytes | None, public_key: bytes | None) -> Check:
    """Check that the holder of a key stands behind a certificate."""
    if signature is None or public_key is None:
        return Check("signature", NOT_MADE, "needs the signature and the signer's public key")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return Check("signature", FAILS, "cannot be checked: the cryptography package is missing")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return Check("signature", FAILS, "not made with this key over this certificate")
    return Check("signature", HOLDS, "made with this key over this certificate")
