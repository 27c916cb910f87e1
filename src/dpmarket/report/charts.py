"""The charts of a report's page, in one style, made without a screen; each with a text alternative.

Series differ by colour, line and marker. :func:`inline_svg` turns colours into the page's variables
``--series-0``, ... (in the order of ``COLOURS``) and ``currentColor``: one drawing serves light, dark and
print.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpmarket.campaign.rules.pricing import CROSS_PRICED
from dpmarket.mechanisms.forecasts import Forecast
from dpmarket.report.summary import Rule, Summary

# Okabe and Ito's colours that colour-blind readers can tell apart; yellow left out: too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
_ON_PAGE = {own.lower(): f"var(--series-{k}, {own})" for k, own in enumerate(COLOURS)} | {
    "#000000": "currentColor", "#262626": "currentColor", "#b0b0b0": "var(--grid, #b0b0b0)",
}  # fmt: skip
LOOK: Any = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "dpmarket",
    "svg.fonttype": "none",
}


def charts_of(summary: Summary) -> dict[str, str]:
    """Return the charts by name, as SVG elements; those without data are left out."""
    rule_chart = _strata_chart if summary.strata else _rule_chart
    charts = {
        "epsilon": rule_chart(summary, "epsilon"),
        "payment": rule_chart(summary, "payment"),
        "sellers": _sellers_chart(summary),
    }
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
        cutoff=None if rule.is_planned else rule.cutoff,
        unit=_unit(summary, what),
        worth=worth,
        currency=summary.currency,
    )
    words = (
        f"A line that falls from {values[0]:.4g} at a cost of {rule.costs[0]:.4g} "
        f"to {values[-1]:.4g} at a cost of {rule.costs[-1]:.4g}. "
        f"The means of {len(groups)} groups of sellers are beside it. {_cutoff_words(summary)}"
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
        draw_cutoff(axes, None if summary.rule.is_planned else summary.rule.cutoff)
        words = f"{words} {_cutoff_words(summary)}"
    axes.set_axisbelow(True)
    finish(axes, with_unit("cost per unit of epsilon", summary.currency), "sellers per unit of cost")
    return inline_svg(figure, "chart-sellers", "How many sellers have which cost", words)


def _forecast_chart(forecast: Forecast) -> str:
    figure, (axes,) = new_figure()
    forecast.draw(axes, forecast.predictions[0].sellers, COLOURS)
    words = "; ".join(f"{one.rule} for {one.budget:,.4g}: {one.score:.3f}" for one in forecast.predictions)
    return inline_svg(figure, "chart-forecast", f"{forecast.measure} against budget", f"{words}.")


def _cutoff_words(summary: Summary) -> str:
    rule = summary.rule
    if rule.is_planned:
        return "The rule is the one that was to be expected beforehand."
    if rule.cutoff is None:
        return "There is no cutoff: everybody is bought from."
    each = summary.mechanism == CROSS_PRICED
    words = "each part has its own, near it" if each else "nobody above it is bought from"
    return f"The cutoff is at a cost of {rule.cutoff:.4g}: {words}."


# --- drawing ----------------------------------------------------------------------------------------


def new_figure(panels: int = 1, width: float = 4.8, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes side by side, in inches; matplotlib's global state stays as it is."""
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(width * panels, height), layout="constrained")
        axes = [figure.add_subplot(1, panels, k + 1) for k in range(panels)]
    return figure, axes


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element whose ids begin with ``name``, with a text alternative."""
    buffer = io.StringIO()
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format="svg", transparent=True)
    drawing = buffer.getvalue()
    found = re.search(r'<svg [^>]*viewBox="([^"]+)"[^>]*>(.*)</svg>', drawing, re.DOTALL)
    assert found is not None
    box, content = found.groups()
    # The metadata hold the date.
    content = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", content, flags=re.DOTALL)
    content = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", content).replace("xlink:href", "href")
    content = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _ON_PAGE.get(colour[0], colour[0]), content)
    content = re.sub(
        r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", re.sub(r"font-family: [^;\"]+;?", "", content)
    )
    content = re.sub(r"\n\s*", "\n", content).strip()
    words = html.escape(f"{title}. {description}", quote=True)
    return (
        f'<svg class="chart" id="{name}" role="img" aria-label="{words}" viewBox="{box}" '
        f'fill="currentColor" xmlns="http://www.w3.org/2000/svg">\n'
        f"<title>{html.escape(title)}</title>\n<desc>{html.escape(description)}</desc>\n{content}\n</svg>"
    )


def draw_rule(
    axes: Axes, costs: Sequence[float], values: Sequence[float], group_costs: Sequence[float],
    group_values: Sequence[float], *, cutoff: float | None, unit: str, worth: Sequence[float] | None = None,
    currency: str = "",
) -> None:  # fmt: skip
    """Draw what is offered at every cost, its ``worth`` to sellers, groups' means, and where buying ends."""
    axes.plot(costs, values, color=COLOURS[0], label="the rule")
    if worth is not None:
        axes.plot(costs, worth, color=COLOURS[2], ls=STYLES[2], label="cost to the seller")
    axes.plot(group_costs, group_values, "o", color=COLOURS[1], ms=4.5, label="groups")
    draw_cutoff(axes, cutoff)
    axes.set_ylim(bottom=0.0)
    finish(axes, with_unit("cost per unit of epsilon", currency), unit)


def draw_cutoff(axes: Axes, cutoff: float | None) -> None:
    """Draw where buying ends, if it does."""
    if cutoff is not None:
        axes.axvline(cutoff, color=COLOURS[6], ls=STYLES[1], lw=1.0, label="cutoff")


def finish(axes: Axes, x_label: str, y_label: str) -> None:
    """Name both axes, and say above them, where nothing is hidden, what is what."""
    axes.set(xlabel=x_label, ylabel=y_label)
    place: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 4}
    axes.legend(**place, frameon=False, columnspacing=1.2, handlelength=1.6)


def with_unit(words: str, currency: str) -> str:
    """Return a label with the currency, if there is one."""
    plain = currency.replace("$", r"\$")  # no formula
    return f"{words} ({plain})" if currency else words
