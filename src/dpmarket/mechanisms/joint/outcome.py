"""What the data-dependent mechanism decided: a type of its own, as nothing in it is certified private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from dpmarket.arrays import FloatArray, read_only
from dpmarket.mechanisms.joint.payments import PaymentRule
from dpmarket.mechanisms.joint.search import Edge
from dpmarket.mechanisms.outcome import finite_or_none

SCHEMA = "dpmarket.joint-outcome/2"
_ARRAYS = (
    "epsilons", "payments", "payment_errors", "loss_weights", "coefficients", "grid", "grid_values", "trace"
)  # fmt: skip
_SCALARS = (
    "noise_rate", "training_loss", "pull_part", "ridge_part", "concentration_part", "noise_part",
    "payment_part", "residual", "optimality_gap", "convexity", "paper_convexity",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class JointOutcome:
    """Promises, payments and coefficients that were all chosen by looking at the records.

    **Carries no privacy certificate, and none can be made of it** (``certifiable`` is False for every value
    of this type, and functions that write or certify outcomes refuse the type). Weights, noise rate,
    payments, residuals and the trace depend on everybody's records, so that the accounting of fixed weights
    does not apply. ``epsilons`` are what the objective was charged for, not losses that anybody has proved.
    Treat the whole value as private data.

    Attributes
    ----------
    seller_ids
        The ids given, or 0, 1, 2, ...
    epsilons
        ``loss_weights * noise_rate``, what each seller is paid for.
    payments, payment_errors
        Money for each seller, and an estimate of its absolute error.
    payment_rule
        The rule that made them.
    loss_weights
        Weight of each seller's record; they sum to 1.
    noise_rate
        The noise rate, the paper's eta.
    coefficients
        Trained with the noise, at these weights and this noise rate.
    training_loss, pull_part, ridge_part, concentration_part, noise_part, payment_part
        The objective that was minimised, part by part: ``<a, loss>``, ``2b.w/eta``, ``l2/2*|w|^2``,
        ``mu*|a|^2``, ``sigma/eta`` and ``gamma*eta*<a, psi>``, at the coefficients that the choice was made
        with.
    residual
        Norm of the projected gradient in the coefficients there.
    grid, grid_values
        The noise rates tried first, and the objective at each.
    local_minima
        How many valleys between grid points were refined.
    edge
        "inside", or the end of the grid at which the best noise rate lies.
    optimality_gap
        No noise rate within the grid's range makes the objective lower by more than this; infinite where it
        is not proved. It is where the problem is strictly convex and the choice is made without the noise.
    trace
        The objective at every step of the solver at the best noise rate.
    convexity
        ``2*l2*mu`` divided by the squared spectral norm of the rows; above 1 the problem in the coefficients
        and weights is strictly convex and has one minimum at each noise rate.
    paper_convexity
        ``2*l2*mu/m``, the paper's stricter condition (theorem `convexify`).
    stationary_points
        How many different ones the starting points led to, at the best noise rate.
    parameters
        The mechanism's public parameters, as plain data.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> outcome = JointMechanism(Uniform(1, 5), objective, l2=1.0).run(costs, X, y)
    >>> outcome.epsilons.round(2).tolist(), round(outcome.total_payment, 2)
    ([1.26, 1.23, 1.22, 1.1], 22.79)
    >>> outcome.certifiable, outcome.strictly_convex, outcome.edge
    (False, True, 'inside')
    """

    certifiable: ClassVar[Literal[False]] = False
    mechanism: ClassVar[str] = "joint"

    seller_ids: npt.NDArray[Any]
    epsilons: FloatArray
    payments: FloatArray
    payment_errors: FloatArray
    payment_rule: PaymentRule
    loss_weights: FloatArray
    noise_rate: float
    coefficients: FloatArray
    training_loss: float
    pull_part: float
    ridge_part: float
    concentration_part: float
    noise_part: float
    payment_part: float
    residual: float
    grid: FloatArray
    grid_values: FloatArray
    local_minima: int
    edge: Edge
    optimality_gap: float
    trace: FloatArray
    convexity: float
    paper_convexity: float
    stationary_points: int
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in ("seller_ids", *_ARRAYS):
            read_only(getattr(self, name))

    def __repr__(self) -> str:
        return f"JointOutcome({self.epsilons.size} sellers, not certified private)"

    @property
    def objective_value(self) -> float:
        """The buyer's objective: the sum of its six parts."""
        return (
            self.training_loss
            + self.pull_part
            + self.ridge_part
            + self.concentration_part
            + self.noise_part
            + self.payment_part
        )

    @property
    def strictly_convex(self) -> bool:
        """Whether the problem at each noise rate is strictly convex for certain."""
        return self.convexity > 1.0

    @property
    def total_payment(self) -> float:
        """All payments together, in money."""
        return float(self.payments.sum())

    def summary(self) -> list[tuple[str, str]]:
        """Return the outcome as rows of a table that shows no individual."""
        bought = int((self.epsilons > 0.0).sum())
        return [
            ("sellers", f"{self.epsilons.size:,}"),
            ("bought from", f"{bought:,} ({bought / self.epsilons.size:.1%})"),
            ("total payment", f"{self.total_payment:,.6g} ({self.payment_rule.to_dict()['kind']})"),
            ("noise rate", f"{self.noise_rate:,.6g} ({self.edge} of the grid)"),
            ("buyer's objective", f"{self.objective_value:.6g}"),
            ("strictly convex", "yes" if self.strictly_convex else "not for certain"),
            ("stationary points found", f"{self.stationary_points}"),
            ("privacy certificate", "none: weights were chosen from the records"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data. There is no way back: nothing is to be made of it but tables and figures."""
        return {
            "schema": SCHEMA,
            "mechanism": self.mechanism,
            "certifiable": self.certifiable,
            "payment_rule": self.payment_rule.to_dict(),
            "edge": self.edge,
            "local_minima": self.local_minima,
            "stationary_points": self.stationary_points,
            **{name: finite_or_none(getattr(self, name)) for name in _SCALARS},
            "parameters": dict(self.parameters),
            "seller_ids": self.seller_ids.tolist(),
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
        }
