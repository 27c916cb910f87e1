"""Turn the OpenAPI document into a page that people can read: no script, and nothing from other hosts."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

_METHODS = ("get", "post", "put", "patch", "delete")


def handbook(document: dict[str, Any]) -> str:
    """Return the page."""
    schemas = document["components"]["schemas"]
    parts = [_head(document)]
    for path, item in document["paths"].items():
        parts += [_operation(path, method, item[method]) for method in _METHODS if method in item]
    parts.append(Markup("<h2>Requests and answers</h2>"))
    parts += [_schema(name, schemas[name]) for name in sorted(schemas)]
    parts.append(Markup("</main></html>"))
    return str(Markup("\n").join(parts))


def _head(document: dict[str, Any]) -> Markup:
    about = document["info"]
    return Markup(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><main><h1>{title}</h1><p>{text}</p>'
        '<p><a href="/api/v1/openapi.json">The same for programs (OpenAPI)</a></p>'
    ).format(title=about["title"], text=about.get("description", ""))


def _operation(path: str, method: str, operation: dict[str, Any]) -> Markup:
    told = Markup("<h2><code>{} {}</code></h2><p>{}</p>").format(
        method.upper(), path, operation.get("description", operation.get("summary", ""))
    )
    headers = [one for one in operation.get("parameters", []) if one["in"] != "path"]
    for one in headers:
        needed = "required" if one.get("required") else "optional"
        told += Markup("<p>{} <code>{}</code>, {}</p>").format(one["in"], one["name"], needed)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        told += Markup("<p>Body: {}</p>").format(_link(body))
    rows = []
    for status, answer in operation["responses"].items():
        contents: list[dict[str, Any]] = [*answer.get("content", {}).values(), {}]
        content = contents[0].get("schema", {})
        rows.append(Markup("<li>{}: {} {}</li>").format(status, answer["description"], _link(content)))
    return told + Markup("<ul>") + Markup("").join(rows) + Markup("</ul>")


def _schema(name: str, schema: dict[str, Any]) -> Markup:
    told = Markup('<h3 id="{0}"><code>{0}</code></h3><p>{1}</p><ul>').format(
        name, schema.get("description", "")
    )
    needed = schema.get("required", [])
    for key, value in schema.get("properties", {}).items():
        told += Markup("<li><code>{}</code>{} {} {}</li>").format(
            key, "" if key in needed else " (optional)", _link(value), value.get("description", "")
        )
    return told + Markup("</ul>")


def _link(schema: dict[str, Any]) -> Markup:
    """Return what a value is, with a link if it has a name."""
    reference = schema.get("$ref")
    if reference:
        return Markup('<a href="#{0}"><code>{0}</code></a>').format(str(reference).rsplit("/", 1)[-1])
    if "anyOf" in schema:
        return Markup(" or ").join(_link(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return Markup("list of {}").format(_link(schema.get("items", {})))
    if "enum" in schema:
        return Markup(" or ").join(Markup("<code>{}</code>").format(one) for one in schema["enum"])
    return escape(schema.get("type", ""))
