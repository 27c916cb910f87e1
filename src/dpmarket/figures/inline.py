"""Turn a figure into SVG that is part of a page: it follows the page's colours and says what it shows.

Colours become the page's variables ``--series-0``, ``--series-1``, ... (in the order of ``COLOURS``) and
``currentColor`` for text and axes, so that one drawing serves light, dark and print. Nothing is fetched: text
stays text, in the page's own font.
"""

from __future__ import annotations

import html
import io
import re

import matplotlib
from matplotlib.figure import Figure

from dpmarket.errors import InvalidInput
from dpmarket.figures.canvas import COLOURS, LOOK

_INK = ("#000000", "#262626")
_GRID = "#b0b0b0"


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
    >>> from dpmarket.figures import new_figure
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
        r"font: ([\d.]+)px [^;\"]+",
        r"font-size: \1px",
        re.sub(r"font-family: [^;\"]+;?", "", content),
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
