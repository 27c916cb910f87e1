"""Turn rows of names and texts into what people see of a value: one short line, or a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Rows = Sequence[tuple[str, str]]


def short_repr(value: object, rows: Iterable[tuple[str, str]]) -> str:
    """Return one line: the type's name and the given rows, never an array.

    >>> short_repr(3, [("sellers", "1,000"), ("total payment", "20")])
    'int(sellers: 1,000, total payment: 20)'
    """
    return f"{type(value).__name__}({', '.join(f'{name}: {text}' for name, text in rows)})"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table of names and texts, without styles, for a notebook; every text is escaped."""
    from markupsafe import escape

    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"


def html_grid(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return an HTML table with a column for each name, for a notebook; every text is escaped."""
    from markupsafe import escape

    names = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = ("".join(f"<td>{escape(_shown(row[name]))}</td>" for name in names) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
