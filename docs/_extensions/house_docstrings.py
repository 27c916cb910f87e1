"""Read docstrings in the house's style: ``name : what it means``, and sentences for what is returned.

The numpy style would take what stands behind the colon for a type. Runs before ``sphinx.ext.napoleon``.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_NAMED = ("Parameters", "Attributes", "Raises")
_ENTRY = re.compile(r"([\w.*]+(?:, [\w.*]+)*) : (.+)")


def rewrite(lines: list[str], returned: str) -> list[str]:
    """Return a docstring's lines with meanings below their names, and sentences below the type returned."""
    found: list[str] = []
    section = ""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line and re.fullmatch("-{3,}", following):
            section = line
        if not line and section == "Returns":
            section = ""
        entry = _ENTRY.fullmatch(line)
        if entry and section in _NAMED:
            found += [entry[1], f"    {entry[2]}"]
        elif (
            section == "Returns"
            and found[-1:] == ["-------"]
            and " " in line
            and not following.startswith(" ")
        ):
            found += [returned, f"    {line}"]
            section = "Returns, sentences"
        elif section == "Returns, sentences":
            found.append(f"    {line}" if line else "")
            section = section if line else ""
        else:
            found.append(line)
    return found


def _process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    annotations = getattr(obj, "__annotations__", {})
    lines[:] = rewrite(lines, str(annotations.get("return", "object")))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect before napoleon does."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
