r"""Turn a budget, or a payment weight, into prices of promises with a delta, before anybody reports.

What is planned is a :class:`~dpmarket.mechanisms.GaussianObjective`: the error of records and of Gaussian
noise, the payment weight, and the ratio of :math:`\mu` and c, which is the penalty that training suggests for
the typical market's promises. Expected payments are expected virtual costs, :math:`\sum \psi_i e_i`, which
fall as the payment weight rises; the typical market has a seller at each of as many quantiles of the cost
distribution. All sellers at once are a random market, in which the sum is another one on average: how much
another is found on drawn markets, whose seed is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, virtual_costs
from dpmarket.errors import Infeasible
from dpmarket.mechanisms import GaussianObjective, GaussianPurchase, OnlineGaussianMechanism
from dpmarket.planning.error_model import ErrorModel, ExpectedError
from dpmarket.planning.plan import Prospect
from dpmarket.privacy import gaussian_suggest_l2
from dpmarket.privacy.gaussian import vertex_bounds

SCHEMA = "dpmarket.gaussian-plan/1"
_COARSE, _FINE = 80, 600  # points of the grid of noise rates: while searching, and as announced
_BELOW, _ABOVE = 30.0, 5.0  # how far the announced grid reaches from the typical market's noise rate
_SHARE = 0.25  # of a promise that the Hessian may take, before anything is known of promises
_RATIOS, _ROUNDINGS, _STEPS = 2, 2, 40
_CLOSE = 4e-3  # of payment weights: less moves payments less than the grid does
_MARKETS, _MANY = 24, 2_000  # drawn markets, and sellers from which on none need be drawn
_LARGEST = 1e30


@dataclass(frozen=True)
class GaussianTask:
    """What is public about a market of promises with a delta, but for its payment weight.

    Attributes
    ----------
    dist
        The distribution of costs per unit of epsilon at the delta, with an upper end.
    sellers
        How many will report.
    error_model
        What few people and Gaussian noise cost, in units of the sum of mu
        (:func:`~dpmarket.planning.noise_choice.gaussian_error`).
    delta
        Of every promise.
    n_coefficients, row_bound, n_classes, rows_per_person
        What is trained: coefficients of one class, the length that no row exceeds, labels, and rows of one
        person.
    max_epsilon
        Nobody is asked for more.
    """

    dist: CostDistribution
    sellers: int
    error_model: ErrorModel
    delta: float
    n_coefficients: int
    row_bound: float
    n_classes: int = 2
    rows_per_person: int = 1
    max_epsilon: float = 10.0

    def __post_init__(self) -> None:
        checks.whole("sellers", self.sellers, minimum=1)
        checks.strictly_between("delta", self.delta, 0.0, 1.0)
        if not math.isfinite(self.dist.support[1]):
            raise Infeasible("expected costs with an upper end for promises with a delta.")

    def objective(self, payment_weight: float, ratio: float, grid: int) -> GaussianObjective:
        """Return the objective with this payment weight and ratio of mu and c."""
        bound = vertex_bounds(self.n_classes, self.rows_per_person)[0]
        most = bound.largest_mu(np.array([self.max_epsilon]), np.array([self.delta]), ratio)
        return GaussianObjective(
            sampling=self.error_model.sampling,
            noise=self.error_model.noise,
            payment_weight=payment_weight,
            delta=self.delta,
            ratio=ratio,
            expected_sellers=self.sellers,
            max_mu=float(most[0]) * (1.0 - 1e-9),
            grid=grid,
            n_classes=self.n_classes,
            rows_per_person=self.rows_per_person,
        )

    def first_ratio(self) -> float:
        """Return the ratio at which the Hessian takes a quarter of a usual promise."""
        bound, usual = vertex_bounds(self.n_classes, self.rows_per_person)[0], min(1.0, self.max_epsilon)
        mu = bound.largest_mu(np.array([usual]), np.array([self.delta]), 1e50)
        return float(mu[0]) / usual / _SHARE

    def suggested_ratio(self, promises: FloatArray, noise_rate: float) -> float:
        """Return the ratio of the penalty that training would suggest for these promises."""
        l2 = gaussian_suggest_l2(
            promises,
            self.delta,
            self.n_coefficients,
            row_bound=self.row_bound,
            rows_per_person=self.rows_per_person,
            n_classes=self.n_classes,
        )
        return l2 * noise_rate / self.row_bound**2

    def typical_psi(self) -> FloatArray:
        """Return the virtual costs of the typical market."""
        levels = (np.arange(self.sellers) + 0.5) / self.sellers
        return np.asarray(virtual_costs(np.asarray(self.dist.quantile(levels)), self.dist))


@dataclass(frozen=True, eq=False)
class GaussianPlan:
    """An objective with a delta to announce before anybody reports, and what to expect of it.

    Attributes
    ----------
    objective
        What to announce.
    sellers
        Number of sellers that the plan is for.
    expected_payment
        Expected total payment, money, rounding included where smallest units were given.
    share_bought
        Expected share of sellers bought from.
    mean_promise
        What those are promised on average (epsilon).
    error
        The error to expect.
    """

    objective: GaussianObjective
    sellers: int
    expected_payment: float
    share_bought: float
    mean_promise: float
    error: ExpectedError

    @property
    def payment_weight(self) -> float:
        """Error units per unit of money (the paper's gamma)."""
        return self.objective.payment_weight

    @property
    def prospect(self) -> Prospect:
        """What can be expected, in a form that other rules have, too."""
        return Prospect(self.expected_payment, self.error, self.share_bought)

    def summary(self) -> list[tuple[str, str]]:
        """Return the plan as rows of a table."""
        return [
            ("sellers", f"{self.sellers:,}"),
            ("delta of every promise", f"{self.objective.delta:.3g}"),
            ("payment weight", f"{self.payment_weight:.6g}"),
            ("expected payments", f"{self.expected_payment:,.6g}"),
            ("expected error", f"{self.error.total:.4g}"),
            ("of it noise", f"{self.error.noise_share:.0%}"),
            ("of it few people", f"{1.0 - self.error.noise_share:.0%}"),
            ("bought from, expected", f"{self.share_bought:.1%}"),
            ("their mean epsilon, about", f"{self.mean_promise:.3g}"),
            ("nobody is promised more than", f"{self.objective.ceiling:.3g}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": SCHEMA,
            "payment_weight": self.payment_weight,
            "objective": self.objective.to_dict(),
            "sellers": self.sellers,
            "expected_payment": self.expected_payment,
            "share_bought": self.share_bought,
            "mean_promise": self.mean_promise,
            "expected_error": self.error.to_dict(),
        }


def gaussian_prices(task: GaussianTask, payment_weight: float) -> GaussianPlan:
    """Return the objective with a given payment weight, and what to expect of it.

    Parameters
    ----------
    task
        The market.
    payment_weight
        Error units per unit of money, > 0.

    Returns
    -------
    GaussianPlan
        A function of the arguments alone.
    """
    gamma, psi = checks.positive("payment_weight", payment_weight), task.typical_psi()
    ratio = task.first_ratio()
    for _ in range(_RATIOS):
        bought = task.objective(gamma, ratio, _COARSE).best(psi)
        ratio = task.suggested_ratio(bought.epsilons, bought.noise_rate)
    bought = task.objective(gamma, ratio, _COARSE).best(psi)
    return _plan(task, _announced(task, gamma, ratio, bought.noise_rate), 0.0)


def plan_gaussian(task: GaussianTask, budget: float, minor_units: int | None = None) -> GaussianPlan:
    """Return the prices at which payments by one curve, to sellers one by one, meet a budget on average.

    Parameters
    ----------
    task
        The market.
    budget
        Money, > 0.
    minor_units
        Smallest currency units to one unit of money, to which payments are rounded up; None: they are not.

    Returns
    -------
    GaussianPlan
        A function of the arguments alone. Expected payments are not above the budget, and below it by one or
        two in a hundred at most: the best noise rate is one of a grid.

    Raises
    ------
    Infeasible
        A budget that rounding up alone would use, or that cannot be spent even at the largest promise.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import gaussian_error
    >>> task = GaussianTask(Uniform(1, 5), 500, gaussian_error(41, 1.03), 1e-5, 41, 1.03)
    >>> plan = plan_gaussian(task, 300.0)
    >>> 290.0 < plan.expected_payment <= 300.0
    True
    """
    return _planned(task, checks.positive("budget", budget), minor_units, None)


def plan_gaussian_market(task: GaussianTask, budget: float, minor_units: int | None = None) -> GaussianPlan:
    """Return the prices at which payments to all sellers at once meet a budget on average.

    A market of few sellers pays another total on average than the typical one does: by how much is found on
    drawn markets, by a public seed.

    Parameters
    ----------
    task, budget, minor_units
        As for :func:`plan_gaussian`.

    Returns
    -------
    GaussianPlan
        A function of the arguments alone.

    Raises
    ------
    Infeasible
        As :func:`plan_gaussian`.
    """
    money = checks.positive("budget", budget)
    plan = _planned(task, money, minor_units, None)
    if task.sellers > _MANY:
        return plan
    for _ in range(_RATIOS):
        more = _share_more(task, plan.objective)
        plan = _planned(task, money / more, minor_units, plan.objective)
        plan = replace(plan, expected_payment=plan.expected_payment * more)
    return plan


def _planned(
    task: GaussianTask, budget: float, minor_units: int | None, before: GaussianObjective | None
) -> GaussianPlan:
    """Plan for a budget, with the ratio and from the payment weight of an objective planned before."""
    psi = task.typical_psi()
    added = 0.0 if minor_units is None else 1.0 / minor_units
    if before is None:
        ratio, gamma = task.first_ratio(), task.error_model.noise / (task.sellers * budget)
        for _ in range(_RATIOS):
            gamma = _weight_for(task, psi, ratio, budget, added, gamma)
            bought = task.objective(gamma, ratio, _COARSE).best(psi)
            ratio = task.suggested_ratio(bought.epsilons, bought.noise_rate)
    else:
        ratio, gamma = before.ratio, before.payment_weight
    for _ in range(_ROUNDINGS):
        gamma = _weight_for(task, psi, ratio, budget, added, gamma)
        bought = task.objective(gamma, ratio, _COARSE).best(psi)
        objective = _within(_announced(task, gamma, ratio, bought.noise_rate), psi, budget, added)
        if minor_units is None:
            break
        last, added = added, _added(task, objective, minor_units)
        if abs(last - added) * task.sellers <= 1e-3 * budget:
            break
    return _plan(task, objective, added)


def _weight_for(
    task: GaussianTask, psi: FloatArray, ratio: float, budget: float, added: float, start: float
) -> float:
    """Return the least payment weight found at which the typical market's payments stay within a budget."""

    def exceeds(gamma: float) -> bool:
        return _payment(psi, task.objective(gamma, ratio, _COARSE).best(psi), added) > budget

    low = high = start
    factor = 1.5
    while exceeds(high):
        low, high, factor = high, high * factor, factor**1.5
        if high > _LARGEST:
            raise Infeasible(
                f"expected a budget that leaves something after payments are rounded up, got {budget!r}: use "
                "smaller units of money (money.minor_units), or a larger budget."
            )
    while low == high or not exceeds(low):
        low, high, factor = low / factor, low, factor**1.5
        if low < 1.0 / _LARGEST:
            raise Infeasible(
                f"expected a budget that {task.sellers} sellers can be paid with promises of at most "
                f"{task.max_epsilon:g}, got {budget!r}: raise objective.max_epsilon, or lower the budget."
            )
    return _halved(exceeds, low, high)


def _within(objective: GaussianObjective, psi: FloatArray, budget: float, added: float) -> GaussianObjective:
    """Return the objective with a payment weight, near its own, at which payments stay within a budget.

    Its grid has other points than the one that was searched on.
    """

    def exceeds(gamma: float) -> bool:
        return _payment(psi, replace(objective, payment_weight=gamma).best(psi), added) > budget

    low, high = objective.payment_weight / 1.05, objective.payment_weight * 1.05
    while exceeds(high):
        low, high = high, 1.05 * high
    return replace(objective, payment_weight=_halved(exceeds, low, high))


def _halved(exceeds: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(_STEPS):
        if high < low * (1.0 + _CLOSE):
            break
        middle = math.sqrt(low * high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def _announced(task: GaussianTask, gamma: float, ratio: float, noise_rate: float) -> GaussianObjective:
    """Return the objective with a fine grid around the typical market's noise rate."""
    objective = task.objective(gamma, ratio, _FINE)
    most = task.sellers * objective.max_mu
    return replace(
        objective,
        lowest_rate=min(noise_rate, most) / _BELOW,
        highest_rate=min(most, noise_rate * _ABOVE),
    )


def _payment(psi: FloatArray, bought: GaussianPurchase, added: float) -> float:
    some = bought.epsilons > 0.0
    return float(psi[some] @ bought.epsilons[some]) + added * int(some.sum())


def _added(task: GaussianTask, objective: GaussianObjective, minor_units: int) -> float:
    """Return what rounding up adds to a payment on average, money, in the typical market."""
    costs = np.asarray(task.dist.quantile((np.arange(512) + 0.5) / 512))
    offers = OnlineGaussianMechanism(task.dist, objective).offers(costs)
    some = offers.epsilons > 0.0
    if not some.any():
        return 1.0 / minor_units
    exact = offers.payments[some] * minor_units
    return float(np.mean(np.ceil(exact) - exact)) / minor_units


def _share_more(task: GaussianTask, objective: GaussianObjective) -> float:
    """Return what drawn markets pay on average as a multiple of what the typical one pays.

    What the typical market's own curve would pay the same sellers is known on average: only the difference
    is drawn.
    """
    curve = OnlineGaussianMechanism(task.dist, objective)
    coarse = replace(objective, grid=_COARSE)
    typical = _payment(task.typical_psi(), objective.best(task.typical_psi()), 0.0)
    differences = []
    for row in np.random.default_rng(0).random((_MARKETS, task.sellers)):
        costs = np.asarray(task.dist.quantile(row))
        psi = np.asarray(virtual_costs(costs, task.dist))
        differences.append(_payment(psi, coarse.best(psi), 0.0) - float(psi @ curve.epsilons(costs)))
    return min(max(1.0 + float(np.mean(differences)) / typical, 0.25), 4.0)


def _plan(task: GaussianTask, objective: GaussianObjective, added: float) -> GaussianPlan:
    psi = task.typical_psi()
    bought = objective.best(psi)
    some = bought.epsilons > 0.0
    weights = bought.mu / bought.noise_rate
    return GaussianPlan(
        objective=objective,
        sellers=task.sellers,
        expected_payment=_payment(psi, bought, added),
        share_bought=float(some.mean()),
        mean_promise=float(bought.epsilons[some].mean()),
        error=task.error_model.predict(float(weights @ weights), bought.noise_rate),
    )
