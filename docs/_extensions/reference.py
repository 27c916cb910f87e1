"""Reference tables made from the package when the documentation is built.

A line ``% table: NAME`` of a page is replaced by what the function ``NAME`` of this module returns, as
Markdown: the commands by typer's own generator, the settings, the rules file and the HTTP API from their
models.
"""

import json
import re
from typing import Any

from typer.cli import get_docs_for_click
from typer.main import get_command

from dpmarket.campaign.rules.keys import expected_of, table_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.cli.app import app as command_line
from dpmarket.web.app import make_routes
from dpmarket.web.problems import STATUS, TITLES
from dpmarket.web.settings import Settings

IDEMPOTENCY = "Idempotency-Key"
# Examples; what is code already; quoted text and options, which are not yet.
HELP = r"^Example: (.*)$|(`[^`\n]+`|^\$ .*$)|(?<!\w)'([^'\n]+)'(?!\w)|(?<![\w-])(--[a-z][a-z-]*)"
LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}


def commands() -> str:
    """Every command with its options: examples as console blocks, quoted text as code."""
    group = get_command(command_line)
    text = get_docs_for_click(obj=group, ctx=group.context_class(group), name="dpmarket").split("\n", 1)[1]
    return re.sub(HELP, _as_code, text, flags=re.MULTILINE)


def settings() -> str:
    """Every setting of the service."""
    schemas = Settings.model_json_schema()["properties"]
    rows = [
        (
            f"`{name}`",
            f"`DPMARKET_{name.upper()}`",
            _type(schemas[name]),
            _default(field.default),
            field.description,
        )
        for name, field in Settings.model_fields.items()
    ]
    return _table(("setting", "in the environment", "expected", "default", "meaning"), rows)


def rules_file() -> str:
    """Every table and key of the rules file."""
    parts = []
    for name, field in Rules.model_fields.items():
        model, is_named = table_of(field.annotation)
        is_listed = isinstance(field.default, list)  # [[NAME]]
        prefix = "NAME." if is_named and not is_listed else ""  # tables with names of the buyer's own
        rows = [
            (
                f"`{prefix}{key}`",
                expected_of(model, key),
                "required" if entry.is_required() else _default(entry.default),
                entry.description,
            )
            for key, entry in model.model_fields.items()
        ]
        about = field.description if is_named else model.__doc__
        heading = f"[[{name}]]" if is_listed else f"[{name}]"
        table = _table(("key", "expected", "default", "meaning"), rows)
        parts.append(f"## `{heading}`\n\n{about}\n\n{table}")
    return "\n".join(parts)


def api() -> str:
    """Every call of the HTTP API, with the fields of its body."""
    document = make_routes().state.document
    rows = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rsplit("/", 1)[-1]
            body = document["components"]["schemas"].get(name, {}).get("properties", {})
            keys = [one["required"] for one in operation.get("parameters", ()) if one["name"] == IDEMPOTENCY]
            key = "" if not keys else "required" if keys[0] else "optional"
            fields = ", ".join(f"`{field}`" for field in body)
            rows.append((f"`{method.upper()} {path}`", key, fields, operation["description"]))
    return _table(("call", "key", "body", "what it does"), rows)


def refusals() -> str:
    """Every status of a refusal."""
    kinds = {status: [f"`{kind}`" for kind, code in STATUS.items() if code == status] for status in TITLES}
    rows = [(status, title, ", ".join(kinds[status])) for status, title in TITLES.items()]
    return _table(("status", "meaning", "`kind`"), rows)


def _as_code(found: re.Match[str]) -> str:
    example, code, quoted, option = found.groups()
    return f"```console\n$ {example}\n```" if example else code or f"`{quoted or option}`"


def _type(schema: dict[str, Any]) -> str:
    schema = schema.get("anyOf", [schema])[0]
    limits = [f"{words} {schema[name]:g}" for name, words in LIMITS.items() if name in schema]
    return " or ".join(f"`{value}`" for value in schema.get("enum", ())) or ", ".join(
        [schema["type"], *limits]
    )


def _default(value: object) -> str:
    return "left out" if value is None else f"`{json.dumps(value, default=str)}`"


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(' '.join(str(cell).split()) for cell in line)} |\n" for line in lines)


def filled(page: str) -> str:
    """Return a page with its tables."""
    return re.sub(r"^% table: (\w+)$", lambda found: globals()[found[1]](), page, flags=re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    """Fill every page before Sphinx reads it."""

    def fill(app: Any, name: str, source: list[str]) -> None:
        source[0] = filled(source[0])

    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
