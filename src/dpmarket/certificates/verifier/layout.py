"""Layout of a certificate: plain data, checked part by part.

What has other parts than these, or a part of another type, is refused: True is no number here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .numbers_released import STATISTIC, StatisticRelease, statistic_release
from .verdicts import Broken

CERTIFICATE, RECEIPT, OPENINGS = "dpmarket.certificate/2", "dpmarket.receipt/2", "dpmarket.openings/2"
VALUES = ("promise", "payment", "spent", "weight")
BINARY = "binary model"
SHAPED = "shaped binary model"
SOFTMAX = "softmax model"
GAUSSIAN = "gaussian binary model"
GAUSSIAN_SOFTMAX = "gaussian softmax model"
GAUSSIAN_ENCODED = "gaussian encoded model"
_CONSTANTS = {
    "classes": list,
    "clip": bool,
    "fit_intercept": bool,
    "gradient_bound": float,
    "intercept_scaling": float,
    "l2": float,
    "noise_accuracy": float,
    "numerical_epsilon": float,
    "row_bound": float,
    "rows_per_person": int,
    "weight_total": float,
}
_GRID = {"coef_grid": list, "grid": float, "stretch": float}
_MONEY = {"currency": str, "minor_units": (int, type(None))}
_BODY: dict[str, Any] = {
    "commitment": (dict, type(None)),
    "market": dict,
    "mechanism": str,
    "menu": (dict, type(None)),
    "money": _MONEY,
    "not_promised": list,
    "release": dict,
    "root": str,
    "schema": str,
    "totals": {
        "bought_from": int,
        "sellers": int,
        "total_payment": float,
        "total_promise": float,
        "total_spent": float,
        "withdrawn": int,
    },
    "versions": dict,
}
_RELEASES: dict[str, dict[str, Any]] = {
    BINARY: {
        **_CONSTANTS,
        **_GRID,
        "delta": float,
        "features": {"high": list, "low": list, "name": list},
        "kind": str,
        "noise_rate": float,
    }
}
_RELEASES[SHAPED] = {
    **_RELEASES[BINARY],
    "encoder": (dict, type(None)),
    "euclidean_bound": float,
    "joint_columns": int,
}
_RELEASES[SOFTMAX] = _RELEASES[BINARY]  # whose coef_grid has a list for every class
_RELEASES[GAUSSIAN] = _RELEASES[GAUSSIAN_SOFTMAX] = _RELEASES[BINARY]  # whose delta is above 0
# Whose rows were encoded for a norm with so many joint columns; row_bound is Euclidean.
_RELEASES[GAUSSIAN_ENCODED] = {**_RELEASES[BINARY], "encoder": dict, "joint_columns": int}
_RELEASES[STATISTIC] = {
    "delta": float,
    "kind": str,
    "rows_per_person": int,
    "statistics": list,
    "weight_total": float,
}
_MENU = {"cost": list, "epsilon": list, "payment": list}
_COMMITMENT = {"committed_at": str, "digest": str, "quoted_at": str}
_LINE = {"id": (str, int), **dict.fromkeys(VALUES, float), "quotes": int, "withdrew": bool}
_RECEIPT = {
    "certificate": str,
    "line": _LINE,
    "money": _MONEY,
    "not_promised": list,
    "path": list,
    "position": int,
    "salt": str,
    "schema": str,
}
_OPENINGS = {"certificate": str, "salt": list, "schema": str, **dict.fromkeys(_LINE, list)}


@dataclass(frozen=True)
class Release:
    """What was released, and the public constants that its cost follows from."""

    kind: str
    delta: float
    features: Mapping[str, Any]
    classes: list[Any]
    coef_grid: list[Any]
    n_coefficients: int
    grid: float
    stretch: float
    fit_intercept: bool
    intercept_scaling: float
    l2: float
    noise_rate: float
    row_bound: float
    rows_per_person: int
    weight_total: float
    gradient_bound: float
    noise_accuracy: float
    numerical_epsilon: float
    euclidean_bound: float | None = None
    joint_columns: int | None = None
    encoder: Mapping[str, Any] | None = None

    @property
    def has_many_classes(self) -> bool:
        """Whether there is a row of coefficients for each of more than two classes."""
        return self.kind in (SOFTMAX, GAUSSIAN_SOFTMAX)

    @property
    def is_gaussian(self) -> bool:
        """Whether noise is Gaussian, and promises have a delta."""
        return self.kind in (GAUSSIAN, GAUSSIAN_ENCODED, GAUSSIAN_SOFTMAX)

    @property
    def longest(self) -> float:
        """R2: the bound on the Euclidean length of rows with their constant."""
        return self.row_bound if self.euclidean_bound is None else self.euclidean_bound

    @property
    def joint(self) -> int:
        """How many coefficients have radial noise together: all, if the noise has no other shape."""
        return len(self.coef_grid) if self.joint_columns is None else self.joint_columns


@dataclass(frozen=True)
class Totals:
    """How many sellers there are, and the sums of their lines."""

    sellers: int
    bought_from: int
    withdrawn: int
    promise: float
    payment: float
    spent: float


@dataclass(frozen=True)
class Body:
    """The public part of a certificate."""

    mechanism: str
    market: Mapping[str, Any]
    release: Release | StatisticRelease
    totals: Totals
    minor_units: int | None
    currency: str
    menu: Mapping[str, Any] | None
    commitment: Mapping[str, Any] | None
    root: str
    not_promised: list[Any]


@dataclass(frozen=True)
class Lines:
    """What is certified about each seller, column by column."""

    ids: list[Any]
    promises: list[float]
    payments: list[float]
    spent: list[float]
    weights: list[float]
    withdrew: list[bool]
    quotes: list[int]
    salts: list[str]


def body_of(found: Mapping[str, Any]) -> Body:
    """Return the parts of a certificate's first line.

    Raises
    ------
    Broken
        If they are not those that are known here.
    """
    _refuse_other_schema(found, CERTIFICATE, "the certificate")
    refuse_other_parts(found, _BODY, "the certificate")
    kind = found["release"].get("kind")
    if not isinstance(kind, str) or kind not in _RELEASES:
        raise Broken("the certificate is about a kind of release that this program does not know")
    refuse_other_parts(found["release"], _RELEASES[kind], "'release' in the certificate")
    for name, shape in (("menu", _MENU), ("commitment", _COMMITMENT)):
        if found[name] is not None:
            refuse_other_parts(found[name], shape, f"{name!r} in the certificate")
    told = found["totals"]
    names = ("sellers", "bought_from", "withdrawn", "total_promise", "total_payment", "total_spent")
    if kind == STATISTIC:
        release: Release | StatisticRelease = statistic_release(found["release"])
    else:
        release = _model(found["release"])
    return Body(
        mechanism=found["mechanism"],
        market=found["market"],
        release=release,
        totals=Totals(*(told[name] for name in names)),
        minor_units=found["money"]["minor_units"],
        currency=found["money"]["currency"],
        menu=found["menu"],
        commitment=found["commitment"],
        root=found["root"],
        not_promised=found["not_promised"],
    )


def receipt_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a receipt's parts."""
    _refuse_other_schema(found, RECEIPT, "the receipt")
    refuse_other_parts(found, _RECEIPT, "the receipt")
    return found


