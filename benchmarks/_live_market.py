"""Rules of a live market that several benchmarks open."""

from __future__ import annotations

from typing import Any


def market_for(people: int) -> dict[str, Any]:
    """Return the rules of a market for so many people, as a market file has them."""
    return {
        "sellers": {"expected": people},
        "costs": {"distribution": "uniform(1, 5)"},
        "objective": {"payment_weight": 0.001, "max_epsilon": 1.0},
        "money": {"currency": "EUR"},
        "features": {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 1e5}},
        "label": {"column": "bought", "values": ["no", "yes"]},
    }
