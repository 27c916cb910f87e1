"""Turn a summary into charts for its page, each with a text alternative that tells what it shows."""

from __future__ import annotations

import numpy as np

from dpmarket.mechanisms.forecasts import Forecast
from dpmarket.report.figures import (
    COLOURS,
    draw_groups,
    draw_guesses,
    draw_options,
    draw_rule,
    draw_rules,
    inline_svg,
    new_figure,
    with_unit,
)
from dpmarket.report.groups import Group
from dpmarket.report.promise import guess_after
from dpmarket.report.summary import Summary


def charts_of(summary: Summary) -> dict[str, str]:
    """Return the charts by name, as SVG elements; those without data are left out."""
    charts = {
        "epsilon": _rule_chart(summary, "epsilon"),
        "payment": _rule_chart(summary, "payment"),
        "sellers": _sellers_chart(summary),
        "promise": _promise_chart(summary),
    }
    if sum(option.what == "budget" for option in summary.options) > 1:
        charts["budget"] = _budget_chart(summary)
    if summary.forecast is not None:
        charts["forecast"] = _forecast_chart(summary.forecast)
    return charts


def _forecast_chart(forecast: Forecast) -> str:
    figure, (axes,) = new_figure()
    sellers = forecast.predictions[0].sellers
    forecast.draw(axes, sellers, COLOURS)
    words = "; ".join(f"{one.rule} for {one.budget:,.4g}: {one.score:.3f}" for one in forecast.predictions)
    return inline_svg(figure, "chart-forecast", f"{forecast.measure} against budget", f"{words}.")


def _rule_chart(summary: Summary, what: str) -> str:
    rule, groups = summary.rule, summary.bought_groups
    values = rule.epsilons if what == "epsilon" else rule.payments
    means = [group.mean_epsilon if what == "epsilon" else group.mean_payment for group in groups]
    figure, (axes,) = new_figure()
    places = [group.mean_cost for group in groups]
    if summary.strata:
        return _strata_chart(summary, what)
    worth = None
    if what == "payment":
        worth = [cost * epsilon for cost, epsilon in zip(rule.costs, rule.epsilons, strict=True)]
    currency = summary.currency
    unit = "epsilon" if what == "epsilon" else with_unit("payment", currency)
    draw_rule(
        axes, rule.costs, values, places, means, cutoff=rule.cutoff, unit=unit, worth=worth, currency=currency
    )
    title = "Epsilon against cost" if what == "epsilon" else "Payment against cost"
    words = (
        f"A line that falls from {values[0]:.4g} at a cost of {rule.costs[0]:.4g} "
        f"to {values[-1]:.4g} at a cost of {rule.costs[-1]:.4g}. "
        f"The means of {len(groups)} groups of sellers lie along it. {_cutoff_words(rule.cutoff)}"
        + ("" if worth is None else " A lower line shows what the promise costs the seller.")
    )
    return inline_svg(figure, f"chart-{what}", title, words)


def _strata_chart(summary: Summary, what: str) -> str:
    """Draw the rule of each group."""
    figure, (axes,) = new_figure()
    unit = "epsilon" if what == "epsilon" else with_unit("payment", summary.currency)
    curves = [
        (one.name, one.rule.costs, one.rule.epsilons if what == "epsilon" else one.rule.payments)
        for one in summary.strata
    ]
    draw_rules(axes, curves, unit=unit, currency=summary.currency)
    title = f"{unit.split(',')[0].capitalize()} against cost, by group"
    words = "Lines that fall with the cost: " + "; ".join(
        f"{name} from {values[0]:.4g} at {costs[0]:.4g} to {values[-1]:.4g} at {costs[-1]:.4g}"
        for name, costs, values in curves
    )
    return inline_svg(figure, f"chart-{what}", title, f"{words}.")


def _sellers_chart(summary: Summary) -> str:
    figure, (axes,) = new_figure()
    cutoff = None if summary.strata else summary.rule.cutoff
    draw_groups(
        axes, _bars(summary.bought_groups), _bars(summary.other_groups), cutoff, currency=summary.currency
    )
    totals = summary.totals
    words = (
        f"Bars over the costs: {totals.bought:,} sellers were bought from, {totals.priced_out:,} were not. "
        + ("" if summary.strata else _cutoff_words(cutoff))
    )
    return inline_svg(figure, "chart-sellers", "How many sellers have which cost", words)


def _promise_chart(summary: Summary) -> str:
    figure, (axes,) = new_figure()
    before = np.linspace(0.0, 1.0, 51).tolist()
    after = [[guess_after(p, row.epsilon) for p in before] for row in summary.meanings]
    labels = [f"epsilon {row.epsilon:.3g}" for row in summary.meanings]
    draw_guesses(axes, before, after, labels)
    words = " ".join(
        f"With epsilon {row.epsilon:.3g} a guess that was 50% likely is at most {row.guesses[-1]:.1%} likely."
        for row in summary.meanings
    )
    return inline_svg(figure, "chart-promise", "How sure a guess can become", words)


def _budget_chart(summary: Summary) -> str:
    figure, (axes,) = new_figure()
    budgets = [option for option in summary.options if option.what == "budget"]
    payments = [option.payment for option in budgets]
    errors = [option.expected_error for option in budgets]
    own = min(budgets, key=lambda option: abs(option.factor - 1.0))
    draw_options(axes, payments, errors, (own.payment, own.expected_error), summary.currency)
    words = (
        f"A line that falls from {errors[0]:.3g} for payments of {payments[0]:,.4g} to {errors[-1]:.3g} for "
        f"payments of {payments[-1]:,.4g}; this campaign is at {own.expected_error:.3g} for "
        f"{own.payment:,.4g}."
    )
    return inline_svg(figure, "chart-budget", "Expected error against money", words)


def _bars(groups: tuple[Group, ...]) -> list[tuple[float, float, int]]:
    return [(group.low, group.high, group.sellers) for group in groups]


def _cutoff_words(cutoff: float | None) -> str:
    if cutoff is None:
        return "There is no cutoff: everybody is bought from."
    return f"The cutoff is at a cost of {cutoff:.4g}: nobody above it is bought from."
