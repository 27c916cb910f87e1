"""What a budget buys: error bounds, plans, sweeps, tuning on public data, comparisons."""

from dpmarket.planning.bounds import (
    BoundConstants,
    ErrorBound,
    bound_constants,
    error_bound,
    excess_risk,
    paper_bound_constants,
    sharp_bound_constants,
)

__all__ = [
    "BoundConstants",
    "ErrorBound",
    "bound_constants",
    "error_bound",
    "excess_risk",
    "paper_bound_constants",
    "sharp_bound_constants",
]
