"""Turn the windows of a solved market into everybody's premium: what they get above their cost.

The leave-one-out kernels of :mod:`dpmarket.payments` look at sorted costs only around the cutoff and where
the cap begins to hold; all else they know as sums. So they run on windows as they do on a whole market.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpmarket.allocation.kernels import segments
from dpmarket.allocation.kernels.walk import Rules
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.partitions.path import TooClose
from dpmarket.partitions.windows import Piece, Solved, at_places
from dpmarket.payments.interpolation import PiecewiseSeries, tabulate, tabulate_virtual_costs
from dpmarket.payments.kernels.alone import Alone, many_may_enter
from dpmarket.payments.kernels.integrals import Asked, integrals
from dpmarket.payments.kernels.moves import Anchor, Problem
from dpmarket.payments.kernels.tables import evaluate
from dpmarket.payments.market import CLOSE, LEAST, TOLERANCE
from dpmarket.payments.zones import Zone, cap_walls, cap_zone, inside, widened

MOST_SINGLE = 1024
"""As many different costs are integrated one by one; for more a table is made."""
_FINE = 1e-12
_SAMPLE = 256
_LARGEST_EXPONENT = 320


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A solved market around which single sellers' reports move.

    Attributes
    ----------
    anchor, rules, epsilon_rate
        For the kernels.
    finite, total
        How many finite virtual costs there are, and their sum.
    pieces
        Where in the sorted ones windows begin, and those within them.
    rule
        What :func:`dpmarket.partitions.kernels.write_promises` takes.
    cheapest
        At most the least virtual cost.
    dist
        The distribution of costs.
    """

    anchor: Anchor
    rules: Rules
    epsilon_rate: float
    finite: int
    total: float
    pieces: tuple[Piece, ...]
    rule: tuple[float, ...]
    cheapest: float
    dist: CostDistribution

    @cached_property
    def case(self) -> Alone:
        """For the kernels."""
        psi = at_places(self.pieces, self.cheapest)
        problem = Problem(psi, self.finite, self.total, self.rules, self.epsilon_rate)
        return Alone(problem, self.anchor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "case"}

    @property
    def cutoff(self) -> float:
        """The virtual cost above which nobody is bought from."""
        return self.rule[0] + self.rule[1]


def neighbourhood(
    solved: Solved,
    rules: Rules,
    rule: tuple[float, ...],
    *,
    finite: int,
    total: float,
    epsilon_rate: float,
    cheapest: float,
    dist: CostDistribution,
) -> Neighbourhood:
    """Return the market around its best allocation, with the sums that windows do not hold."""
    row = solved.row
    capped, bought = int(row[segments.CAPPED]), int(row[segments.BOUGHT])
    n = bought - capped
    if n <= 0:
        raise TooClose
    reference = Fraction(float(solved.psi[bought - 1]))
    S_c, S, Q = solved.sums
    anchor = Anchor(
        capped,
        bought,
        float(solved.psi[capped - 1]) if capped else -np.inf,
        float(reference),
        float(S_c - capped * reference),
        float(S / n - reference),
        float(Q - S * S / n),
        float(row[segments.SPREAD]),
    )
    return Neighbourhood(anchor, rules, epsilon_rate, finite, total, solved.pieces, rule, cheapest, dist)


def single_premiums(around: Neighbourhood, asked: Asked) -> tuple[FloatArray, FloatArray]:
    """Return the premiums of sellers, each integrated on its own, and their errors."""
    return _integrated(around, asked, TOLERANCE)


@dataclass(frozen=True, eq=False)
class PremiumTable:
    """The premium as a function of the cost.

    Attributes
    ----------
    series
        The function.
    error
        Its relative error.
    zone
        Virtual costs of sellers for whom it does not hold, see :mod:`dpmarket.payments.zones`.
    """

    series: PiecewiseSeries
    error: float
    zone: Zone


def premium_table(
    around: Neighbourhood, low: float, high: float, sellers: tuple[FloatArray, FloatArray]
) -> PremiumTable | None:
    """Return the premium as a function of the cost, between two of them; None where it is no smooth one.

    ``sellers``: virtual costs and costs of some next to where a cap begins to hold.
    """
    zone = cap_zone(around.case) if high > low else None
    if zone is None or many_may_enter(around.case):
        return None
    base, gap, spread, cap, total, _ = around.rule
    psi = _table(around.dist, _exponent(around))
    walls = [*psi.walls, *psi.edges, *cap_walls(around.anchor, base + gap - cap * spread, around.dist)]
    inner = [wall for wall in walls if low < wall < high]

    def asked_at(costs: FloatArray, virtual: FloatArray) -> Asked:
        weights = np.minimum((base + gap - virtual) / spread, cap)
        return Asked(costs, virtual, np.maximum(weights * total, 1e-300))

    def premium(points: FloatArray) -> FloatArray:
        costs = points.reshape(-1)
        return _integrated(around, asked_at(costs, evaluate(psi, costs)), _FINE)[0].reshape(points.shape)

    table = tabulate(premium, np.unique([low, *inner, high]), 1e-11, 4)

    def missed(costs: FloatArray, virtual: FloatArray) -> float:
        exact = _integrated(around, asked_at(costs, virtual), _FINE)[0]
        return float(np.max(np.abs(evaluate(table, costs) - exact) / (costs + exact)))

    own, costs = sellers
    wide, nearby = widened(zone, own, own, lambda rows: missed(costs[rows], own[rows]), CLOSE)
    if wide != zone and not (own[0] <= wide[0] and wide[1] <= own[-1]):
        return None  # nobody farther away can be asked
    # The same places whatever the partitions are; the ends are sellers of the market.
    sample = np.unique(np.linspace(low, high, 2 * _SAMPLE + 1))
    sample = sample[~inside(evaluate(psi, sample), wide)]
    error = np.inf
    if sample.size:
        error = max(4.0 * max(missed(sample, evaluate(psi, sample)), nearby), LEAST)
    if not error <= TOLERANCE:
        return None
    return PremiumTable(table, error + _FINE + psi.error, wide)


def _integrated(around: Neighbourhood, asked: Asked, tolerance: float) -> tuple[FloatArray, FloatArray]:
    exponent, top = _exponent(around), around.dist.support[1]
    while True:
        psi = _table(around.dist, exponent)
        values, errors = integrals(around.case, psi, asked, top, tolerance)
        if np.isnan(values).any():
            raise TooClose
        if not np.isposinf(values).any():
            errors = errors + psi.error * (asked.costs * asked.epsilons + values)
            return values / asked.epsilons, errors / asked.epsilons
        if psi.edges[-1] >= top or exponent > _LARGEST_EXPONENT:
            raise Infeasible(
                "expected a best allocation at every report that a seller could make, found that at some "
                "more epsilon is always better, as sellers cost nothing: set max_mean_epsilon."
            )
        exponent += 1


def _exponent(around: Neighbourhood) -> int:
    """Return up to which power of two psi is needed: as far as anybody could still be bought from."""
    return math.frexp(around.cutoff + (around.cutoff - around.cheapest))[1]


@lru_cache(maxsize=64)
def _table(dist: CostDistribution, exponent: int) -> PiecewiseSeries:
    top = min(float(largest_cost_at(math.ldexp(1.0, exponent), dist)), dist.support[1])
    if not top > dist.support[0]:
        raise NotConverged("expected prices of the same order as the costs; use a larger payment_weight.")
    return tabulate_virtual_costs(dist, top)
