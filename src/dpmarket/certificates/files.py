"""Certificates in files: write one with its openings, read it back for receipts, and check one."""

from __future__ import annotations

import os
import re

import numpy as np

from dpmarket.certificates.certificate import OPENINGS, Certificate
from dpmarket.certificates.commitments import VALUES, Sellers, commit
from dpmarket.certificates.signature import read_signature
from dpmarket.certificates.verifier import Verification, verify
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, private_bytes, read_bytes, write_bytes

Path = str | os.PathLike[str]
_LARGEST = 16 << 20  # bytes of a receipt, a signature or published rules: far more than any has


def write_certificate(
    certificate: Certificate, target: Path, openings: Path, *, overwrite: bool = False
) -> None:
    """Write confidential openings, never over others, to a file of their owner's, then the certificate."""
    for path in (target, openings):
        if os.fspath(path) == "-":
            raise InvalidInput("expected files for certificate and openings, got a stream.")
    if os.path.realpath(target) == os.path.realpath(openings):
        raise InvalidInput("expected two files: the certificate is public, the openings are not.")
    private_bytes(openings, certificate.openings())
    write_bytes(target, bytes(certificate), overwrite=overwrite)


def read_certificate(source: Path, openings: Path) -> Certificate:
    """Read a certificate and its openings back, byte by byte the same, for making receipts."""
    data = read_bytes(source)
    try:
        opened = parse_json(read_bytes(openings))
        places = [np.array(opened[name]) for name in ("withdrew", "part", "group")]
        lines = Sellers(opened["id"], *(np.array(opened[name]) for name in VALUES), *places)
        (rules,) = set(opened["rules"])
        salts = bytes.fromhex("".join(opened["salt"]))
        tree = commit(lines, rules, salts)
        body = data[len(b'{"body":') : data.index(b',\n"commitments"')]
        nonce = opened["secrets"]["nonce"]
        nonce = None if nonce is None else bytes.fromhex(nonce)
        certificate = Certificate(body, lines, salts, tree, rules, nonce)
        stated = (opened["schema"], opened["certificate"])
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, InvalidInput):
        raise FileProblem(f"expected a certificate in {source} and its openings in {openings}.") from None
    if bytes(certificate) != data or stated != (OPENINGS, certificate.digest):
        raise FileProblem(f"the openings in {openings} do not belong to the certificate in {source}.")
    return certificate


def check_certificate(
    certificate: Path, *, receipt: Path | None = None, cost: float | None = None, digest: str | None = None,
    signature: Path | None = None, public_key: str | None = None, openings: Path | None = None,
    reports: bytes | None = None, commitment: Path | None = None,
) -> Verification:  # fmt: skip
    """Check all that :func:`~dpmarket.certificates.verifier.certificate.verify` can with the files given.

    The public key, in hexadecimal digits, must be known from elsewhere: a signature file names a key, but
    anybody can make one. Things that need one another and are not given together are refused. Reports are
    the content of a CSV file of id and cost.
    """
    if cost is not None and receipt is None:
        raise InvalidInput("expected a receipt with a cost: it says which payment to compare with.")
    if (signature is None) != (public_key is None):
        raise InvalidInput("expected a signature together with the signer's public key.")
    if reports is not None and openings is None:
        raise InvalidInput("expected openings with the reports: they say what each report was quoted.")
    if public_key is not None and not re.fullmatch("[0-9a-fA-F]{64}", public_key):
        raise InvalidInput("expected public_key to be 64 hexadecimal digits.")
    whole = receipt is None or openings is not None
    if not whole and not os.path.isfile(certificate):
        raise FileProblem(f"cannot read {certificate}: there is no such file.")
    # Everything is read once: a file that changes, or a stream, must not be seen in two states.
    small = {"receipt": receipt, "commitment": commitment, "signature": signature}
    files = {name: read_bytes(path, _LARGEST) for name, path in small.items() if path is not None}
    if openings is not None:
        files["openings"] = read_bytes(openings)
    if reports is not None:
        files["reports"] = reports
    if public_key is not None:
        files |= {"signature": read_signature(files["signature"])[0], "public_key": bytes.fromhex(public_key)}
    return verify(read_bytes(certificate) if whole else certificate, cost=cost, digest=digest, **files)
