"""The charts of a report's page, each with a text alternative that tells what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from dpmarket.mechanisms.forecasts import Forecast
from dpmarket.report.figures import (
    COLOURS,
    MARKERS,
    STYLES,
    draw_cutoff,
    draw_rule,
    finish,
    inline_svg,
    new_figure,
    with_unit,
)
from dpmarket.report.forecast import Option
from dpmarket.report.summary import Rule, Summary, guess_after


def charts_of(summary: Summary) -> dict[str, str]:
    """Return the charts by name, as SVG elements; those without data are left out."""
    rule_chart = _strata_chart if summary.strata else _rule_chart
    charts = {
        "epsilon": rule_chart(summary, "epsilon"),
        "payment": rule_chart(summary, "payment"),
        "sellers": _sellers_chart(summary),
        "promise": _promise_chart(summary),
    }
    budgets = [option for option in summary.options if option.what == "budget"]
    if len(budgets) > 1:
        charts["budget"] = _budget_chart(budgets, summary.currency)
    if summary.forecast is not None:
        charts["forecast"] = _forecast_chart(summary.forecast)
    return charts


def _unit(summary: Summary, what: str) -> str:
    return "epsilon" if what == "epsilon" else with_unit("payment", summary.currency)


def _values(rule: Rule, what: str) -> Sequence[float]:
    return rule.epsilons if what == "epsilon" else rule.payments


def _rule_chart(summary: Summary, what: str) -> str:
    rule, groups = summary.rule, summary.bought_groups
    values, worth = _values(rule, what), None
    if what == "payment":
        worth = [cost * epsilon for cost, epsilon in zip(rule.costs, rule.epsilons, strict=True)]
    figure, (axes,) = new_figure()
    draw_rule(
        axes,
        rule.costs,
        values,
        [group.mean_cost for group in groups],
        [group.mean_epsilon if what == "epsilon" else group.mean_payment for group in groups],
        cutoff=rule.cutoff,
        unit=_unit(summary, what),
        worth=worth,
        currency=summary.currency,
    )
    words = (
        f"A line that falls from {values[0]:.4g} at a cost of {rule.costs[0]:.4g} "
        f"to {values[-1]:.4g} at a cost of {rule.costs[-1]:.4g}. "
        f"The means of {len(groups)} groups of sellers lie along it. {_cutoff_words(rule.cutoff)}"
        + ("" if worth is None else " A lower line shows what the promise costs the seller.")
    )
    return inline_svg(figure, f"chart-{what}", f"{what.capitalize()} against cost", words)


def _strata_chart(summary: Summary, what: str) -> str:
    """Draw what is offered to each group at every cost."""
    figure, (axes,) = new_figure()
    words = []
    for k, one in enumerate(summary.strata):
        costs, values = one.rule.costs, _values(one.rule, what)
        axes.plot(costs, values, color=COLOURS[k % len(COLOURS)], ls=STYLES[k % len(STYLES)], label=one.name)
        words.append(
            f"{one.name} from {values[0]:.4g} at {costs[0]:.4g} to {values[-1]:.4g} at {costs[-1]:.4g}"
        )
    axes.set_ylim(bottom=0.0)
    finish(axes, with_unit("cost per unit of epsilon", summary.currency), _unit(summary, what))
    title = f"{what.capitalize()} against cost, by group"
    return inline_svg(figure, f"chart-{what}", title, f"Lines that fall with the cost: {'; '.join(words)}.")


def _sellers_chart(summary: Summary) -> str:
    """Draw how many sellers have which cost: a bar for each group, of that area."""
    figure, (axes,) = new_figure()
    kinds = (
        (summary.bought_groups, COLOURS[0], "bought from", None),
        (summary.other_groups, COLOURS[4], "not bought from", "////"),
    )
    for groups, colour, label, hatch in kinds:
        if groups:
            axes.bar(
                [group.low for group in groups],
                [group.sellers / (group.high - group.low) for group in groups],
                [group.high - group.low for group in groups],
                align="edge",
                facecolor=colour if hatch is None else "none",
                edgecolor=colour,
                hatch=hatch,
                label=label,
            )
    totals = summary.totals
    words = f"Bars over the costs: {totals.bought:,} sellers were bought from, {totals.priced_out:,} not."
    if not summary.strata:
        draw_cutoff(axes, summary.rule.cutoff)
        words = f"{words} {_cutoff_words(summary.rule.cutoff)}"
    axes.set_axisbelow(True)
    finish(axes, with_unit("cost per unit of epsilon", summary.currency), "sellers per unit of cost")
    return inline_svg(figure, "chart-sellers", "How many sellers have which cost", words)


def _promise_chart(summary: Summary) -> str:
    """Draw how sure a guess can become against how sure it was before."""
    figure, (axes,) = new_figure()
    axes.plot([0, 1], [0, 1], color=COLOURS[6], lw=1.0, ls=STYLES[3], label="nothing learnt")
    before = np.linspace(0.0, 1.0, 51).tolist()
    for k, row in enumerate(summary.meanings):
        after = [guess_after(p, row.epsilon) for p in before]
        axes.plot(before, after, color=COLOURS[k], ls=STYLES[k], label=f"epsilon {row.epsilon:.3g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    finish(axes, "how sure before", "how sure after, at most")
    words = " ".join(
        f"With epsilon {row.epsilon:.3g} a guess that was 50% likely is at most {row.guesses[-1]:.1%} likely."
        for row in summary.meanings
    )
    return inline_svg(figure, "chart-promise", "How sure a guess can become", words)


def _budget_chart(budgets: Sequence[Option], currency: str) -> str:
    figure, (axes,) = new_figure()
    own = min(budgets, key=lambda option: abs(option.factor - 1.0))
    draw_options(axes, budgets, own, currency)
    first, last = budgets[0], budgets[-1]
    words = (
        f"A line that falls from {first.expected_error:.3g} for payments of {first.payment:,.4g} to "
        f"{last.expected_error:.3g} for payments of {last.payment:,.4g}; this campaign is at "
        f"{own.expected_error:.3g} for {own.payment:,.4g}."
    )
    return inline_svg(figure, "chart-budget", "Expected error against money", words)


def draw_options(axes: Axes, budgets: Sequence[Option], own: Option, currency: str) -> None:
    """Draw what error different budgets are expected to leave, and mark the one that was chosen."""
    payments = [option.payment for option in budgets]
    errors = [option.expected_error for option in budgets]
    axes.plot(payments, errors, color=COLOURS[0], marker=MARKERS[0], ms=4.5, label="other budgets")
    axes.plot(own.payment, own.expected_error, MARKERS[3], color=COLOURS[1], ms=8, label="this campaign")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(
        payments, [f"{payment:,.3g}" if payment < 100.0 else f"{payment:,.0f}" for payment in payments]
    )
    low, high = axes.get_ylim()
    digits = (1, 2, 5) if high > 5.0 * low else range(1, 10)  # more of them would touch
    decades = range(floor(log10(low)), ceil(log10(high)))
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.minorticks_off()
    finish(axes, with_unit("expected payments", currency), "expected error")


def _forecast_chart(forecast: Forecast) -> str:
    figure, (axes,) = new_figure()
    forecast.draw(axes, forecast.predictions[0].sellers, COLOURS)
    words = "; ".join(f"{one.rule} for {one.budget:,.4g}: {one.score:.3f}" for one in forecast.predictions)
    return inline_svg(figure, "chart-forecast", f"{forecast.measure} against budget", f"{words}.")


def _cutoff_words(cutoff: float | None) -> str:
    if cutoff is None:
        return "There is no cutoff: everybody is bought from."
    return f"The cutoff is at a cost of {cutoff:.4g}: nobody above it is bought from."
