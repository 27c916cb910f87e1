"""Check a certificate with whatever else one has: a receipt, the openings, reports, a signature, rules."""

from __future__ import annotations

import hashlib
from typing import Any

from .lines import commitments_check, openings_checks, receipt_checks
from .public import Public, signature_check
from .reading import MOST_BODY, leaves_of, parsed, read
from .verdicts import HOLDS, Broken, Check, Verification, failed, judged, skipped


def verify(
    certificate: Any,
    *,
    receipt: bytes | None = None,
    cost: float | None = None,
    digest: str | None = None,
    openings: bytes | None = None,
    reports: bytes | None = None,
    signature: bytes | None = None,
    public_key: bytes | None = None,
    commitment: bytes | None = None,
) -> Verification:
    """Check all that can be checked with what is given.

    Parameters
    ----------
    certificate
        The file's bytes, or its path, or anything with ``bytes(certificate)``.
    receipt, cost
        Bytes of a seller's receipt, and the cost that its holder reported: is the quote the one for it? It is
        used here and goes nowhere.
    digest
        The certificate's digest as the reader knows it from elsewhere.
    openings, reports
        Bytes of the buyer's openings, to check every line, and of the frozen reports, a CSV of id and cost.
    signature, public_key
        Ed25519 signature of the body's bytes, 64 bytes, and the raw public key, 32 bytes.
    commitment
        Bytes of the rules that were published before anybody reported.

    Returns
    -------
    Verification
        What is wrong with what was read is a check that fails. With a receipt only the certificate's first
        line is needed, and only it is read from a path.
    """
    checks: list[Check] = []
    try:
        data, rest = read(certificate, first_line_only=receipt is not None and openings is None)
        body = parsed(data, "certificate", MOST_BODY)
        found = hashlib.sha256(data).hexdigest()
        checks.append(judged("layout", good=True, detail=found))
        if digest is not None:
            checks.append(judged("digest", found == digest))
        leaves = None if rest is None else leaves_of(rest)
        checks += [signature_check(data, signature, public_key), commitments_check(body, leaves)]
        public = Public(body)
        sound = public.checks(commitment)
        checks += sound
        if all(check.verdict == HOLDS for check in sound[:2]):  # nothing is computed from absurd numbers
            if receipt is not None:
                checks += receipt_checks(public, found, receipt, cost)
            if openings is not None:
                checks += openings_checks(public, found, leaves, openings, reports)
        if openings is None:
            checks.append(skipped("totals"))
    except Broken as problem:
        checks.append(failed("layout", str(problem)))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as problem:
        checks.append(failed("layout", f"a part is missing or wrong ({type(problem).__name__})"))
    return Verification(tuple(checks))
