"""Let an outsider check truthfulness, participation and privacy: nobody has to believe the software.

:func:`audit_truthfulness` searches for a lie that pays, :func:`audit_participation` looks for sellers who
lost by taking part, and :func:`audit_privacy` for promises that are broken: by the exact density
(:func:`audit_privacy_exact`), by sampled models (:func:`audit_privacy_sampled`) and by recomputed
spending (:func:`audit_accounting`). Every result has ``passed``, ``summary()`` and ``to_dict()``.
"""

from dpmarket.audit.accounting import audit_accounting, weights_of
from dpmarket.audit.findings import PrivacyFindings
from dpmarket.audit.gains import GainProfile
from dpmarket.audit.participation import ParticipationAudit, audit_paid_amounts, audit_participation
from dpmarket.audit.privacy import PrivacyAudit, audit_privacy
from dpmarket.audit.privacy_exact import audit_privacy_exact
from dpmarket.audit.privacy_sampled import audit_privacy_sampled
from dpmarket.audit.shape import Audit
from dpmarket.audit.truthfulness import Lie, TruthfulnessAudit, audit_truthfulness, audit_truthfulness_at

__all__ = [
    "Audit",
    "GainProfile",
    "Lie",
    "ParticipationAudit",
    "PrivacyAudit",
    "PrivacyFindings",
    "TruthfulnessAudit",
    "audit_accounting",
    "audit_paid_amounts",
    "audit_participation",
    "audit_privacy",
    "audit_privacy_exact",
    "audit_privacy_sampled",
    "audit_truthfulness",
    "audit_truthfulness_at",
    "weights_of",
]
