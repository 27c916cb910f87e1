"""State what a buyer wants: the prices of uneven weights, of noise and of money, and two bounds.

The buyer of the paper's Algorithm 2 minimises, over loss weights ``a`` and the total promise ``eta``,

    concentration * |a| + noise / eta + payment_weight * eta * <a, virtual_costs>

subject to ``0 <= a_i <= weight_cap / m``, ``sum a = 1`` and ``0 < eta <= m * max_mean_epsilon``. The
values here are public parameters, fixed before anybody reports a cost.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dpmarket import checks
from dpmarket.errors import InvalidInput

_FIELDS = ("concentration", "noise", "payment_weight", "weight_cap", "max_mean_epsilon")


@dataclass(frozen=True, slots=True)
class BuyerObjective:
    """What the buyer minimises, and the bounds that no allocation may break.

    Parameters
    ----------
    concentration : float
        Price of uneven weights, at least 0 (the paper's mu); multiplies the Euclidean norm of the
        loss weights, which lies between ``1/sqrt(m)`` (everybody equal) and 1 (one seller has all).
    noise : float
        Price of noise, at least 0 (sigma); divided by the total promise.
    payment_weight : float
        Error units per unit of money, at least 0 (gamma); multiplies the expected payments.
    weight_cap : float, optional
        Nobody's loss weight exceeds ``weight_cap / m`` for ``m`` sellers (k); at least 1, because
        weights that sum to 1 cannot all be below ``1/m``. None: no cap.
    max_mean_epsilon : float, optional
        The epsilons of ``m`` sellers sum to at most ``m * max_mean_epsilon`` (L); above 0. None: no
        bound.

    Raises
    ------
    InvalidInput
        If a value is not a number in the range given above.

    See Also
    --------
    max_epsilon : the epsilon that nobody can exceed when both bounds are given.

    Notes
    -----
    Paper, Eq. "utility privacy tradeoff" and Algorithm 2, step 1. A noise or payment weight of 0 is a
    valid value (the paper's "naive" buyer), but :func:`~dpmarket.allocation.allocate` refuses it,
    because its problem then has no minimum.

    Examples
    --------
    >>> BuyerObjective(concentration=1.0, noise=1.0, payment_weight=1e-3).weight_cap is None
    True
    """

    concentration: float
    noise: float
    payment_weight: float
    weight_cap: float | None = None
    max_mean_epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("concentration", "noise", "payment_weight"):
            object.__setattr__(self, name, checks.non_negative(name, getattr(self, name)))
        if self.weight_cap is not None:
            cap = checks.at_least("weight_cap", self.weight_cap, 1.0)
            object.__setattr__(self, "weight_cap", cap)
        if self.max_mean_epsilon is not None:
            bound = checks.positive("max_mean_epsilon", self.max_mean_epsilon)
            object.__setattr__(self, "max_mean_epsilon", bound)

    @classmethod
    def with_max_epsilon(
        cls,
        concentration: float,
        noise: float,
        payment_weight: float,
        *,
        weight_cap: float,
        max_epsilon: float,
    ) -> Self:
        """Return the objective under which nobody's epsilon exceeds ``max_epsilon``.

        Sets ``max_mean_epsilon`` to the largest float whose product with ``weight_cap``, computed
        exactly, is at most ``max_epsilon``: rounding never lets anybody above the wanted bound.

        Parameters
        ----------
        concentration, noise, payment_weight, weight_cap : float
            As for the class.
        max_epsilon : float
            The epsilon that nobody may exceed, above 0.

        Raises
        ------
        InvalidInput
            If a value is out of its range.

        Examples
        --------
        >>> objective = BuyerObjective.with_max_epsilon(1, 1, 1e-3, weight_cap=3, max_epsilon=0.7)
        >>> max_epsilon(objective) <= 0.7
        True
        """
        cap = checks.at_least("weight_cap", weight_cap, 1.0)
        bound = checks.positive("max_epsilon", max_epsilon)
        mean = round_down(Fraction(bound) / Fraction(cap))
        return cls(concentration, noise, payment_weight, cap, mean)

    def to_dict(self) -> dict[str, float | None]:
        """Return the five values by name, ready for JSON or TOML."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the objective that :meth:`to_dict` described; missing bounds mean none.

        Raises
        ------
        InvalidInput
            If a name is unknown, a required one is missing, or a value is out of its range.
        """
        unknown = [str(name) for name in values if name not in _FIELDS]
        missing = [name for name in _FIELDS[:3] if name not in values]
        if unknown or missing:
            raise InvalidInput(
                f"expected an objective with the names {', '.join(_FIELDS)}; "
                f"unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}."
            )
        return cls(**{name: values[name] for name in _FIELDS if name in values})


def max_epsilon(objective: BuyerObjective) -> float:
    """Return the epsilon that nobody can exceed, or infinity unless both bounds are given.

    It is ``weight_cap * max_mean_epsilon``, rounded down: from ``a_i <= weight_cap / m`` and
    ``eta <= m * max_mean_epsilon`` follows ``eps_i = a_i * eta <= weight_cap * max_mean_epsilon``,
    whatever the number of sellers (the paper's remark after Algorithm 2).

    Parameters
    ----------
    objective : BuyerObjective
        With ``weight_cap`` and ``max_mean_epsilon``, if anything but infinity is to come out.

    Returns
    -------
    float
        In epsilon, never above the exact product.

    Examples
    --------
    >>> max_epsilon(BuyerObjective(1, 1, 1e-3, weight_cap=4, max_mean_epsilon=0.5))
    2.0
    """
    if objective.weight_cap is None or objective.max_mean_epsilon is None:
        return math.inf
    return round_down(Fraction(objective.weight_cap) * Fraction(objective.max_mean_epsilon))


def round_down(value: Fraction) -> float:
    """Return the largest float that is not above a non-negative ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        return sys.float_info.max
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)
