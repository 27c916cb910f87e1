"""Hold a finished allocation together with the evidence that it is the best one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmarket.arrays import FloatArray
from dpmarket.display import html_table, short_repr

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.allocation/2"


@dataclass(frozen=True, slots=True)
class LocalMinimum:
    """One local minimum of the buyer's objective along the path of best allocations.

    Attributes
    ----------
    objective_value : float
        The objective there.
    total_promise : float
        The sum of the epsilons there.
    cutoff : float
        The virtual cost above which nobody is bought from.
    spread : float
        How much dearer a seller must be to lose one unit of loss weight (money per unit of epsilon);
        0 where the concentration is 0.
    n_capped, n_bought : int
        Sellers at the weight cap, and sellers with a place on the path, the capped ones included.
    at_bound : bool
        Whether the total promise is held down by ``max_mean_epsilon`` there.

    Examples
    --------
    Much epsilon from the one cheap seller, or less from all: both are local minima, and the second is best.

    >>> from dpmarket.allocation import BuyerObjective, allocate
    >>> allocation = allocate([1.0] + 100 * [5.0], BuyerObjective(1.0, 1.0, 0.1))
    >>> for minimum in allocation.local_minima:
    ...     print(minimum.n_bought, round(minimum.total_promise, 3), round(minimum.objective_value, 3))
    1 3.162 1.632
    101 1.462 1.49
    >>> allocation.n_bought
    101
    """

    objective_value: float
    total_promise: float
    cutoff: float
    spread: float
    n_capped: int
    n_bought: int
    at_bound: bool

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Who gives how much privacy, and the proof that it is the buyer's best choice.

    Attributes
    ----------
    epsilons : FloatArray of shape (m,)
        The promise to each seller, in the caller's order; read-only.
    loss_weights : FloatArray of shape (m,)
        The weight of each seller's record; sums to 1; read-only. ``epsilons`` is
        ``loss_weights * total_promise``.
    total_promise : float
        The sum of the epsilons (the paper's eta).
    objective_value : float
        The buyer's objective, the sum of its three parts:
    concentration_part, noise_part, payment_part : float
        ``concentration * |a|``, ``noise / eta`` and ``payment_weight * eta * <a, psi>``.
    cutoff : float
        The virtual cost above which nobody is bought from (r).
    spread : float
        How much dearer a seller must be to lose one unit of loss weight (s): with these two,
        ``loss_weight = clip((cutoff - virtual_cost) / spread, 0, max_weight)``. 0 where the
        concentration is 0.
    max_weight : float
        The weight cap divided by the number of sellers, rounded down; 1 without a cap.
    n_capped, n_bought : int
        Sellers at the weight cap, and sellers with an epsilon above 0, the capped ones included.
    at_bound : bool
        Whether the total promise is held down by ``max_mean_epsilon``.
    kkt_residual : float
        How far the arrays are from satisfying the optimality conditions; computed from the arrays
        alone, see :func:`dpmarket.allocation.certificate.examine`. Without a unit; near 1e-16 .. 1e-14.
    local_minima : tuple of LocalMinimum
        All of them, by falling total promise. The allocation is the least; at equal values the one
        with the smallest total promise.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective, allocate
    >>> allocation = allocate([1.0, 2.0, 9.0], BuyerObjective(1.0, 1.0, 0.1))
    >>> allocation.epsilons.round(3).tolist(), round(allocation.total_promise, 3)
    ([1.591, 1.078, 0.0], 2.669)
    >>> allocation.n_bought, round(allocation.cutoff, 3), allocation.kkt_residual < 1e-12
    (2, 4.102, True)
    """

    epsilons: FloatArray
    loss_weights: FloatArray
    total_promise: float
    objective_value: float
    concentration_part: float
    noise_part: float
    payment_part: float
    cutoff: float
    spread: float
    max_weight: float
    n_capped: int
    n_bought: int
    at_bound: bool
    kkt_residual: float
    local_minima: tuple[LocalMinimum, ...]

    def summary(self) -> list[tuple[str, str]]:
        """Return names and texts that say what was decided, without any individual."""
        return [
            ("sellers", f"{self.epsilons.size:,}"),
            ("bought from", f"{self.n_bought:,}"),
            ("at the weight cap", f"{self.n_capped:,}"),
            ("total promise", f"{self.total_promise:.4g}"),
            ("cutoff", f"{self.cutoff:.4g}"),
            ("objective", f"{self.objective_value:.6g}"),
            ("local minima", f"{len(self.local_minima)}"),
            ("optimality residual", f"{self.kkt_residual:.1e}"),
        ]

    def __repr__(self) -> str:
        return short_repr(self, self.summary())

    def _repr_html_(self) -> str:
        return html_table("Allocation", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per seller: epsilon, loss_weight. It shows individuals."""
        import polars as pl

        return pl.DataFrame({"epsilon": self.epsilons, "loss_weight": self.loss_weights})

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, arrays as lists, with the schema's name and version."""
        values: dict[str, Any] = {"schema": SCHEMA}
        values |= {name: getattr(self, name) for name in self.__slots__}
        values["epsilons"] = self.epsilons.tolist()
        values["loss_weights"] = self.loss_weights.tolist()
        values["local_minima"] = [minimum.to_dict() for minimum in self.local_minima]
        return values
