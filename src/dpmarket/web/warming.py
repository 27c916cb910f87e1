"""Compile all loops that a campaign needs, before anybody waits for them: once for each installation."""

from __future__ import annotations

_RULES = {
    "sellers": {"expected": 20},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.001, "max_epsilon": 1.0},
    "features": {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 1e5}},
    "label": {"values": ["no", "yes"]},
}


def compile_kernels() -> None:
    """Plan, quote and train something tiny; what was compiled before is only loaded."""
    import numpy as np

    from dpmarket.campaign import check_market, decide_offline
    from dpmarket.learning import PrivateLogisticRegression
    from dpmarket.market import plan_opening
    from dpmarket.privacy import SeededNoise

    market = check_market(_RULES)
    plan_opening(market, "online")
    decide_offline(market, np.linspace(1.0, 5.0, 8))
    rows, labels = np.linspace(-0.6, 0.6, 16).reshape(8, 2), np.arange(8) % 2
    model = PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(0))
    model.fit(rows, labels, epsilons=np.full(8, 0.5))
