"""Check a certificate with whatever else one has: a receipt, the openings, reports, a signature, rules.

Every check gives a :class:`~.verdicts.Check`: it holds, it fails, or it was skipped and why. Formulas are
derived anew here, and compared by exact arithmetic where a comparison decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from .commitments import commitments_check
from .layout import refuse_other
from .lines import LINE_CHECKS, Parts, receipt_checks
from .openings import openings_checks, read_openings
from .public import public_checks
from .reading import MOST_BODY, leaves_of, parsed, read
from .reports import opened_histograms_check, reports_checks
from .rules import rules_checks
from .signatures import signature_check
from .statements import statements_check
from .verdicts import FAILS, HOLDS, Broken, Check, Verification, judged


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
    receipt
        Bytes of a seller's receipt.
    cost
        The cost that the receipt's holder reported: is the quote the one for it? It is used here and goes
        nowhere.
    digest
        The certificate's digest as the reader knows it from elsewhere.
    openings
        Bytes of the buyer's openings: checks every line.
    reports
        Bytes of the frozen reports, a CSV of id and cost; with openings.
    signature, public_key
        Ed25519 signature of the body's bytes, 64 bytes, and the raw public key, 32 bytes.
    commitment
        Bytes of the rules that were published before anybody reported.

    Returns
    -------
    Verification
        With a receipt only the certificate's first line is needed, and only it is read from a path.

    Raises
    ------
    OSError
        If a path cannot be read. Whatever is wrong with what was read is a check that fails.

    Examples
    --------
    A seller checks the certificate with a receipt and the own cost; a changed certificate does not pass.

    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(2, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> receipt = certificate.receipt("ann")
    >>> dpm.verify(certificate, receipt=receipt, cost=1.5).passed
    True
    >>> changed = bytes(certificate).replace(b'"bought_from":1', b'"bought_from":2')
    >>> dpm.verify(changed, receipt=receipt, cost=1.5).passed
    False
    """
    checks: list[Check] = []
    try:
        file = read(certificate, first_line_only=receipt is not None and openings is None)
        body = parsed(file.body, "the certificate's first line", MOST_BODY)
        refuse_other(body, "certificate")
        found = hashlib.sha256(file.body).hexdigest()
        checks.append(Check("layout", HOLDS, f"canonical, version 3; the digest is {found}"))
        if digest is not None:
            checks.append(judged("digest", found == digest, "the one given", "not the one given"))
        checks.append(signature_check(file.body, signature, public_key))
        leaves = None if file.rest is None else leaves_of(file.rest)
        checks.append(commitments_check(body, leaves))
        sound = public_checks(body)
        checks += [*sound, *rules_checks(body, commitment), statements_check(body)]
        if all(check.verdict == HOLDS for check in sound[:2]):  # nothing is computed from absurd constants
            parts = Parts.of(body)
            if receipt is not None:
                checks += receipt_checks(parts, found, receipt, cost)
            if openings is not None:
                lines, opened = read_openings(parts, openings)
                checks += openings_checks(parts, found, leaves, lines, opened)
                checks += opened_histograms_check(parts, opened["secrets"])
                if reports is not None:
                    checks += reports_checks(parts, lines, opened["secrets"], reports)
    except Broken as problem:
        checks.append(Check("layout", FAILS, str(problem)))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as problem:
        checks.append(Check("layout", FAILS, f"a part is missing or wrong ({type(problem).__name__})"))
    return Verification(tuple(checks))


def refusals(body: bytes, lines: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return the checks that fail of a body and some of its lines: for a writer, before it publishes."""
    try:
        found = parsed(body, "the certificate", MOST_BODY)
        refuse_other(found, "certificate")
        checks = [*public_checks(found), *rules_checks(found, None), statements_check(found)]
        wrong = [check for check in checks if check.verdict == FAILS]
        if not wrong:
            parts = Parts.of(found)
            as_read = [{**line, "part": float(line["part"]), "group": float(line["group"])} for line in lines]
            rows = [row for row in LINE_CHECKS if not all(row[1](parts, line) for line in as_read)]
            wrong = [Check(name, FAILS, no) for name, _, _, no in rows]
    except Broken as problem:
        wrong = [Check("layout", FAILS, str(problem))]
    return wrong
