"""Turn the OpenAPI document into a page of the documentation."""

from __future__ import annotations

from typing import Any

from dpmarket.web.app import make_routes
from dpmarket.web.problems import STATUS, TITLES

_METHODS = ("get", "post")
_INTRODUCTION = """\
# The API of the service

Made from the service itself (`python -m dpmarket.web.reference > docs/reference/api.md`). A running service
shows the same with all fields at `/api/v1/docs`, and as an OpenAPI document at `/api/v1/openapi.json`.
[](../tutorials/first-service.md) goes through a campaign, [](settings.md) has the settings.

Requests and answers are JSON in UTF-8, strictly: no doubled key, no unknown key, no NaN. Money is in whole
minor units, times are in UTC. Every call below `/api/v1` needs the header `Authorization: Bearer TOKEN`. What
is somebody else's is 404, as is what is not there. Every POST that changes something takes the header
`Idempotency-Key`, at least 16 random characters: the same request with the same key is done once, and
answered again for 30 days. *Key* says where it is required.
"""


def reference() -> str:
    """Return the page as Markdown."""
    document = make_routes().state.document
    return "\n".join([_INTRODUCTION, *_routes(document), *_refusals(), *_python()])


def _routes(document: dict[str, Any]) -> list[str]:
    lines = []
    tags: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                row = _row(method, path, item[method], document["components"]["schemas"])
                tags.setdefault(item[method]["tags"][0], []).append(row)
    for tag, rows in tags.items():
        head = ["| call | key | what it does | refusals |", "|---|---|---|---|"]
        lines += [f"## {tag.capitalize()}", "", *head, *rows, ""]
    return lines


def _row(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    keys = [one for one in operation.get("parameters", []) if one["name"] == "Idempotency-Key"]
    key = ("required" if keys[0]["required"] else "optional") if keys else ""
    said = " ".join(operation["description"].split())
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    fields = _fields(body, schemas)
    told = f"{said} Body: {fields}." if fields else said
    statuses = ", ".join(status for status in sorted(operation["responses"]) if "400" <= status < "500")
    return f"| `{method.upper()} {path}` | {key} | {told} | {statuses} |"


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "$ref" not in schema:
        return ""
    found = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    needed = found.get("required", [])
    names = [f"`{name}`" if name in needed else f"`{name}` (optional)" for name in found["properties"]]
    return ", ".join(names)


def _refusals() -> list[str]:
    kinds = {status: [kind for kind, code in STATUS.items() if code == status] for status in TITLES}
    rows = [
        f"| {status} | {title} | {', '.join(f'`{kind}`' for kind in kinds[status])} |"
        for status, title in TITLES.items()
    ]
    return [
        "## Refusals",
        "",
        "A refusal is `application/problem+json`: `title` for people, `status`, and `problems`, a list of",
        "`where` and `kind`; never a value of the request, nor the name of a key that nobody asked for.",
        "After a refusal everything is as before. 429 and 503 say in `Retry-After` when to come again.",
        "",
        "| status | meaning | kinds of the desk |",
        "|---|---|---|",
        *rows,
        "",
    ]


def _python() -> list[str]:
    return [
        "## In Python",
        "",
        "```{eval-rst}",
        ".. automodule:: dpmarket.web.client",
        "   :members: Client, Refused",
        "",
        ".. automodule:: dpmarket.web.app",
        "   :members: make_app",
        "",
        ".. automodule:: dpmarket.web.settings",
        "   :members: Settings, read_settings",
        "   :exclude-members: model_config, settings_customise_sources",
        "",
        ".. automodule:: dpmarket.web.running",
        "   :members: opened, serving, working",
        "",
        ".. automodule:: dpmarket.web.setup",
        "   :members: NewMember, init_service, invite_member, new_member",
        "",
        ".. automodule:: dpmarket.web.checkup",
        "   :members: check_service",
        "",
        ".. automodule:: dpmarket.web.backups",
        "   :members: back_up_service, restore_service",
        "",
        ".. automodule:: dpmarket.web.demo",
        "   :members: ServiceDemo, run_service_demo",
        "```",
        "",
    ]


if __name__ == "__main__":
    print(reference(), end="")
