"""Turn the books of a market that ends into its outcome: weights from what really came."""

from __future__ import annotations

from typing import Any

from dpmarket.allocation import BuyerObjective
from dpmarket.allocation.certificate import examine
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.books import Books
from dpmarket.mechanisms.outcome import Optimality, Outcome
from dpmarket.privacy import weights_for


def settle(
    books: Books,
    numbers: IntArray,
    virtual_costs: FloatArray,
    objective: BuyerObjective,
    *,
    cutoff: float,
    mechanism: str,
    parameters: dict[str, Any],
    l2: float | None,
) -> Outcome:
    """Return the outcome of the sellers with these quote numbers; promises and payments as quoted.

    ``cutoff`` is the curve's own: the dearest seller's virtual cost would tell what they reported.
    ``optimality.kkt_residual`` says how far what came is from the best that could have been bought from these
    sellers, all known beforehand.
    """
    epsilons = books.column("epsilon")[numbers]
    if not epsilons.sum() > 0.0:
        raise Infeasible(
            f"expected at least one seller with epsilon > 0, found none among {numbers.size} who accepted "
            f"and delivered ({len(books)} were quoted): nothing can be trained. Quote more sellers, or "
            "plan with a lower payment_weight."
        )
    if l2 is None:
        noise_rate = float(epsilons.sum())
        weights = epsilons / noise_rate
    else:
        weights, noise_rate = weights_for(epsilons, l2)
    evidence = examine(virtual_costs, weights, epsilons, noise_rate, objective)
    bought = epsilons > 0.0
    return Outcome(
        mechanism=mechanism,
        seller_ids=books.seller_ids(numbers),
        epsilons=epsilons.copy(),
        payments=books.column("payment")[numbers],
        payment_errors=books.column("error")[numbers],
        planned_weights=weights,
        planned_noise_rate=noise_rate,
        parameters=parameters,
        optimality=Optimality(
            concentration_part=evidence.concentration_part,
            noise_part=evidence.noise_part,
            payment_part=objective.payment_weight * float(epsilons[bought] @ virtual_costs[bought]),
            cutoff=cutoff,
            kkt_residual=evidence.kkt_residual,
        ),
    )
