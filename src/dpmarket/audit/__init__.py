"""Check what a market did, and prove it to others.

:func:`~dpmarket.audit.certificate.certify` makes a certificate and receipts;
:func:`~dpmarket.audit.verifier.verify` checks them with code of its own.
"""

from dpmarket.audit.certificate import (
    Certificate,
    certify,
    certify_purchase,
    read_certificate,
    write_certificate,
)
from dpmarket.audit.payment_verifier import (
    verify_payments,
)
from dpmarket.audit.purchase import (
    Purchase,
    ReleasedModel,
)
from dpmarket.audit.signing import (
    new_signing_key,
    read_signature,
    sign,
)
from dpmarket.audit.truthfulness import (
    Lie,
    TruthfulnessAudit,
    audit_truthfulness,
    audit_truthfulness_at,
)
from dpmarket.audit.verifier import (
    Check,
    Verification,
    verify,
)

__all__ = [
    "Certificate",
    "Check",
    "Lie",
    "Purchase",
    "ReleasedModel",
    "TruthfulnessAudit",
    "Verification",
    "audit_truthfulness",
    "audit_truthfulness_at",
    "certify",
    "certify_purchase",
    "new_signing_key",
    "read_certificate",
    "read_signature",
    "sign",
    "verify",
    "verify_payments",
    "write_certificate",
]
