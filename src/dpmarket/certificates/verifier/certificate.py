"""Check a certificate with whatever else one has: a receipt, the openings, a signature, the published rules.

Every check gives a :class:`~.verdicts.Check`: it holds, it fails, or it was not made and why. Formulas are
derived anew here, and compared by exact arithmetic where a comparison decides.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .commitments import commitments_check
from .constants import delta_check, public_checks
from .layout import Body, Lines, body_of
from .menus import menu_checks, menu_of
from .openings import openings_checks, read_openings
from .reading import MOST_BODY, leaves_of, parsed, read
from .receipts import receipt_checks
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
        The receipt holder's own cost, money per unit of epsilon: is the payment worth the promise? It is
        used here and goes nowhere.
    digest
        The certificate's digest as the reader knows it from elsewhere.
    openings
        Bytes of the buyer's openings: checks every line.
    signature, public_key
        Ed25519 signature of the body's bytes, 64 bytes, and the raw public key, 32 bytes.
    commitment
        Bytes of the rules that were published before anybody reported.

    Returns
    -------
    Verification
        With a receipt only the certificate's first line is needed, and only it is read from a path: the
        commitments are not, and are said not to be checked.

    Raises
    ------
    OSError
        If a path cannot be read. Whatever is wrong with what was read is a check that fails.

    Examples
    --------
    A seller checks the certificate with a receipt and the own cost; a changed certificate does not pass.

    >>> import dpmarket as dpm
    >>> from dpmarket.mechanisms.exact import OfflineMechanism
    >>> from dpmarket.mechanisms.objective import PaperObjective
    >>> mechanism = OfflineMechanism(dpm.Uniform(1, 5), PaperObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> dpm.verify(certificate, receipt=certificate.receipt("ann"), cost=1.5).passed
    True
    >>> dpm.verify(bytes(certificate).replace(b'"bought_from":3', b'"bought_from":4')).passed
    False
    """
    found = examined(
        certificate,
        receipt=receipt,
        cost=cost,
        digest=digest,
        openings=openings,
        signature=signature,
        public_key=public_key,
        commitment=commitment,
    )
    return found[0]


def examined(
    certificate: Any,
    *,
    receipt: bytes | None = None,
    cost: float | None = None,
    digest: str | None = None,
    openings: bytes | None = None,
    signature: bytes | None = None,
    public_key: bytes | None = None,
    commitment: bytes | None = None,
) -> tuple[Verification, Body | None, Lines | None]:
    """Return all checks, and the certificate's parts and lines as far as they could be read."""
    checks: list[Check] = []
    body, lines = None, None
    try:
        file = read(certificate, first_line_only=receipt is not None and openings is None)
        body = body_of(parsed(file.body, "the certificate's first line", MOST_BODY))
        found = hashlib.sha256(file.body).hexdigest()
        checks.append(Check("layout", HOLDS, f"canonical, version 2; the digest is {found}"))
        if digest is not None:
            checks.append(judged("digest", found == digest, "the one given", "not the one given"))
        checks.append(signature_check(file.body, signature, public_key))
        leaves = None if file.rest is None else leaves_of(file.rest)
        checks.append(commitments_check(body, leaves))
        sound = public_checks(body)
        menu = menu_of(body)
        checks += [*sound, *menu_checks(body, menu), *statements_check(body), *rules_checks(body, commitment)]
        if sound[0].verdict == HOLDS:  # nothing is computed from constants that no market has
            checks += delta_check(body) if openings is None else []
            if receipt is not None:
                checks += receipt_checks(body, found, receipt, cost, menu)
            if openings is not None:
                lines, named = read_openings(body, openings)
                checks += openings_checks(body, found, leaves, lines, named, menu)
    except Broken as problem:
        checks.append(Check("layout", FAILS, str(problem)))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as problem:
        checks.append(Check("layout", FAILS, f"a part is missing or wrong ({type(problem).__name__})"))
    return Verification(tuple(checks)), body, lines
