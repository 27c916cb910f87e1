"""Check an Ed25519 signature over a certificate's body; the ``cryptography`` package does the work."""

from __future__ import annotations

from .verdicts import FAILS, HOLDS, SKIPPED, Check


def signature_check(body: bytes, signature: bytes | None, public_key: bytes | None) -> Check:
    """Check that the holder of a key stands behind a certificate."""
    if signature is None or public_key is None:
        return Check("signature", SKIPPED, "needs the signature and the signer's public key")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return Check("signature", FAILS, "cannot be checked: the cryptography package is missing")
    if _is_small(public_key):
        return Check("signature", FAILS, "this is no key of anybody: one signature would fit many texts")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return Check("signature", FAILS, "not made with this key over this certificate")
    return Check("signature", HOLDS, "made with this key over this certificate")


def _is_small(public_key: bytes) -> bool:
    """Whether a key is one of the points of order 1, 2, 4 or 8, for which signatures prove nothing.

    Their second coordinates y are 1, -1, 0 and four more: twice such a point has the coordinate 0, which
    says, for the curve -x^2 + y^2 = 1 + d x^2 y^2, that x^2 = -y^2 and so d y^4 + 2 y^2 - 1 = 0.
    """
    p = 2**255 - 19
    y = (int.from_bytes(public_key, "little") & (2**255 - 1)) % p
    d = -121665 * pow(121666, -1, p)
    return y in (0, 1, p - 1) or (d * y**4 + 2 * y**2 - 1) % p == 0
