"""Turn a summary into one self-contained HTML page.

Every number on the page is a ``<data>`` element whose ``value`` is the exact number and whose ``data-name``
says where it stands in ``summary.to_dict()``, so that a program, or a test, can hold the page against it.
"""

from __future__ import annotations

import math
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dpmarket.report.charts import charts_of
from dpmarket.report.promise import GUESSES
from dpmarket.report.summary import Summary
from dpmarket.version import __version__


def render_page(summary: Summary) -> str:
    """Return the page: no script, nothing fetched, light and dark, for screens, phones and print.

    Parameters
    ----------
    summary
        What :func:`~dpmarket.report.summary.summarise` gave.

    Returns
    -------
    str
        A whole HTML document.
    """
    data = summary.to_dict()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("dpmarket.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    # Drawn by us from numbers: no text of anybody is in them unescaped.
    charts = {name: Markup(chart) for name, chart in charts_of(summary).items()}  # nosec B704
    parts: dict[str, list[int]] = {}
    for k, row in enumerate(summary.parameters):
        parts.setdefault(row.part, []).append(k)
    return environment.from_string(source).render(
        report=data,
        charts=charts,
        n=lambda name, style="number": _data(data, name, style),
        guesses=[f"{guess:.0%}" for guess in GUESSES],
        parts=parts,
        version=__version__,
    )


def shown(value: object, style: str, minor_units: int) -> str:
    """Return a value as the page shows it.

    Styles are ``number``, ``percent``, ``share`` (whole percents), ``money`` and ``exact``.

    Examples
    --------
    >>> shown(0.12345, "percent", 100), shown(1234.5, "money", 100), shown(455, "number", 100)
    ('12.3%', '1,234.50', '455')
    """
    if style == "exact" or not isinstance(value, int | float) or isinstance(value, bool):
        return "none" if value is None else value if isinstance(value, str) else repr(value)
    if style == "percent":
        return f"{value:.1%}"
    if style == "share":
        return f"{value:.0%}"
    if style == "money":
        return f"{value:,.{_decimals(minor_units)}f}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _decimals(minor_units: int) -> int:
    """Return how many decimals a unit of money has: 2 for 100 cents; at least 2 for other divisions."""
    exact = math.log10(minor_units)
    return round(exact) if 10 ** round(exact) == minor_units else max(2, math.ceil(exact))


def _data(data: dict[str, Any], name: str, style: str) -> Markup:
    value: Any = data
    for key in name.split("."):
        value = value[int(key) if key.isdigit() else key]
    text = shown(value, style, data["totals"]["minor_units"])
    exact = "" if value is None else value if isinstance(value, str) else repr(value)
    return Markup('<data data-name="{}" data-style="{}" value="{}">{}</data>').format(
        name, style, exact, text
    )
