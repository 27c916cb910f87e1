"""What a mechanism decided: promises, payments, and the evidence. One type for every mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.outcome/2"
_BLOCK = 1 << 15  # payments rounded at a time: they stay in the processor's cache between the steps
_ENOUGH = 10  # sellers whose median tells nothing about one of them
_ARRAYS = ("epsilons", "payments", "payment_errors", "planned_weights")
_OPTIMALITY = ("concentration_part", "noise_part", "payment_part", "cutoff", "kkt_residual")


@dataclass(frozen=True)
class MinorUnits:
    """Payments as whole numbers of the currency's smallest unit, ``scale`` of them to one unit of money.

    Attributes
    ----------
    amounts
        One per seller, in their order, read-only; never below the exact payment.
    total
        All of them together.
    scale
        How many smallest units make one unit of money.
    """

    amounts: IntArray
    total: int
    scale: int


@dataclass(frozen=True)
class Optimality:
    """How what was bought compares with the best that could have been bought from the same sellers.

    Attributes
    ----------
    concentration_part, noise_part, payment_part
        The buyer's objective, part by part, with the planned weights; the last one with virtual costs, which
        equal payments in expectation.
    cutoff
        The virtual cost above which nobody is bought from; infinite where everybody is.
    kkt_residual
        How far the promises are from the conditions of optimality.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism, PostedPrice
    >>> best = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1)).run([1.5, 2.0, 4.9]).optimality
    >>> round(best.cutoff, 3), best.kkt_residual < 1e-12
    (5.948, True)
    >>> PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0).run([1.5]).optimality is None
    True
    """

    concentration_part: float
    noise_part: float
    payment_part: float
    cutoff: float
    kkt_residual: float

    @property
    def objective_value(self) -> float:
        """The buyer's objective: the sum of its three parts."""
        return self.concentration_part + self.noise_part + self.payment_part

    @property
    def excess_risk(self) -> float:
        """What uneven weights and noise cost in error: the objective without the payments."""
        return self.concentration_part + self.noise_part

    def to_dict(self) -> dict[str, float | None]:
        """Return all values by name, None for an infinite cutoff."""
        return {name: finite_or_none(getattr(self, name)) for name in _OPTIMALITY}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Optimality:
        """Make the value whose ``to_dict()`` gave this data."""
        return cls(*(math.inf if data[name] is None else float(data[name]) for name in _OPTIMALITY))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Promises and payments, in the sellers' own order; arrays are read-only.

    Attributes
    ----------
    mechanism
        Which mechanism decided.
    seller_ids
        The ids given, or 0, 1, 2, ...
    epsilons
        The promise to each seller.
    payments
        Money for each seller, rounded up.
    payment_errors
        Estimate of each payment's absolute error; at most 1e-9 of the payment.
    planned_weights
        The weight of each seller's record as planned (the paper's a); they sum to 1.
    planned_noise_rate
        The noise rate as planned (the paper's eta), for rows no longer than 1.
    parameters
        The mechanism's public parameters: distribution and objective, as plain data; see
        :func:`~dpmarket.mechanisms.mechanism_of`.
    optimality
        The objective that was minimised, and how far from its minimum this is; None for a buyer who minimises
        nothing.

    Notes
    -----
    Weights and noise rate are a plan. Training makes its own from the promises
    (:func:`~dpmarket.privacy.weights_for`): it knows the bound on rows, by which it divides, the slack of its
    penalty, and who withdrew.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 4.9], seller_ids=["ann", "bob", "cem"])
    >>> for seller, epsilon, payment in zip(outcome.seller_ids, outcome.epsilons, outcome.payments):
    ...     print(seller, round(epsilon, 3), round(payment, 3))
    ann 1.162 3.721
    bob 0.868 2.708
    cem 0.0 0.0
    >>> outcome.in_minor_units(scale=100).amounts.tolist()
    [373, 271, 0]
    """

    mechanism: str
    seller_ids: npt.NDArray[Any]
    epsilons: FloatArray
    payments: FloatArray
    payment_errors: FloatArray
    planned_weights: FloatArray
    planned_noise_rate: float
    parameters: Mapping[str, Any]
    optimality: Optimality | None = None

    def __post_init__(self) -> None:
        for name in ("seller_ids", *_ARRAYS):
            read_only(getattr(self, name))

    @property
    def total_promise(self) -> float:
        """All promises together: the epsilon that was bought in all."""
        return float(self.epsilons.sum())

    @property
    def total_payment(self) -> float:
        """All payments together, in money."""
        return float(self.payments.sum())

    def in_minor_units(self, scale: int = 100) -> MinorUnits:
        """Round payments up to the currency's smallest unit.

        The error estimate is added first, so that nobody gets less than the exact payment. Truth then
        stays the best report up to one smallest unit.

        Parameters
        ----------
        scale
            How many smallest units make one unit of money (100 cents to a euro).
        """
        scale = checks.whole("scale", scale, 1)
        amounts = minor_amounts(self.payments, self.payment_errors, scale)
        # Adding up Python's numbers is a hundred times slower: only where 64 bits might not do.
        fits = float(amounts.max(initial=0)) * amounts.size < 2.0**62
        total = int(amounts.sum() if fits else amounts.sum(dtype=object))
        return MinorUnits(read_only(amounts), total, scale)

    def summary(self) -> list[tuple[str, str]]:
        """Return the outcome as rows of a table that shows no individual.

        No extreme is shown, and no median of few: the largest epsilon would tell the cheapest report.
        """
        bought = self.epsilons[self.epsilons > 0.0]
        paid = self.payments[self.epsilons > 0.0]
        rows = [
            ("sellers", f"{self.epsilons.size:,}"),
            ("bought from", f"{bought.size:,} ({bought.size / self.epsilons.size:.1%})"),
            ("total payment", f"{self.total_payment:,.6g}"),
            ("total promise", f"{self.total_promise:,.6g}"),
            ("planned noise rate", f"{self.planned_noise_rate:,.6g}"),
        ]
        if bought.size >= _ENOUGH:
            rows += [
                ("median epsilon of those", f"{np.median(bought):.4g}"),
                ("median payment of those", f"{np.median(paid):.4g}"),
            ]
        if self.optimality is not None:
            rows += [
                ("cutoff virtual cost", f"{self.optimality.cutoff:.6g}"),
                ("buyer's objective", f"{self.optimality.objective_value:.6g}"),
                ("optimality residual", f"{self.optimality.kkt_residual:.1e}"),
            ]
        return rows

    def __repr__(self) -> str:
        return short_repr(self, [("mechanism", self.mechanism), *self.summary()[:4]])

    def _repr_html_(self) -> str:
        return html_table(f"Outcome of {self.mechanism}", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per seller: seller, epsilon, payment, planned_weight. It shows individuals."""
        import polars as pl

        return pl.DataFrame(
            {
                "seller": self.seller_ids,
                "epsilon": self.epsilons,
                "payment": self.payments,
                "planned_weight": self.planned_weights,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same outcome, bit by bit."""
        data = self.header()
        data["seller_ids"] = self.seller_ids.tolist()
        return data | {name: getattr(self, name).tolist() for name in _ARRAYS}

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as plain data; no ``optimality`` where there is none."""
        header = {
            "schema": SCHEMA,
            "mechanism": self.mechanism,
            "planned_noise_rate": self.planned_noise_rate,
            "parameters": dict(self.parameters),
        }
        return header if self.optimality is None else header | {"optimality": self.optimality.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """Make the outcome whose ``to_dict()`` gave this data."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of an outcome with schema {SCHEMA!r}.")
        try:
            values: dict[str, Any] = {name: np.array(data[name], dtype=np.float64) for name in _ARRAYS}
            values["seller_ids"] = checked_ids(data["seller_ids"], len(values["epsilons"]))
            for name in _ARRAYS:
                checks.non_negative_vector(name, values[name])
                checks.same_length(name, values[name], "epsilons", values["epsilons"])
            return cls(
                mechanism=str(data["mechanism"]),
                planned_noise_rate=float(data["planned_noise_rate"]),
                parameters=dict(data["parameters"]),
                optimality=Optimality.from_dict(data["optimality"]) if "optimality" in data else None,
                **values,
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(
                f"expected a whole outcome, found {type(problem).__name__}: a part is missing or wrong."
            ) from None


def minor_amounts(payments: FloatArray, errors: FloatArray, scale: int) -> IntArray:
    """Round payments, their errors added, up to whole numbers of the smallest unit."""
    if scale >= 2**53:
        raise InvalidInput("expected scale below 2^53.")
    amounts = np.empty(payments.size, dtype=np.int64)
    for start in range(0, payments.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        wanted = (payments[block] + errors[block]) * scale
        wanted *= 1.0 + 4e-16
        if float(wanted.max()) >= 2.0**53:
            raise InvalidInput(
                f"expected payments below 2^53 smallest units, scale={scale} makes them larger."
            )
        amounts[block] = np.ceil(wanted)
    return amounts


def checked_ids(ids: object, sellers: int) -> npt.NDArray[Any]:
    """Return checked seller ids: as given, all different; or 0, 1, 2, ... for None."""
    if ids is None:
        return np.arange(sellers)
    try:
        array = np.array(ids)
    except ValueError:
        raise InvalidInput("expected seller_ids to be a vector, got a ragged sequence.") from None
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise InvalidInput("expected seller_ids to be a vector of texts or whole numbers.")
    checks.same_length("seller_ids", array, "reported_costs", range(sellers))
    checks.all_different("seller_ids", array)
    return array


def finite_or_none(value: float) -> float | None:
    """Return a number as JSON can say it: None stands for infinity."""
    return value if math.isfinite(value) else None
