r"""Constants of a norm release, derived anew from its loss, its noise norm and its rows.

A sigmoid loss with derivative ``scale (sigmoid(slope z + shift) - target)`` has, with targets in [low, high],
far = max(high, 1 - low) and kappa = scale * slope, the reach ``scale * far`` and one log-determinant term
(1, kappa far (1 - far), 0, kappa far^2). The softmax of K classes has the reach 2 and the terms
(1, 0, 0, K/(K-1)) and (K - 2, 0, 1/(K-1), 0). A person with r rows has r times each term with c / r and, for
more rows than coefficients, also the trace spread over all directions.

What is stated may differ from what is derived by the rounding of floats only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .layout import is_whole
from .rounding import sqrt_down, sqrt_up

CELLS = 2**16
_COUNTS = ("coefficients", "joint", "outputs", "rank")
_LEAST, _MOST = 1 - Fraction(1, 2**48), 1 + Fraction(1, 2**40)
_Term = tuple[Fraction, Fraction, Fraction, Fraction]


def norm_problems(terms: Mapping[str, Any]) -> list[str]:
    """Return the names of parts that are out of range, or do not follow from the loss and the norm."""
    norm, rows = terms["norm"], terms["rows_per_person"]
    tests = {
        "schema": terms["schema"] == "dpmarket.release/1",
        "l2": 1e-15 <= terms["l2"] <= 1e9,
        "rows_per_person": is_whole(rows, 1, 10**6),
        "private": terms["private"] in ("records", "labels"),
        "constant": norm["constant"] is None or _is_constant(norm["constant"]),
        "euclidean_bound": 1e-6 <= norm["euclidean_bound"] <= 1.0,
        "separate": 1 <= len(norm["separate"]) <= 10**6,
    }
    wrong = [name for name, good in tests.items() if not good]
    loss = loss_constants(terms["loss"])
    if loss is None or (terms["private"] == "labels" and loss["span"] is None):
        wrong.append("loss")
    if wrong or loss is None:
        return wrong
    stated = terms["constants"]
    derived = {**_shared(loss, terms), **_norm_constants(norm)}
    bounds = _bounds(loss, terms, int(derived["coefficients"]))
    wrong = [name for name, value in derived.items() if not _close(stated[name], value)]
    wrong += [name for name in _COUNTS if stated[name] != derived[name]]
    same = len(bounds) == len(stated["bounds"]) and all(
        len(own) == len(other)
        and all(len(a) == 4 and all(map(_close, a, b)) for a, b in zip(other, own, strict=True))
        for own, other in zip(bounds, stated["bounds"], strict=True)
    )
    return wrong if same else [*wrong, "bounds"]


def loss_constants(loss: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a loss's privacy follows from; None for a loss that is not known here, or out of range."""
    if loss["kind"] == "softmax" and "classes" in loss:
        k = loss["classes"]
        if not is_whole(k, 2, 10**4):
            return None
        others = Fraction(k) - 1
        terms: list[_Term] = [(Fraction(1), Fraction(0), Fraction(0), Fraction(k) / others)]
        if others > 1:
            terms.append((others - 1, Fraction(0), 1 / others, Fraction(0)))
        return {"outputs": k, "rank": others, "reach": 2, "span": 2, "terms": terms, "curvature_1": 1,
                "third": 2 - Fraction(2) / Fraction(k), "relative_third": 2}  # fmt: skip
    if loss["kind"] != "sigmoid" or "scale" not in loss:
        return None
    pairs = [loss[name] for name in ("shift", "target", "labels")]
    if any(len(pair) != 2 for pair in pairs) or not all(1e-6 <= loss[x] <= 1e6 for x in ("scale", "slope")):
        return None
    scale, slope = Fraction(loss["scale"]), Fraction(loss["slope"])
    (shift, moved), (target, by), (low, high) = ([Fraction(x) for x in pair] for pair in pairs)
    targets = sorted((target + by * low, target + by * high))
    shifts = max(abs(shift + moved * low), abs(shift + moved * high))
    if not (-(2**20) <= low <= high <= 2**20 and 0 <= targets[0] <= targets[1] <= 1 and shifts <= 2 * 10**9):
        return None
    far, kappa = max(targets[1], 1 - targets[0]), scale * slope
    return {
        "outputs": 1,
        "rank": 1,
        "reach": scale * far,
        "span": scale * (targets[1] - targets[0]) if moved == 0 else None,
        "terms": [(Fraction(1), kappa * far * (1 - far), Fraction(0), kappa * far * far)],
        "curvature_1": kappa / 4,
        "third": scale * slope * slope / (6 * sqrt_down(Fraction(3))),
        "relative_third": slope,
    }


def _shared(loss: Mapping[str, Any], terms: Mapping[str, Any]) -> dict[str, Any]:
    names = ("outputs", "rank", "curvature_1", "third", "relative_third")
    reach = loss["reach"] if terms["private"] == "records" else Fraction(loss["span"]) / 2
    return {"reach": reach, **{name: loss[name] for name in names}}


def _norm_constants(norm: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes that the norm gives rows with their constant."""
    separate, c = norm["separate"], Fraction(norm["constant"] or 0)
    n = len(separate) + (norm["constant"] is not None)
    if not any(separate):
        bound = sqrt_up(1 + c * c) if c else Fraction(1)
        root = sqrt_up(Fraction(n))
        return {"coefficients": n, "joint": n, "row_bound": bound, "row_bound_2": bound,
                "largest_sum": root * bound, "ones": root}  # fmt: skip
    joint, bound = len(separate) - sum(separate), 1 + c
    long = min(sqrt_up(Fraction(norm["euclidean_bound"]) ** 2 + c * c), bound)
    sums = min(sqrt_up(Fraction(n)) * long, sqrt_up(Fraction(max(joint, 1))) * bound)
    return {"coefficients": n, "joint": joint, "row_bound": bound, "row_bound_2": long, "largest_sum": sums,
            "ones": (sqrt_up(Fraction(joint)) if joint else 0) + n - joint}  # fmt: skip


def _bounds(loss: Mapping[str, Any], terms: Mapping[str, Any], n: int) -> list[list[_Term]]:
    if terms["private"] == "labels":
        return [[]]
    rows = Fraction(terms["rows_per_person"])
    found: list[list[_Term]] = [[(m * rows, p / rows, q / rows, v / rows) for m, p, q, v in loss["terms"]]]
    if rows > n:
        size = Fraction(n * loss["rank"])
        p, q, v = (sum(term[0] * term[k] for term in loss["terms"]) / size for k in (1, 2, 3))
        found.append([(size, p, q, v)])
    return found


def _close(stated: float, derived: Any) -> bool:
    if not math.isfinite(stated):
        return False
    if derived == 0:  # differences of floats may leave a rounding error
        return 0.0 <= stated <= 1e-12
    return Fraction(derived) * _LEAST <= Fraction(stated) <= Fraction(derived) * _MOST


def _is_constant(value: float) -> bool:
    return 2.0**-20 <= value <= 2.0**20 and math.frexp(value)[0] == 0.5
