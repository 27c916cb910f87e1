"""Write a certificate and its openings to files, and read them back for making receipts."""

from __future__ import annotations

import os

import numpy as np

from dpmarket.certificates.certificate import OPENINGS, Certificate
from dpmarket.certificates.commitments import VALUES, Lines, commit
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, private_bytes, read_bytes, write_bytes


def write_certificate(
    certificate: Certificate,
    target: str | os.PathLike[str],
    openings: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write the certificate and, to a new file that only its owner can read, the confidential openings.

    The openings come first and are never overwritten: without its own openings no receipt of a certificate
    can be made.

    Parameters
    ----------
    certificate
        What :func:`certify` gave.
    target, openings
        Two different files, no streams.
    overwrite
        Whether an existing ``target`` is replaced; without it, it is refused.

    Raises
    ------
    InvalidInput
        If both are the same file, or one is a stream.
    FileProblem
        If a file exists that must not, or cannot be written.
    """
    for path in (target, openings):
        if os.fspath(path) == "-":
            raise InvalidInput("expected files for certificate and openings, got a stream.")
    if os.path.realpath(target) == os.path.realpath(openings):
        raise InvalidInput("expected two files: the certificate is public, the openings are not.")
    private_bytes(openings, certificate.openings())
    write_bytes(target, bytes(certificate), overwrite=overwrite)


def read_certificate(source: str | os.PathLike[str], openings: str | os.PathLike[str]) -> Certificate:
    """Read a certificate and its openings back, for making receipts.

    Parameters
    ----------
    source, openings
        The two files that :func:`write_certificate` made.

    Returns
    -------
    Certificate
        The same, byte by byte.

    Raises
    ------
    FileProblem
        If a file cannot be read, or the two do not belong together.
    """
    data = read_bytes(source)
    try:
        opened = parse_json(read_bytes(openings))
        values = np.array([opened[name] for name in VALUES], dtype=np.float64).T
        withdrew = np.array(opened["withdrew"], dtype=np.bool_)
        quotes = np.array(opened["quotes"], dtype=np.int64)
        salts = bytes.fromhex("".join(opened["salt"]))
        lines = Lines(np.array(opened["id"]), values.copy(), salts, withdrew, quotes)
        body = data[len(b'{"body":') : data.index(b',\n"commitments"')]
    except (KeyError, OverflowError, TypeError, ValueError):
        raise FileProblem(f"expected a certificate in {source} and its openings in {openings}.") from None
    certificate = Certificate(body, lines, commit(lines))
    told = (opened.get("schema"), opened.get("certificate"))
    if bytes(certificate) != data or told != (OPENINGS, certificate.digest):
        raise FileProblem(f"the openings in {openings} do not belong to the certificate in {source}.")
    return certificate
