"""A summary as one self-contained HTML page.

Every number on the page is a ``<data>`` element whose ``value`` is the exact number and whose ``data-name``
says where it stands in ``summary.to_dict()``, so that a program, or a test, can hold the page against it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dpmarket.report.charts import charts_of
from dpmarket.report.summary import GUESSES, Summary
from dpmarket.version import __version__

_CONTENTS = "<!-- contents -->"


def render_page(summary: Summary) -> str:
    """Return the page, a whole HTML document: no script, nothing fetched, for screens, phones and print."""
    data = summary.to_dict()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("dpmarket.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    # Drawn by us from numbers, as the place of the contents is ours: no text of others is in them unescaped.
    charts = {name: Markup(chart) for name, chart in charts_of(summary).items()}  # nosec B704
    # Each kind of column has as many decimals as tell its numbers apart, a number as its interval asks for.
    groups = (*summary.bought_groups, *summary.other_groups)
    rows = () if summary.numbers is None else summary.numbers.rows
    forecast = summary.forecast
    parts: dict[str, list[int]] = {}
    for k, row in enumerate(summary.parameters):
        parts.setdefault(row.part, []).append(k)
    page = environment.from_string(source).render(
        report=data,
        charts=charts,
        n=lambda name, style="number": _data(data, name, style),
        guesses=[f"{guess:.0%}" for guess in GUESSES],
        parts=parts,
        decimals={
            "cost": _decimals_of(0.1 * (group.high - group.low) for group in groups),
            "epsilon": _decimals_of([0.01 * max(group.mean_epsilon for group in groups)]),
        },
        row_decimals=[
            "number" if row["low"] is None else _decimals_of([0.01 * (row["high"] - row["low"])])
            for row in rows
        ],
        in_currency=f", {summary.currency}" if summary.currency else "",
        contents=Markup(_CONTENTS),  # nosec B704
        forecast_words=forecast and forecast.sentence(forecast.predictions[0].sellers, summary.currency),
        version=__version__,
    )
    return page.replace(_CONTENTS, _contents(page), 1)


def shown(value: object, style: str, minor_units: int, currency: str = "") -> str:
    """Return a value as the page shows it.

    Styles are ``number``, ``percent``, ``share`` (whole percents), ``money`` (an amount with its currency),
    ``amount`` (without it, under a heading that names it), ``cost`` (money for a unit of epsilon), a number
    of decimals such as ``3``, and ``exact``.
    """
    if style == "exact" or not isinstance(value, int | float) or isinstance(value, bool):
        return "none" if value is None else value if isinstance(value, str) else repr(value)
    if style in ("percent", "share"):
        return _without_minus(f"{value:.{1 if style == 'percent' else 0}%}")
    if style in ("money", "amount"):
        text = f"{value:,.{_decimals(minor_units)}f}"
        return f"{text} {currency}".strip() if style == "money" else text
    if style == "cost":
        return f"{shown(float(value), 'number', minor_units)} {currency}".strip()
    if style.isdigit():
        return _without_minus(f"{value:,.{style}f}")
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _without_minus(text: str) -> str:
    """Return a number's text without the sign of a negative nothing."""
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def _decimals(minor_units: int) -> int:
    """Return how many decimals a unit of money has: 2 for 100 cents; at least 2 for other divisions."""
    exact = math.log10(minor_units)
    return round(exact) if 10 ** round(exact) == minor_units else max(2, math.ceil(exact))


def _decimals_of(steps: Iterable[float]) -> str:
    """Return how many decimals show the smallest of some steps, at most nine."""
    least = min((step for step in steps if step > 0.0), default=1.0)
    return str(min(max(math.ceil(-math.log10(least)), 0), 9))


def _contents(page: str) -> str:
    """Return the list of a page's headings, with links to them."""
    headings = re.findall(r'<h2 id="([a-z]+)">([^<]+)</h2>', page)
    entries = "\n".join(f'<li><a href="#{place}">{words}</a></li>' for place, words in headings)
    return f'<nav aria-label="Contents"><b>Contents</b>\n<ol>\n{entries}\n</ol></nav>'


def _data(data: dict[str, Any], name: str, style: str) -> Markup:
    value: Any = data
    for key in name.split("."):
        value = value[int(key) if key.isdigit() else key]
    text = shown(value, style, data["totals"]["minor_units"], data["currency"])
    exact = "" if value is None else value if isinstance(value, str) else repr(value)
    return Markup('<data data-name="{}" data-style="{}" value="{}">{}</data>').format(
        name, style, exact, text
    )
