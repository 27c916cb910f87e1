"""Turn the settings into a page of the documentation."""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dpmarket.web.settings import Settings

_INTRODUCTION = """\
# Settings of the service

Made from the settings themselves (`python -m dpmarket.web.settings_page > docs/reference/settings.md`).

A setting stands in `settings.toml` of the service's folder, or in the environment, which goes over the file.
A password belongs into the environment of the process, not into a file that is copied. Paths in the file are
seen from the folder. An unknown name, or a value that is not as expected, is refused when the service starts,
by name and without the value.
"""
_OTHERS = """\
## In the environment only

| name | meaning |
|---|---|
| `DPMARKET_STATE` | The state folder, with the log of spending; left out: `state` in the service's folder. |
| `NUMBA_CACHE_DIR` | Where compiled loops are kept, if the package's own folder cannot be written. |
"""
_TYPES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
}
_TYPES |= {SecretStr: "text, a secret"}
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def settings_page() -> str:
    """Return the page as Markdown."""
    words = words_of(Settings.__doc__ or "")
    rows = [
        f"| `{name}` | `DPMARKET_{name.upper()}` | {_expected(field)} | {_default(field)} | {words[name]} |"
        for name, field in Settings.model_fields.items()
    ]
    head = ["| setting | in the environment | expected | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([_INTRODUCTION, *head, *rows, "", _OTHERS])


def words_of(text: str) -> dict[str, str]:
    """Return what a numpy docstring says about each attribute, as Markdown."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.split("----------\n", 1)[1].splitlines():
        if line.startswith("        "):
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        elif line.strip():
            names = [name.strip() for name in line.split(",")]
    return {name: said.replace("``", "`").replace("None:", "left out:") for name, said in found.items()}


def _default(field: FieldInfo) -> str:
    if field.default is None:
        return "left out"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _expected(field: FieldInfo) -> str:
    limits = [
        f"{word} {getattr(limit, name):g}"
        for limit in field.metadata
        for name, word in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return ", ".join([_type(field.annotation), *limits])


def _type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return _TYPES[kind]


if __name__ == "__main__":
    print(settings_page(), end="")
