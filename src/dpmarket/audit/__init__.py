"""Let an outsider check truthfulness, participation and privacy."""

from dpmarket.audit.truthfulness import Lie, TruthfulnessAudit, audit_truthfulness, audit_truthfulness_at

__all__ = ["Lie", "TruthfulnessAudit", "audit_truthfulness", "audit_truthfulness_at"]
