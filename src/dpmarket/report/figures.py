"""Figures in one style, made without a screen: matplotlib is used here and nowhere else.

Series differ by colour, line and marker, so that nothing is lost in print or to a colour-blind reader.
:func:`new_figure` makes empty axes, ``draw_*`` draw one kind of picture on axes that they are given,
:func:`save` writes a file, and :func:`inline_svg` makes a figure part of a page: colours become the page's
variables ``--series-0``, ``--series-1``, ... (in the order of ``COLOURS``) and ``currentColor``, so that one
drawing serves light, dark and print, and text stays text in the page's own font.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dpmarket.errors import InvalidInput
from dpmarket.files import write_bytes

# Okabe and Ito's colours that colour-blind readers can tell apart; yellow left out: too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_FORMATS = (".svg", ".png", ".pdf")
_INK, _GRID = ("#000000", "#262626"), "#b0b0b0"
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


def new_figure(panels: int = 1, width: float = 4.8, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``panels`` axes side by side, each ``width`` by ``height`` inches.

    Nothing is shown, and nothing of matplotlib's global state is used or changed.

    Examples
    --------
    >>> figure, axes = new_figure(panels=2)
    >>> len(axes), figure.get_size_inches().tolist()
    (2, [9.6, 3.4])
    """
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(width * panels, height), layout="constrained")
        axes = [figure.add_subplot(1, panels, k + 1) for k in range(panels)]
    return figure, axes


def save(figure: Figure, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write ``figure`` to ``path``, whole or not at all, in the format of its ending: svg, png or pdf.

    The same figure gives the same bytes: no date is written.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _FORMATS:
        raise InvalidInput(f"expected a figure's file to end in {', '.join(_FORMATS)}, got {target.name!r}.")
    buffer = io.BytesIO()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}[ending]
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format=ending[1:], dpi=150, metadata=metadata)
    write_bytes(target, buffer.getvalue(), overwrite=overwrite)
    return target


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element with a text alternative.

    Parameters
    ----------
    figure
        The finished figure.
    name
        Different for every figure of a page; letters, digits and hyphens. Ids begin with it.
    title
        A few words: what is drawn.
    description
        Sentences that tell somebody who cannot see the figure what it shows.

    Examples
    --------
    >>> figure, (axes,) = new_figure()
    >>> line = axes.plot([0, 1], [1, 0])
    >>> inline_svg(figure, "fall", "A fall", "From 1 to 0.")[:40]
    '<svg class="chart" id="fall" role="img" '
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidInput(f"expected name to be letters, digits and hyphens, got {name!r}.")
    buffer = io.StringIO()
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    found = re.search(r'<svg [^>]*viewBox="([^"]+)"[^>]*>(.*)</svg>', drawing, re.DOTALL)
    assert found is not None
    box, content = found.groups()
    content = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", content, flags=re.DOTALL)
    content = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', content)
    content = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', content)
    content = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", content)
    content = content.replace("xlink:href", "href")
    content = re.sub(r"#[0-9a-fA-F]{6}\b", _page_colour, content)
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


def _page_colour(found: re.Match[str]) -> str:
    colour = found.group(0).lower()
    if colour in _INK:
        return "currentColor"
    if colour == _GRID:
        return "var(--grid, #b0b0b0)"
    for k, own in enumerate(COLOURS):
        if own.lower() == colour:
            return f"var(--series-{k}, {own})"
    return colour


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


def draw_rules(
    axes: Axes,
    curves: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    unit: str,
    currency: str = "",
) -> None:
    """Draw what is offered to each group at every cost: name, costs and values of each."""
    for k, (name, costs, values) in enumerate(curves):
        axes.plot(costs, values, color=COLOURS[k % len(COLOURS)], ls=STYLES[k % len(STYLES)], label=name)
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


def draw_epsilons(
    axes: Axes, epsilons: Sequence[float], series: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Draw the epsilons that an audit shows, a named series for each kind of evidence, against budgets."""
    top = 1.05 * max([*epsilons, *(value for _, values in series for value in values if np.isfinite(value))])
    axes.plot([0.0, top], [0.0, top], color=COLOURS[6], linewidth=0.8, label="the budget")
    for k, (name, values) in enumerate(series):
        axes.plot(epsilons, values, MARKERS[k], color=COLOURS[k], linestyle="none", label=name)
    axes.set_xlabel("privacy budget (epsilon)")
    axes.set_ylabel("epsilon shown by the audit")
    _legend(axes)
