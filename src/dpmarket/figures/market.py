"""Draw what a market came to: the rule, the sellers, budgets, buyers, and what a promise means."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from dpmarket.figures.canvas import COLOURS, MARKERS, STYLES


def draw_rule(
    axes: Axes,
    costs: Sequence[float],
    values: Sequence[float],
    group_costs: Sequence[float],
    group_values: Sequence[float],
    *,
    cutoff: float | None,
    unit: str,
    worth: Sequence[float] | None = None,
    currency: str = "",
) -> None:
    """Draw what is offered at every cost, the means of groups of sellers, and where buying ends.

    ``worth`` is what the promise costs the seller, to compare a payment with.
    """
    axes.plot(costs, values, color=COLOURS[0], label="the rule")
    if worth is not None:
        axes.plot(costs, worth, color=COLOURS[2], ls=STYLES[2], label="cost to the seller")
    axes.plot(group_costs, group_values, MARKERS[0], color=COLOURS[1], ms=4.5, label="groups")
    if cutoff is not None:
        axes.axvline(cutoff, color="#000000", ls=STYLES[1], lw=1.0, label="cutoff")
    axes.set_xlabel(with_unit("cost per unit of epsilon", currency))
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0.0)
    _legend(axes)


def draw_groups(
    axes: Axes,
    bought: Sequence[tuple[float, float, int]],
    others: Sequence[tuple[float, float, int]],
    cutoff: float | None,
    *,
    currency: str = "",
) -> None:
    """Draw how many sellers have which cost: groups as (low, high, sellers), each a bar of that area."""
    kinds = ((bought, COLOURS[0], "bought from", None), (others, COLOURS[4], "not bought from", "////"))
    for groups, colour, label, hatch in kinds:
        if groups:
            axes.bar(
                [low for low, _, _ in groups],
                [sellers / (high - low) for low, high, sellers in groups],
                [high - low for low, high, _ in groups],
                align="edge",
                facecolor=colour if hatch is None else "none",
                edgecolor=colour,
                hatch=hatch,
                label=label,
            )
    if cutoff is not None:
        axes.axvline(cutoff, color="#000000", ls=STYLES[1], lw=1.0, label="cutoff")
    axes.set_xlabel(with_unit("cost per unit of epsilon", currency))
    axes.set_ylabel("sellers per unit of cost")
    axes.set_axisbelow(True)
    _legend(axes)


def draw_options(
    axes: Axes,
    payments: Sequence[float],
    errors: Sequence[float],
    chosen: tuple[float, float],
    currency: str = "",
) -> None:
    """Draw what error different budgets are expected to leave, and mark the one that was chosen."""
    axes.plot(payments, errors, color=COLOURS[0], marker=MARKERS[0], ms=4.5, label="other budgets")
    axes.plot(*chosen, MARKERS[3], color=COLOURS[1], ms=8, label="this campaign")
    axes.set_xscale("log")
    axes.set_xticks(
        payments, [f"{payment:,.3g}" if payment < 100.0 else f"{payment:,.0f}" for payment in payments]
    )
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    digits = (1, 2, 5) if high > 5.0 * low else range(1, 10)  # more of them would touch
    decades = range(floor(log10(low)), ceil(log10(high)))
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(with_unit("expected payments", currency))
    axes.set_ylabel("expected error")
    _legend(axes)


def draw_buyers(
    axes: Axes, names: Sequence[str], errors: Sequence[float], standard_errors: Sequence[float]
) -> None:
    """Draw the test errors of several buyers with bars of two standard errors, the first one on top."""
    places = list(range(len(names)))[::-1]
    for place, error, spread, first in zip(
        places, errors, standard_errors, [True] + [False] * len(names), strict=False
    ):
        colour, marker = (COLOURS[1], MARKERS[3]) if first else (COLOURS[0], MARKERS[0])
        axes.errorbar(error, place, xerr=2.0 * spread, fmt=marker, color=colour, capsize=3)
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlim(left=0.0)
    axes.set_xlabel("wrong predictions")
    axes.grid(visible=False, axis="y")


def draw_guesses(
    axes: Axes, before: Sequence[float], after: Sequence[Sequence[float]], labels: Sequence[str]
) -> None:
    """Draw how sure a guess can become, for several promises, against how sure it was before."""
    axes.plot([0, 1], [0, 1], color="#000000", lw=1.0, ls=STYLES[3], label="nothing learnt")
    for k, (values, label) in enumerate(zip(after, labels, strict=True)):
        axes.plot(before, values, color=COLOURS[k], ls=STYLES[k], label=label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("how sure before")
    axes.set_ylabel("how sure after, at most")
    _legend(axes)


def with_unit(words: str, currency: str) -> str:
    """Return a label with the currency, if there is one.

    Examples
    --------
    >>> with_unit("payment", "EUR"), with_unit("payment", "")
    ('payment (EUR)', 'payment')
    """
    plain = currency.replace("$", r"\$")  # no formula
    return f"{words} ({plain})" if currency else words


def _legend(axes: Axes) -> None:
    """Say above the axes, where nothing is hidden, what is what."""
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=4,
        frameon=False,
        columnspacing=1.2,
        handlelength=1.6,
    )
