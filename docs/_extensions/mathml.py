"""Render mathematics as MathML when the documentation is built: pages need no script and no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def _mathml(node: nodes.Element, display: str) -> str:
    latex = node.astext().strip()
    if display == "block" and (r"\\" in latex or "&" in latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    try:
        # Primes as operators: as letters, browsers make them too small.
        return convert(latex, display=display).replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")
    except Exception as error:
        raise ExtensionError(f"cannot render the formula {latex!r}: {error}") from error


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(f'<span class="math">{_mathml(node, "inline")}</span>')
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, wide ones with a scroll bar of their own."""
    number = ""
    if node.get("number"):
        number = f'<span class="eqno">({get_node_equation_number(self, node)})</span>'
    names = "".join(f'<span id="{name}"></span>' for name in node.get("ids", ()))
    self.body.append(f'<div class="math">{names}{number}{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
