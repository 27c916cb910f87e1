"""Who gives how much privacy: the buyer's problem, its exact solution and the proof of optimality."""

from __future__ import annotations

from dpmarket.allocation.objective import BuyerObjective, max_epsilon
from dpmarket.allocation.result import Allocation, LocalMinimum
from dpmarket.allocation.simplex import project_to_capped_simplex
from dpmarket.allocation.solver import allocate

__all__ = [
    "Allocation",
    "BuyerObjective",
    "LocalMinimum",
    "allocate",
    "max_epsilon",
    "project_to_capped_simplex",
]
