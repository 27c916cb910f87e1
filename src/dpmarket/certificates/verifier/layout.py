"""Layout of certificates, receipts and openings: plain data, checked part by part.

A shape is a type's name, a list with the shape of its elements, an object with the shapes of its parts, or a
tuple of shapes that are accepted. An object with other parts than these is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .verdicts import Broken

CERTIFICATE, RECEIPT, OPENINGS = "dpmarket.certificate/3", "dpmarket.receipt/3", "dpmarket.openings/3"
VALUES = ("epsilon", "payment", "used", "weight")
_TYPES = {"number": float, "text": str, "truth": bool, "object": dict}
_NUMBERS = ["number"]
_SCHEDULE = {"amounts": _NUMBERS, "costs": _NUMBERS, "epsilons": _NUMBERS}
_MARKET = {
    "budget": ("number", None),
    "delta": "number",
    "epsilon_cost": (
        {"shape": "text", "shares": None},
        {"costs": _NUMBERS, "epsilons": _NUMBERS, "shape": "text", "shares": _NUMBERS},
    ),
    "groups": [
        {"name": "text", "share": "number", "virtual_cost": ({"knots": _NUMBERS, "values": _NUMBERS}, None)}
    ],
    "mechanism": "text",
    "objective": ("object", None),
    "prices": [{"payment_weight": ("number", None), "schedules": [_SCHEDULE]}],
    "split": (
        {"histograms": ("text", None), "nonce": ("text", None), "parts": "number",
         "reports": ("text", None), "salt": "text"},
        None,
    ),
}  # fmt: skip
_LOSS = (
    {"kind": "text", "labels": _NUMBERS, "scale": "number", "shift": _NUMBERS, "slope": "number",
     "target": _NUMBERS},
    {"classes": "number", "kind": "text"},
)  # fmt: skip
_MODEL = {
    "classes": ([("text", "number", "truth")], None),
    "encoder": ("object", None),
    "factor": "number",
    "features": {"high": _NUMBERS, "low": _NUMBERS, "name": ["text"]},
}
_CONSTANTS = (
    "coefficients", "curvature_1", "joint", "largest_sum", "ones", "outputs", "rank", "reach",
    "relative_third", "row_bound", "row_bound_2", "third",
)  # fmt: skip
RELEASES: dict[str, Any] = {
    "norm": {
        "cells": [["text"]],
        "family": "text",
        "model": _MODEL,
        "terms": {
            "constants": {**dict.fromkeys(_CONSTANTS, "number"), "bounds": [[_NUMBERS]]},
            "l2": "number",
            "loss": _LOSS,
            "norm": {"constant": ("number", None), "euclidean_bound": "number", "separate": ["truth"]},
            "private": "text",
            "rows_per_person": "number",
            "schema": "text",
        },
        **dict.fromkeys(
            ("grid", "gradient_bound", "noise_accuracy", "noise_rate", "numerical_epsilon", "weight_total"),
            "number",
        ),
    },
    "descent": {
        "coefficients": [_NUMBERS],
        "family": "text",
        "loss": _LOSS,
        "model": _MODEL,
        "terms": {"cells": "number", "delta": "number", "noise_scale": "number", "schema": "text",
                  "steps": "number"},
        "weight_total": "number",
    },
    "statistics": {
        "family": "text",
        "rows_per_person": "number",
        "statistics": "object",
        "weight_total": "number",
    },
}  # fmt: skip
STATISTIC = {
    "columns": ["text"],
    "noise_scale": "number",
    "numerators": ["text"],
    "question": "object",
    "share": "number",
    "total_weight": "text",
    "unit_exponent": "number",
}
_BODY = {
    "limits": ["text"],
    "market": _MARKET,
    "money": {"currency": "text", "minor_units": "number"},
    "release": "object",
    "root": "text",
    "rules": ({"quoted_at": ("text", None), "text": "text"}, None),
    "schema": "text",
    "totals": dict.fromkeys(
        ("bought_from", "sellers", "total_epsilon", "total_payment", "total_used", "withdrawn"), "number"
    ),
    "versions": "object",
}
_LINE = {
    **dict.fromkeys(VALUES, "number"),
    "group": "number",
    "id": "text",
    "part": "number",
    "rules": ("text", None),
    "withdrew": "truth",
}
_RECEIPT = {
    "certificate": "text",
    "index": "number",
    "line": _LINE,
    "path": ["text"],
    "salt": "text",
    "schema": "text",
}
_SECRETS = {
    "histograms": ([[{"cells": _NUMBERS, "counts": _NUMBERS}]], None),
    "nonce": ("text", None),
    "salt": ("text", None),
}
_OPENINGS = {
    **{name: [shape] for name, shape in _LINE.items()},
    "certificate": "text",
    "salt": ["text"],
    "schema": "text",
    "secrets": _SECRETS,
}


def refuse_other_body(found: Mapping[str, Any]) -> None:
    """Refuse what is no certificate's body."""
    _refuse_other_schema(found, CERTIFICATE, "the certificate")
    refuse_other_parts(found, _BODY, "the certificate")
    family = found["release"].get("family")
    if not isinstance(family, str) or family not in RELEASES:
        raise Broken("the certificate is about a family of releases that this program does not know")
    refuse_other_parts(found["release"], RELEASES[family], "the certificate's release")


