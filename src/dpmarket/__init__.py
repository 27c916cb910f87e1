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
    LedgerRefusal,
    NotCertifiable,
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
    from dpmarket.audit import Certificate, Verification, certify, verify
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
        CheapestK,
        Mechanism,
        OfflineMechanism,
        Outcome,
        PostedPrice,
        Response,
        ResponseCurve,
        SameForAll,
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
    "Allocation": "allocation",
    "BestWeights": "privacy",
    "BuyerObjective": "allocation",
    "Certificate": "audit",
    "CheapestK": "mechanisms",
    "CostDistribution": "costs",
    "CostFit": "costs",
    "Empirical": "costs",
    "FromScipy": "costs",
    "Learner": "learning",
    "LocalMinimum": "allocation",
    "Mechanism": "mechanisms",
    "Mixture": "costs",
    "OfflineMechanism": "mechanisms",
    "Outcome": "mechanisms",
    "Payment": "payments",
    "PostedPrice": "mechanisms",
    "PrivateLogisticRegression": "learning",
    "PublicData": "datasets",
    "PublicScaler": "learning",
    "Response": "mechanisms",
    "ResponseCurve": "mechanisms",
    "SameForAll": "mechanisms",
    "SecureNoise": "privacy",
    "SeededNoise": "privacy",
    "Uniform": "costs",
    "Verification": "audit",
    "Weights": "privacy",
    "allocate": "allocation",
    "best_weights": "privacy",
    "certify": "audit",
    "fit_costs": "costs",
    "max_epsilon": "allocation",
    "paper_privacy_loss": "privacy",
    "parse_distribution": "costs",
    "payment_identity": "payments",
    "plan_release": "privacy",
    "privacy_loss": "privacy",
    "project_to_capped_simplex": "allocation",
    "read_outcome": "mechanisms",
    "release_cost": "privacy",
    "suggest_l2": "privacy",
    "verify": "audit",
    "virtual_cost_density": "costs",
    "virtual_costs": "costs",
    "weights_for": "privacy",
    "write_outcome": "mechanisms",
}

__all__ = [
    "Allocation",
    "BestWeights",
    "BuyerObjective",
    "Certificate",
    "CheapestK",
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
    "LedgerRefusal",
    "LocalMinimum",
    "Mechanism",
    "Mixture",
    "NotCertifiable",
    "NotConverged",
    "OfflineMechanism",
    "Outcome",
    "Payment",
    "PostedPrice",
    "PrivateLogisticRegression",
    "PublicData",
    "PublicScaler",
    "Response",
    "ResponseCurve",
    "SameForAll",
    "SecureNoise",
    "SeededNoise",
    "Uniform",
    "Verification",
    "Weights",
    "__version__",
    "allocate",
    "best_weights",
    "certify",
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
    "verify",
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
