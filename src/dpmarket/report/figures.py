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
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpmarket.errors import InvalidInput
from dpmarket.files import write_bytes

# Okabe and Ito's colours that colour-blind readers can tell apart; yellow left out: too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_ON_PAGE = {own.lower(): f"var(--series-{k}, {own})" for k, own in enumerate(COLOURS)} | {
    "#000000": "currentColor", "#262626": "currentColor", "#b0b0b0": "var(--grid, #b0b0b0)",
}  # fmt: skip
_UNDATED: dict[str, dict[str, None]] = {
    ".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None},
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


def new_figure(panels: int = 1, width: float = 4.8, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes side by side, in inches; matplotlib's global state stays as it is.

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
    if ending not in _UNDATED:
        raise InvalidInput(f"expected a figure's file to end in {', '.join(_UNDATED)}, got {target.name!r}.")
    buffer = io.BytesIO()
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format=ending[1:], dpi=150, metadata=_UNDATED[ending])
    write_bytes(target, buffer.getvalue(), overwrite=overwrite)
    return target


def inline_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element with a text alternative.

    The name is different for every figure of a page: ids begin with it. The description tells somebody who
    cannot see the figure what it shows.

    Examples
    --------
    >>> figure, (axes,) = new_figure()
    >>> line = axes.plot([0, 1], [1, 0])
    >>> inline_svg(figure, "fall", "A fall", "From 1 to 0.")[:40]
    '<svg class="chart" id="fall" role="img" '
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    found = re.search(r'<svg [^>]*viewBox="([^"]+)"[^>]*>(.*)</svg>', drawing, re.DOTALL)
    assert found is not None
    box, content = found.groups()
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
    draw_cutoff(axes, cutoff)
    axes.set_ylim(bottom=0.0)
    finish(axes, with_unit("cost per unit of epsilon", currency), unit)


def draw_cutoff(axes: Axes, cutoff: float | None) -> None:
    """Draw where buying ends, if it does."""
    if cutoff is not None:
        axes.axvline(cutoff, color=COLOURS[6], ls=STYLES[1], lw=1.0, label="cutoff")


def draw_epsilons(
    axes: Axes, epsilons: Sequence[float], series: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Draw the epsilons that an audit shows, a named series for each kind of evidence, against budgets."""
    top = 1.05 * max([*epsilons, *(value for _, values in series for value in values if np.isfinite(value))])
    axes.plot([0.0, top], [0.0, top], color=COLOURS[6], linewidth=0.8, label="the budget")
    for k, (name, values) in enumerate(series):
        axes.plot(epsilons, values, MARKERS[k], color=COLOURS[k], linestyle="none", label=name)
    finish(axes, "privacy budget (epsilon)", "epsilon shown by the audit")


def finish(axes: Axes, x_label: str, y_label: str) -> None:
    """Name both axes, and say above them, where nothing is hidden, what is what."""
    axes.set(xlabel=x_label, ylabel=y_label)
    place: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 4}
    axes.legend(**place, frameon=False, columnspacing=1.2, handlelength=1.6)


def with_unit(words: str, currency: str) -> str:
    """Return a label with the currency, if there is one.

    Examples
    --------
    >>> with_unit("payment", "EUR"), with_unit("payment", "")
    ('payment (EUR)', 'payment')
    """
    plain = currency.replace("$", r"\$")  # no formula
    return f"{words} ({plain})" if currency else words
