"""Layout of certificates, receipts and openings: plain data, checked part by part.

The notation below names every object's parts and their types: ``[x]`` is a list of x, ``x?`` may be null, and
``x|y`` is either. An object with other parts than these is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .verdicts import Broken

VALUES = ("epsilon", "payment", "used", "weight")
_TYPES = {"number": float, "text": str, "truth": bool, "object": dict, "null": type(None)}
_NOTATION = """
certificate: limits [text], market market, money money, release object, root text, rules rules?, schema text,
  totals totals, versions object
market: budget number?, delta number, epsilon_cost identity|table, groups [group], mechanism text,
  objective object?, prices [part], split split?
identity: shape text, shares null
table: costs [number], epsilons [number], shape text, shares [number]
group: name text, share number, virtual_cost psi?
psi: knots [number], values [number]
part: payment_weight number?, schedules [schedule]
schedule: amounts [number], costs [number], epsilons [number]
split: histograms text?, nonce text?, parts number, reports text?, salt text
money: currency text, minor_units number
rules: quoted_at text?, text text
totals: bought_from number, sellers number, total_epsilon number, total_payment number, total_used number,
  withdrawn number
norm: cells [[text]], family text, grid number, gradient_bound number, model model, noise_accuracy number,
  noise_rate number, numerical_epsilon number, terms terms, weight_total number
terms: constants constants, l2 number, loss sigmoid|softmax, norm noise, private text, rows_per_person number,
  schema text
constants: bounds [[[number]]], coefficients number, curvature_1 number, joint number, largest_sum number,
  ones number, outputs number, rank number, reach number, relative_third number, row_bound number,
  row_bound_2 number, third number
sigmoid: kind text, labels [number], scale number, shift [number], slope number, target [number]
softmax: classes number, kind text
noise: constant number?, euclidean_bound number, separate [truth]
model: classes [text|number|truth]?, encoder object?, factor number, features features
features: high [number], low [number], name [text]
descent: coefficients [[number]], family text, loss sigmoid|softmax, model model, terms steps,
  weight_total number
steps: cells number, delta number, noise_scale number, schema text, steps number
statistics: family text, rows_per_person number, statistics object, weight_total number
statistic: columns [text], noise_scale number, numerators [text], question object, share number,
  total_weight text, unit_exponent number
receipt: certificate text, index number, line line, path [text], salt text, schema text
line: epsilon number, group number, id text, part number, payment number, rules text?, used number,
  weight number, withdrew truth
openings: certificate text, epsilon [number], group [number], id [text], part [number], payment [number],
  rules [text?], salt [text], schema text, secrets secrets, used [number], weight [number], withdrew [truth]
secrets: histograms [[cells]]?, nonce text?, salt text?
cells: cells [number], counts [number]
"""
_SHAPES = {
    name: dict(part.split() for part in parts.split(","))
    for name, _, parts in (line.partition(":") for line in _NOTATION.replace("\n  ", " ").strip().split("\n"))
}


def refuse_other(found: Mapping[str, Any], kind: str) -> None:
    """Refuse what is no certificate's body, no receipt or no openings, as named."""
    schema = f"dpmarket.{kind}/3"
    if found.get("schema") != schema:
        raise Broken(f"the {kind} is not of the schema {schema}, the only one that this program reads")
    refuse_other_parts(found, kind, f"the {kind}")
    if kind == "certificate":
        family = found["release"].get("family")
        if family not in ("norm", "descent", "statistics"):
            raise Broken("the certificate is about a family of releases that this program does not know")
        refuse_other_parts(found["release"], family, "the certificate's release")


def lines_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of openings, each with its salt."""
    refuse_other(found, "openings")
    names = [*_SHAPES["line"], "salt"]
    if not found["id"] or len({len(found[name]) for name in names}) > 1:
        raise Broken("the openings do not have one value of every kind for every line")
    return [dict(zip(names, row, strict=True)) for row in zip(*(found[name] for name in names), strict=True)]


def refuse_other_parts(found: Any, kind: str, what: str) -> None:
    """Refuse what is not of this type, and name the innermost part that is not."""
    if _fits(found, kind):
        return
    if isinstance(found, dict) and kind.rstrip("?") in _SHAPES:
        for name, inner in _SHAPES[kind.rstrip("?")].items():
            if name in found:
                refuse_other_parts(found[name], inner, f"{name!r} in {what}")
    raise Broken(f"{what} does not have the parts, of the types, that this program knows")


def _fits(found: Any, kind: str) -> bool:
    if kind.endswith("?"):
        return found is None or _fits(found, kind[:-1])
    if kind.startswith("["):
        return type(found) is list and all(_fits(one, kind[1:-1]) for one in found)
    if "|" in kind:
        return any(_fits(found, one) for one in kind.split("|"))
    if kind in _TYPES:
        return type(found) is _TYPES[kind]
    shape = _SHAPES[kind]
    return (
        type(found) is dict
        and found.keys() == shape.keys()
        and all(_fits(found[name], inner) for name, inner in shape.items())
    )


def is_whole(value: Any, least: int, most: int) -> bool:
    """Whether a number is whole and within bounds."""
    return type(value) is float and least <= value <= most and value.is_integer()


def is_whole_text(text: Any, digits: int = 100) -> bool:
    """Whether this is a whole number as a text, in its one way to be written."""
    body = text.removeprefix("-") if type(text) is str and len(text) <= digits else ""
    return body.isascii() and body.isdigit() and str(int(text)) == text
