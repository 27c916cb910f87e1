"""Turn a budget into what more and less of it would have bought, from public values alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpmarket.errors import Infeasible
from dpmarket.planning import Prospect

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Option:
    """What can be expected of one budget.

    Attributes
    ----------
    factor
        The budget as a multiple of the campaign's.
    payment
        Expected total payment, money.
    expected_error
        The mean squared error of a gradient that is to be expected.
    noise_share
        The share of noise in it; the rest comes from few people.
    share_bought
        Expected share of sellers bought from.
    """

    factor: float
    payment: float
    expected_error: float
    noise_share: float
    share_bought: float


def budget_options(expect: Callable[[float], Prospect], budget: float) -> tuple[Option, ...]:
    """Plan for a quarter of the budget to four times as much; budgets that cannot be spent are left out.

    Parameters
    ----------
    expect
        What can be expected of a budget, such as the ``prospect`` of a plan for it; a function of public
        values only.
    budget
        The campaign's, money, above 0.

    Returns
    -------
    tuple of Option
        By rising budget.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error, plan_prices
    >>> model = logistic_error(n_features=5, row_bound=1.2)
    >>> options = budget_options(lambda money: plan_prices(Uniform(1, 5), 1000, money, model).prospect, 100.0)
    >>> [option.factor for option in options], options[0].expected_error > options[-1].expected_error
    ([0.25, 0.5, 1.0, 2.0, 4.0], True)
    """
    options = []
    for factor in FACTORS:
        try:
            found = expect(factor * budget)
        except Infeasible:
            continue
        error = found.error
        options.append(Option(factor, found.payment, error.total, error.noise_share, found.share_bought))
    return tuple(options)
