"""Check a certificate that lies in files: read what is given, and let the verifiers speak."""

from __future__ import annotations

import os

from dpmarket.certificates.signing import read_signature
from dpmarket.certificates.verifier.certificate import examined
from dpmarket.certificates.verifier.layout import Body
from dpmarket.certificates.verifier.verdicts import Verification
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_bytes

Path = str | os.PathLike[str]
_LARGEST = 16 << 20
"""Bytes of a receipt, a signature or published rules: far more than any has."""


def check_certificate(
    certificate: Path,
    *,
    receipt: Path | None = None,
    cost: float | None = None,
    digest: str | None = None,
    signature: Path | None = None,
    public_key: str | None = None,
    openings: Path | None = None,
    commitment: Path | None = None,
) -> Verification:
    """Check all that can be checked with the files given.

    Parameters
    ----------
    certificate, receipt, openings
        Files as :func:`~dpmarket.certificates.verifier.certificate.verify` takes their bytes.
    cost, digest
        The receipt holder's own cost; the digest as known from elsewhere.
    signature, public_key
        A signature file, and the signer's public key in hexadecimal digits. It must be known from elsewhere:
        a signature file names a key, but anybody can make one.
    commitment
        The rules as they were published before anybody reported.

    Returns
    -------
    Verification
        Every check, as :func:`~dpmarket.certificates.verifier.certificate.verify` makes them.

    Raises
    ------
    InvalidInput
        For things that need one another and are not given together.
    FileProblem
        If a file cannot be read.
    """
    return examined_files(
        certificate,
        receipt=receipt,
        cost=cost,
        digest=digest,
        signature=signature,
        public_key=public_key,
        openings=openings,
        commitment=commitment,
    )[0]


def examined_files(
    certificate: Path,
    *,
    receipt: Path | None = None,
    cost: float | None = None,
    digest: str | None = None,
    signature: Path | None = None,
    public_key: str | None = None,
    openings: Path | None = None,
    commitment: Path | None = None,
) -> tuple[Verification, Body | None]:
    """Return what :func:`check_certificate` does, and the certificate's public part if it could be read."""
    if cost is not None and receipt is None:
        raise InvalidInput("expected a receipt with a cost: it says which payment to compare with.")
    if (signature is None) != (public_key is None):
        raise InvalidInput("expected a signature together with the signer's public key.")
    # Everything is read once: a file that changes, or a stream, must not be seen in two states.
    opened = None if openings is None else read_bytes(openings)
    whole = receipt is None or opened is not None
    if not whole and not os.path.isfile(certificate):
        raise FileProblem(f"cannot read {certificate}: there is no such file.")
    proof: Path | bytes = read_bytes(certificate) if whole else certificate
    result, body, _ = examined(
        proof,
        receipt=None if receipt is None else read_bytes(receipt, _LARGEST),
        cost=cost,
        digest=digest,
        openings=opened,
        signature=None if signature is None else read_signature(read_bytes(signature, _LARGEST))[0],
        public_key=None if public_key is None else _key(public_key),
        commitment=None if commitment is None else read_bytes(commitment, _LARGEST),
    )
    return result, body


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InvalidInput("expected public_key to be 64 hexadecimal digits.")
    return key
