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
        Curve,
        CheapestK,
        Mechanism,
        Menu,
        OfflineMechanism,
        OnlineMechanism,
        Outcome,
        Quote,
        Quotes,
        Response,
        ResponseCurve,
        paper_curve,
        population_curve,
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
    "Curve": "mechanisms",
    "Menu": "mechanisms",
    "OnlineMechanism": "mechanisms",
    "Quote": "mechanisms",
    "Quotes": "mechanisms",
    "paper_curve": "mechanisms",
    "population_curve": "mechanisms",
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
    "SameForAll": "mechanisms",
    "PostedPrice": "mechanisms",
    "CheapestK": "mechanisms",
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
    "CheapestK",
    "CostDistribution",
    "CostFit",
    "Curve",
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
    "Menu",
    "Mixture",
    "NotConverged",
    "OfflineMechanism",
    "OnlineMechanism",
    "Outcome",
    "Payment",
    "PostedPrice",
    "PrivateLogisticRegression",
    "PublicData",
    "PublicScaler",
    "Quote",
    "Quotes",
    "Response",
    "ResponseCurve",
    "SameForAll",
    "SecureNoise",
    "SeededNoise",
    "Uniform",
    "Weights",
    "__version__",
    "allocate",
    "best_weights",
    "fit_costs",
    "max_epsilon",
    "paper_curve",
    "paper_privacy_loss",
    "parse_distribution",
    "payment_identity",
    "plan_release",
    "population_curve",
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
