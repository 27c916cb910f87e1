"""What more money, more people or fewer features would do, from public values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.plan import Prospect

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_TIMES = {0.25: "a quarter of", 0.5: "half", 2.0: "twice", 4.0: "four times"}


@dataclass(frozen=True)
class Option:
    """What can be expected where the ``budget``, ``people`` or ``features`` are so many times the campaign's.

    The expected error is the mean squared one of a gradient; ``noise_share`` of it is noise, the rest comes
    from few people.
    """

    what: str
    factor: float
    payment: float
    expected_error: float
    noise_share: float
    share_bought: float


def budget_options(expect: Callable[[float], Prospect], budget: float) -> tuple[Option, ...]:
    """Plan for a quarter of the budget to four times as much; budgets that cannot be spent are left out.

    ``expect`` says what can be expected of a budget: a function of public values only.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> from dpmarket.mechanisms.plan import plan
    >>> model = Objective.for_model(n_features=5)
    >>> options = budget_options(lambda money: plan(Uniform(1, 5), model, 1000, money).prospect, 100.0)
    >>> [option.factor for option in options], options[0].expected_error > options[-1].expected_error
    ([0.25, 0.5, 1.0, 2.0, 4.0], True)
    """
    return _feasible(("budget", factor, partial(expect, factor * budget)) for factor in FACTORS)


def crowd_options(
    rules: Rules, people: int, budget: float, expect: Callable[[Rules, int, float], Prospect]
) -> tuple[Option, ...]:
    """Plan for half and twice the people and for half the features, where that can be had."""
    asked = [("people", factor, rules, round(factor * people)) for factor in (0.5, 2.0)]
    names = list(rules.features)
    if len(names) > 1:
        fewer = {name: rules.features[name] for name in names[: len(names) // 2]}
        asked.append(("features", 0.5, rules.model_copy(update={"features": fewer}), people))
    return _feasible(
        (what, factor, partial(expect, other, count, budget)) for what, factor, other, count in asked
    )


def said(what: str, factor: float) -> str:
    """Return a change in words.

    Examples
    --------
    >>> said("budget", 1.0), said("budget", 0.25), said("people", 2.0)
    ('this campaign', 'a quarter of the budget', 'twice the people')
    """
    return "this campaign" if factor == 1.0 else f"{_TIMES[factor]} the {what}"


def _feasible(asked: Iterable[tuple[str, float, Callable[[], Prospect]]]) -> tuple[Option, ...]:
    options = []
    for what, factor, expect in asked:
        try:
            found = expect()
        except Infeasible:
            continue
        noise_share = found.noise_error / found.error
        options.append(
            Option(what, factor, found.expected_payment, found.error, noise_share, found.share_bought)
        )
    return tuple(options)
