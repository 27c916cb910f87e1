"""Turn reports into an identity that does not depend on their order and confirms no guess about a cost."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.files import bytes_of_texts
from dpmarket.ledger import kernels
from dpmarket.ledger.keyed import keyed

_ROWS_FOR_A_THREAD = 1 << 18


def reports_digest(key: bytes, table: pl.DataFrame, id_column: str, costs: FloatArray) -> str:
    """Return a keyed digest of who reported what, the same for every order of the rows.

    Parameters
    ----------
    key
        The ledger's key. Without it nobody can find out whether a guessed cost is in the digest.
    table, id_column
        The sellers.
    costs
        Their reports, in the order of the rows, money per unit of epsilon.

    Notes
    -----
    SipHash of every row under a key that is derived from the ledger's, added up in two ways, then HMAC of the
    sums. A sum does not depend on the order, and without the key nobody can make two sets of reports with
    the same one.
    """
    keys, rows = keys_for_reports(key), table.height
    many = min(os.cpu_count() or 1, 1 + rows // _ROWS_FOR_A_THREAD)
    ends = [rows * k // many for k in range(many + 1)]

    def sums_of(first: int, end: int) -> tuple[int, int]:
        return sums_of_reports(keys, table[first:end], id_column, costs[first:end])

    with ThreadPoolExecutor(many) as threads:
        sums = list(threads.map(sums_of, ends[:-1], ends[1:]))
    one, other = (sum(part) % (1 << 64) for part in zip(*sums, strict=True))
    return digest_of_sums(key, rows, (one, other))


def keys_for_reports(key: bytes) -> tuple[int, int, int]:
    """Return the keys under which reports are hashed, which follow from the ledger's and do not tell it."""
    first, second, third = _derived(key, "reports", 2).ravel()[:3].tolist()
    return first, second, third


def sums_of_reports(
    keys: tuple[int, int, int], table: pl.DataFrame, id_column: str, costs: FloatArray
) -> tuple[int, int]:
    """Return two sums of the hashes of rows, modulo 2**64: those of parts add up to those of the whole."""
    parts = np.array(keys, dtype=np.uint64)
    sums = np.zeros(2, dtype=np.uint64)
    first = 0
    for data, ends in bytes_of_texts(table, id_column):
        numbers = costs[first : first + ends.size] + 0.0  # -0.0 is 0.0
        kernels.add_hashes(data, ends, numbers.view(np.uint64), parts, sums)
        first += ends.size
    one, other = sums.tolist()
    return one, other


def digest_of_sums(key: bytes, rows: int, sums: tuple[int, int]) -> str:
    """Return the digest of as many reports with these sums."""
    return keyed(key, "reports", str(rows), *(str(part) for part in sums))


def references(key: bytes, subject: str, table: pl.DataFrame, id_column: str, numbers: IntArray) -> list[str]:
    """Return a reference for every row of a table, 32 hexadecimal digits: the same whenever it is asked for.

    Parameters
    ----------
    key
        The ledger's key.
    subject
        What the references are for; others differ.
    table, id_column, numbers
        Texts and whole numbers that tell the rows apart.
    """
    parts = []
    for lane in _derived(key, f"references {subject}", 2):
        out = np.empty(table.height, dtype=np.uint64)
        first = 0
        for data, ends in bytes_of_texts(table, id_column):
            part = slice(first, first + ends.size)
            kernels.hashes(data, ends, numbers[part].astype(np.uint64), lane[0], lane[1], out[part])
            first += ends.size
        parts.append(out.tolist())
    return [f"{high:016x}{low:016x}" for high, low in zip(*parts, strict=True)]


def _derived(key: bytes, purpose: str, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Return keys for SipHash that follow from the ledger's and a purpose."""
    made = (hashlib.sha256(key + f"{purpose} {k}".encode()).digest()[:16] for k in range(count))
    return np.frombuffer(b"".join(made), dtype="<u8").astype(np.uint64).reshape(count, 2)
