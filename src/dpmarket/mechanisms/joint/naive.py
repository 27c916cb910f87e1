"""State the paper's naive buyer, who prices neither uneven weights nor noise, as a joint mechanism."""

from __future__ import annotations

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.mechanisms.joint.mechanism import JointMechanism, RandomStarts
from dpmarket.mechanisms.joint.payments import ExpectedPayments
from dpmarket.mechanisms.joint.readings import Reading
from dpmarket.mechanisms.joint.solvers import GreedySolver
from dpmarket.privacy import NoiseSource


def naive_buyer(
    dist: CostDistribution,
    payment_weight: float,
    l2: float,
    mean_epsilons: object,
    *,
    weight_cap: float | None = None,
    reading: Reading | None = None,
    starts: RandomStarts = RandomStarts(),  # noqa: B008 - a frozen value
    noise_source: NoiseSource | None = None,
) -> JointMechanism:
    """Return the paper's naive buyer: the joint objective with ``concentration = noise = 0``.

    Parameters
    ----------
    dist, payment_weight, l2, weight_cap, reading, starts, noise_source
        As for :class:`JointMechanism`.
    mean_epsilons
        The grid of mean epsilons. It decides: with nothing to pay for noise, the objective never falls with
        the noise rate (its slope is what is paid), so that the lowest one is always best.

    Returns
    -------
    JointMechanism
        A mechanism whose payments are those in expectation (``ExpectedPayments``): without a solver that is
        sure of the global minimum there are no truthful ones. Sellers with the lowest ``loss + price`` get
        the cap, or all the weight where there is none.

    Notes
    -----
    Paper, Numerical Results: the "naive model" that its regularised one is compared with.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> buyer = naive_buyer(Uniform(1, 5), 0.01, 0.1, [0.1, 1.0], weight_cap=2.0)
    >>> X = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]]
    >>> outcome = buyer.run([1.5, 2.0, 2.5, 4.9], X, [1, -1, 1, -1])
    >>> outcome.edge, outcome.loss_weights.tolist()
    ('lowest', [0.0, 0.5, 0.5, 0.0])
    """
    return JointMechanism(
        dist,
        BuyerObjective(0.0, 0.0, payment_weight, weight_cap),
        l2,
        reading=reading,
        solver=GreedySolver(),
        payments=ExpectedPayments(),
        mean_epsilons=mean_epsilons,
        starts=starts,
        noise_source=noise_source,
    )
