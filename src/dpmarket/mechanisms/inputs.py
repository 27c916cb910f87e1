"""What callers pass to mechanisms, checked: the distribution, the objective, reports, a seller's position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput


def check_distribution(dist: object) -> None:
    """Refuse what is no cost distribution."""
    if not isinstance(dist, CostDistribution):
        raise InvalidInput(f"expected dist to be a cost distribution, got {type(dist).__name__}.")


def check_dist_and_objective(dist: object, objective: object) -> None:
    """Refuse what is no cost distribution or no objective."""
    check_distribution(dist)
    if not isinstance(objective, BuyerObjective):
        raise InvalidInput(f"expected a BuyerObjective, got {type(objective).__name__}.")


def settings_of(data: object, mechanism: str, *names: str) -> list[Any]:
    """Return the named settings of a mechanism from its plain data, or refuse data of something else."""
    if not isinstance(data, Mapping) or data.get("mechanism") != mechanism:
        raise InvalidInput(f"expected the plain data of the mechanism {mechanism!r}.")
    missing = [name for name in names if name not in data]
    if missing:
        raise InvalidInput(f"expected whole data of the mechanism {mechanism!r}, without {missing[0]!r}.")
    return [data[name] for name in names]


def one_cost(name: str, cost: object) -> FloatArray:
    """Return one reported cost as a vector of length 1, checked; no message shows it."""
    array = checks.non_negative_numbers(name, cost)
    if array.ndim != 0:
        raise InvalidInput(f"expected {name} to be one cost, got an array.")
    return array.reshape(1)


def position(costs: FloatArray, i: int) -> int:
    """Return a seller's position among these reports, checked."""
    i = checks.whole("i", i)
    if i >= costs.size:
        raise InvalidInput(f"expected i to be a seller's position below {costs.size}, got {i}.")
    return i
