"""Let an outsider check truthfulness, participation and privacy: nobody has to believe the software.

:func:`audit_truthfulness` searches for a lie that pays, :func:`audit_participation` looks for sellers who
lost by taking part, and :func:`audit_privacy` for promises that are broken: by the exact density
(:func:`audit_privacy_exact`), by sampled models (:func:`audit_privacy_sampled`) and by recomputed
spending (:func:`audit_accounting`). Every result has ``passed``, ``summary()`` and ``to_dict()``.
"""

from dpmarket.audit.accounting import (
    audit_accounting,
    weights_of,
)
from dpmarket.audit.certificate import (
    Certificate,
    certify,
    certify_purchase,
    read_certificate,
    write_certificate,
)
from dpmarket.audit.checking import (
    check_certificate,
)
from dpmarket.audit.findings import (
    PrivacyFindings,
)
from dpmarket.audit.gains import (
    GainProfile,
)
from dpmarket.audit.participation import (
    ParticipationAudit,
    audit_paid_amounts,
    audit_participation,
)
from dpmarket.audit.payment_verifier import (
    verify_payments,
)
from dpmarket.audit.privacy import (
    PrivacyAudit,
    audit_privacy,
)
from dpmarket.audit.privacy_exact import (
    audit_privacy_exact,
)
from dpmarket.audit.privacy_sampled import (
    audit_privacy_sampled,
)
from dpmarket.audit.purchase import (
    Purchase,
    ReleasedModel,
)
from dpmarket.audit.shape import (
    Audit,
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
    "Audit",
    "Certificate",
    "Check",
    "GainProfile",
    "Lie",
    "ParticipationAudit",
    "PrivacyAudit",
    "PrivacyFindings",
    "Purchase",
    "ReleasedModel",
    "TruthfulnessAudit",
    "Verification",
    "audit_accounting",
    "audit_paid_amounts",
    "audit_participation",
    "audit_privacy",
    "audit_privacy_exact",
    "audit_privacy_sampled",
    "audit_truthfulness",
    "audit_truthfulness_at",
    "certify",
    "certify_purchase",
    "check_certificate",
    "new_signing_key",
    "read_certificate",
    "read_signature",
    "sign",
    "verify",
    "verify_payments",
    "weights_of",
    "write_certificate",
]