def lines_of(found: Mapping[str, Any]) -> Lines:
    """Return the lines of openings, and the digest that they name is left to the caller."""
    _refuse_other_schema(found, OPENINGS, "the openings")
    refuse_other_parts(found, _OPENINGS, "the openings")
    count = len(found["id"])
    for name, kind in {**_LINE, "salt": str}.items():
        types = kind if isinstance(kind, tuple) else (kind,)
        if len(found[name]) != count or not set(map(type, found[name])) <= set(types):
            raise Broken(f"{name!r} in the openings is not one value of its type for every line")
    names = ("id", *VALUES, "withdrew", "quotes", "salt")
    return Lines(*(found[name] for name in names))


def refuse_other_parts(found: Any, shape: Mapping[str, Any], what: str) -> None:
    """Refuse what does not have exactly these parts, each of exactly its type."""
    if not isinstance(found, dict) or found.keys() != shape.keys():
        raise Broken(f"{what} does not have the parts that this program knows")
    for name, kind in shape.items():
        if isinstance(kind, dict):
            refuse_other_parts(found[name], kind, f"{name!r} in {what}")
        elif type(found[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise Broken(f"{name!r} in {what} is not of the type that it must have")


def _refuse_other_schema(found: Mapping[str, Any], schema: str, what: str) -> None:
    if found.get("schema") != schema:
        raise Broken(f"{what} is not of the schema {schema}, the only one that this program reads")


def _model(found: Mapping[str, Any]) -> Release:
    """Return a released model, of two classes or of more."""
    constants = {name: value for name, value in found.items() if name != "clip"}
    cells = constants["coef_grid"]
    if found["kind"] in (SOFTMAX, GAUSSIAN_SOFTMAX):
        if not cells or type(cells[0]) is not list:
            raise Broken("'coef_grid' in 'release' in the certificate is not of the type that it must have")
        cells = cells[0]
    constants["n_coefficients"] = len(cells)
    return Release(**constants)