def refuse_other_receipt(found: Mapping[str, Any]) -> None:
    """Refuse what is no receipt."""
    _refuse_other_schema(found, RECEIPT, "the receipt")
    refuse_other_parts(found, _RECEIPT, "the receipt")


def lines_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of openings, each with its salt."""
    _refuse_other_schema(found, OPENINGS, "the openings")
    refuse_other_parts(found, _OPENINGS, "the openings")
    names = [*_LINE, "salt"]
    if not found["id"] or len({len(found[name]) for name in names}) > 1:
        raise Broken("the openings do not have one value of every kind for every line")
    return [dict(zip(names, row, strict=True)) for row in zip(*(found[name] for name in names), strict=True)]


def refuse_other_parts(found: Any, shape: Any, what: str) -> None:
    """Refuse what does not have this shape, and name the part."""
    if isinstance(shape, tuple):
        objects = [one for one in shape if isinstance(one, dict)]
        if len(objects) == 1 and isinstance(found, dict):
            refuse_other_parts(found, objects[0], what)
        elif not any(_fits(found, one) for one in shape):
            raise Broken(f"{what} is not of the type that it must have")
    elif isinstance(shape, dict):
        if not isinstance(found, dict) or found.keys() != shape.keys():
            raise Broken(f"{what} does not have the parts that this program knows")
        for name, inner in shape.items():
            refuse_other_parts(found[name], inner, f"{name!r} in {what}")
    elif not _fits(found, shape):
        raise Broken(f"{what} is not of the type that it must have")


def _fits(found: Any, shape: Any) -> bool:
    if shape is None or isinstance(shape, str):
        return found is None if shape is None else type(found) is _TYPES[shape]
    if isinstance(shape, tuple):
        return any(_fits(found, one) for one in shape)
    if isinstance(shape, list):
        return type(found) is list and all(_fits(one, shape[0]) for one in found)
    return (
        type(found) is dict
        and found.keys() == shape.keys()
        and all(_fits(found[name], inner) for name, inner in shape.items())
    )


def _refuse_other_schema(found: Mapping[str, Any], schema: str, what: str) -> None:
    if found.get("schema") != schema:
        raise Broken(f"{what} is not of the schema {schema}, the only one that this program reads")


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether a number is whole and within bounds."""
    return type(value) is float and least <= value <= most and value.is_integer()


def is_whole_text(text: Any, digits: int = 100) -> bool:
    """Whether this is a whole number as a text, in its one way to be written."""
    body = text.removeprefix("-") if type(text) is str and len(text) <= digits else ""
    return body.isascii() and body.isdigit() and str(int(text)) == text
