"""Turn a purchase and a released model into the public part of a certificate, as plain data."""

from __future__ import annotations

import math
import platform
from array import array
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np
import scipy

from dpmarket.certificates.commitments import Lines
from dpmarket.certificates.purchase import Purchase, ReleasedModel
from dpmarket.certificates.rules import RulesReference
from dpmarket.certificates.statistic import ReleasedStatistics, statistic_part
from dpmarket.certificates.verifier.constants import LARGEST_NUMBER, ranges_of
from dpmarket.certificates.verifier.statements import NOT_PROMISED
from dpmarket.errors import NotCertifiable
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.version import __version__

SCHEMA = "dpmarket.certificate/2"
BINARY_MODEL = "binary model"
SHAPED_MODEL = "shaped binary model"
SOFTMAX_MODEL = "softmax model"
GAUSSIAN_MODEL = "gaussian binary model"
GAUSSIAN_SOFTMAX_MODEL = "gaussian softmax model"
GAUSSIAN_ENCODED_MODEL = "gaussian encoded model"
_MENU_POINTS = 200


def body_of(
    purchase: Purchase,
    model: ReleasedModel | ReleasedStatistics,
    lines: Lines,
    root: bytes,
    rules: RulesReference | None,
) -> dict[str, Any]:
    """Return the body: everything public, with the root of all commitments.

    Raises
    ------
    NotCertifiable
        If a public constant is not within the verifier's table of what makes sense.
    """
    totals = _totals(lines)
    if isinstance(model, ReleasedStatistics):
        release = statistic_part(model, totals["total_promise"], float(lines.values.max()))
    else:
        release = _release(model, float(purchase.weights.sum()))
        _refuse_unusual(release, lines)
    return {
        "schema": SCHEMA,
        "mechanism": purchase.mechanism,
        "market": dict(purchase.parameters),
        "menu": _menu(purchase.parameters),
        "release": release,
        "money": {"currency": purchase.currency, "minor_units": purchase.minor_units},
        "totals": totals,
        "commitment": None if rules is None else rules.to_dict(),
        "root": root.hex(),
        "versions": {
            "dpmarket": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "scipy": scipy.__version__,
        },
        "not_promised": list(NOT_PROMISED),
    }


def _release(model: ReleasedModel, weight_total: float) -> dict[str, Any]:
    names, lows, highs = zip(*model.features, strict=True)
    shaped = model.euclidean_bound is not None or model.encoder is not None
    more: dict[str, Any] = {}
    if shaped:
        whole = model.joint_columns is None
        more = {
            "euclidean_bound": model.row_bound if model.euclidean_bound is None else model.euclidean_bound,
            "joint_columns": len(model.coef_grid) if whole else model.joint_columns,
            "encoder": None if model.encoder is None else dict(model.encoder),
        }
    if shaped and model.delta > 0.0:
        del more["euclidean_bound"]  # row_bound is
    return more | {
        "kind": _kind(model, shaped=shaped),
        "delta": model.delta,
        "features": {"name": list(names), "low": list(map(float, lows)), "high": list(map(float, highs))},
        "classes": list(model.classes),
        "coef_grid": [list(cell) if isinstance(cell, tuple) else cell for cell in model.coef_grid],
        "grid": model.grid,
        "stretch": model.stretch,
        "fit_intercept": model.fit_intercept,
        "intercept_scaling": model.intercept_scaling,
        "clip": model.clip,
        "l2": model.l2,
        "noise_rate": model.noise_rate,
        "row_bound": model.row_bound,
        "rows_per_person": model.rows_per_person,
        "weight_total": weight_total * (1.0 + 1e-9),
        "gradient_bound": model.gradient_bound,
        "noise_accuracy": model.noise_accuracy,
        "numerical_epsilon": model.numerical_epsilon,
    }


def _kind(model: ReleasedModel, *, shaped: bool) -> str:
    if model.delta > 0.0:
        if shaped:
            if model.has_many_classes or model.encoder is None:
                raise NotCertifiable("expected an encoder and two classes for rows with a shape and a delta.")
            return GAUSSIAN_ENCODED_MODEL
        return GAUSSIAN_SOFTMAX_MODEL if model.has_many_classes else GAUSSIAN_MODEL
    if not model.has_many_classes:
        return SHAPED_MODEL if shaped else BINARY_MODEL
    if shaped:
        raise NotCertifiable("expected Euclidean noise and plain features with more than two classes.")
    return SOFTMAX_MODEL


def _refuse_unusual(release: Mapping[str, Any], lines: Lines) -> None:
    cells = release["coef_grid"]
    many = release["kind"] in (SOFTMAX_MODEL, GAUSSIAN_SOFTMAX_MODEL)
    values = {**release, "n_coefficients": len(cells[0]) if many else len(cells)}
    ranges = ranges_of(str(release["kind"]))
    wrong = [name for name, (low, high) in ranges.items() if not low <= values[name] <= high]
    if wrong:
        raise NotCertifiable(
            f"expected public constants that a verifier accepts, got {', '.join(wrong)} out of range."
        )
    if not float(lines.values.max()) <= LARGEST_NUMBER:
        raise NotCertifiable(f"expected promises and payments up to {LARGEST_NUMBER:.0e}, got larger ones.")


def _menu(rules: Mapping[str, Any]) -> dict[str, list[float]] | None:
    """Return the public menu of a schedule, by rising epsilon from nothing; None where there is none.

    With quadratic costs there is none: payments follow from the square of epsilon.
    """
    if "schedule" not in rules or rules["epsilon_cost"]["shape"] != "linear":
        return None
    schedule = PriceSchedule.from_dict(rules["schedule"])
    columns = (column[::-1].tolist() for column in schedule.menu(_MENU_POINTS))
    nothing = (schedule.reserve_price, 0.0, 0.0)
    names = ("cost", "epsilon", "payment")
    return {name: [first, *column] for name, first, column in zip(names, nothing, columns, strict=True)}


def _totals(lines: Lines) -> dict[str, Any]:
    """Return how many sellers there are and what they have in all, sums rounded up to three digits.

    Nobody needs the sums exactly, and whoever knows all other lines could take them off an exact one.
    """
    assert lines.withdrew is not None
    kept = lines.values[~lines.withdrew]
    sums = (_rounded_up(np.ascontiguousarray(kept[:, k])) for k in range(3))
    return {
        "sellers": len(lines),
        "bought_from": int(np.count_nonzero(kept[:, 0])),
        "withdrawn": int(lines.withdrew.sum()),
        **dict(zip(("total_promise", "total_payment", "total_spent"), sums, strict=True)),
    }


def _rounded_up(values: Any) -> float:
    # Summing an array's own numbers spares a million objects; what the sum's rounding lost is a float again.
    numbers = array("d", values.tobytes())
    total = math.fsum(numbers)
    numbers.append(-total)
    exact = Context(prec=2_000).add(Decimal(total), Decimal(math.fsum(numbers)))
    return float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(exact))
