"""Buy differentially private data truthfully, and train a model that keeps every promise.

The public names live in the rooms of the package (see CONTRIBUTING.md) and are loaded when first used,
so that ``import dpmarket`` and ``dpmarket --help`` take no numerical library with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpmarket.errors import (
    DpmarketError,
    EntropyUnavailable,
    FileProblem,
    Infeasible,
    InvalidInput,
    NotConverged,
)
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.allocation import (
        Allocation,
        BuyerObjective,
        LocalMinimum,
        allocate,
        max_epsilon,
        project_to_capped_simplex,
    )
    from dpmarket.audit import (
        ParticipationAudit,
        PrivacyAudit,
        TruthfulnessAudit,
        audit_accounting,
        audit_participation,
        audit_privacy,
        audit_privacy_exact,
        audit_privacy_sampled,
        audit_truthfulness,
    )
    from dpmarket.costs import (
        CostDistribution,
        CostFit,
        Empirical,
        FromScipy,
        Mixture,
        Uniform,
        fit_costs,
        parse_distribution,
        virtual_cost_density,
        virtual_costs,
    )
    from dpmarket.datasets import PublicData
    from dpmarket.learning import Learner, PrivateLogisticRegression, PublicScaler
    from dpmarket.mechanisms import (
        Mechanism,
        OfflineMechanism,
        Outcome,
        Response,
        ResponseCurve,
        read_outcome,
        write_outcome,
    )
    from dpmarket.payments import Payment, payment_identity
    from dpmarket.privacy import (
        BestWeights,
        SecureNoise,
        SeededNoise,
        Weights,
        best_weights,
        paper_privacy_loss,
        plan_release,
        privacy_loss,
        release_cost,
        suggest_l2,
        weights_for,
    )

_ROOM_OF = {
    "ParticipationAudit": "audit",
    "PrivacyAudit": "audit",
    "TruthfulnessAudit": "audit",
    "audit_accounting": "audit",
    "audit_participation": "audit",
    "audit_privacy": "audit",
    "audit_privacy_exact": "audit",
    "audit_privacy_sampled": "audit",
    "audit_truthfulness": "audit",
    "PublicData": "datasets",
    "Learner": "learning",
    "release_cost": "privacy",
    "plan_release": "privacy",
    "SeededNoise": "privacy",
    "SecureNoise": "privacy",
    "PublicScaler": "learning",
    "PrivateLogisticRegression": "learning",
    "payment_identity": "payments",
    "Payment": "payments",
    "write_outcome": "mechanisms",
    "read_outcome": "mechanisms",
    "ResponseCurve": "mechanisms",
    "Response": "mechanisms",
    "Outcome": "mechanisms",
    "OfflineMechanism": "mechanisms",
    "Mechanism": "mechanisms",
    "project_to_capped_simplex": "allocation",
    "max_epsilon": "allocation",
    "allocate": "allocation",
    "LocalMinimum": "allocation",
    "BuyerObjective": "allocation",
    "Allocation": "allocation",
    "weights_for": "privacy",
    "suggest_l2": "privacy",
    "privacy_loss": "privacy",
    "paper_privacy_loss": "privacy",
    "best_weights": "privacy",
    "Weights": "privacy",
    "BestWeights": "privacy",
    "CostDistribution": "costs",
    "CostFit": "costs",
    "Empirical": "costs",
    "FromScipy": "costs",
    "Mixture": "costs",
    "Uniform": "costs",
    "fit_costs": "costs",
    "parse_distribution": "costs",
    "virtual_cost_density": "costs",
    "virtual_costs": "costs",
}

__all__ = [
    "Allocation",
    "BestWeights",
    "BuyerObjective",
    "CostDistribution",
    "CostFit",
    "DpmarketError",
    "Empirical",
    "EntropyUnavailable",
    "FileProblem",
    "FromScipy",
    "Infeasible",
    "InvalidInput",
    "Learner",
    "LocalMinimum",
    "Mechanism",
    "Mixture",
    "NotConverged",
    "OfflineMechanism",
    "Outcome",
    "ParticipationAudit",
    "Payment",
    "PrivacyAudit",
    "PrivateLogisticRegression",
    "PublicData",
    "PublicScaler",
    "Response",
    "ResponseCurve",
    "SecureNoise",
    "SeededNoise",
    "TruthfulnessAudit",
    "Uniform",
    "Weights",
    "__version__",
    "allocate",
    "audit_accounting",
    "audit_participation",
    "audit_privacy",
    "audit_privacy_exact",
    "audit_privacy_sampled",
    "audit_truthfulness",
    "best_weights",
    "fit_costs",
    "max_epsilon",
    "paper_privacy_loss",
    "parse_distribution",
    "payment_identity",
    "plan_release",
    "privacy_loss",
    "project_to_capped_simplex",
    "read_outcome",
    "release_cost",
    "suggest_l2",
    "virtual_cost_density",
    "virtual_costs",
    "weights_for",
    "write_outcome",
]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module 'dpmarket' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dpmarket.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
