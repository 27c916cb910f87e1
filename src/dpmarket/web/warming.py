"""Compile all loops that a campaign needs, before anybody waits for them: once for each installation."""

from __future__ import annotations

from dpmarket.web.invented import market_for


def compile_kernels() -> None:
    """Plan, quote and train something tiny; what was compiled before is only loaded."""
    import numpy as np

    from dpmarket.campaign import check_market, decide_offline
    from dpmarket.learning import PrivateLogisticRegression
    from dpmarket.market import plan_opening
    from dpmarket.privacy import SeededNoise

    market = check_market(market_for(20))
    plan_opening(market, "online")
    decide_offline(market, np.linspace(1.0, 5.0, 8))
    rows, labels = np.linspace(-0.6, 0.6, 16).reshape(8, 2), np.arange(8) % 2
    model = PrivateLogisticRegression(classes=(0, 1), noise_source=SeededNoise(0))
    model.fit(rows, labels, epsilons=np.full(8, 0.5))
