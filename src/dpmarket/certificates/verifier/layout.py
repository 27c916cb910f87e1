"""Turn plain data into a certificate's parts, of version 1 or 2, or refuse them.

What has other parts than these, or a part of another type, is refused: True is no number here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .numbers_released import STATISTIC, StatisticRelease, statistic_release
from .verdicts import Broken

CERTIFICATE, RECEIPT, OPENINGS = "dpmarket.certificate/", "dpmarket.receipt/", "dpmarket.openings/"
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
_COUNTS = {"bought_from": int, "sellers": int, "withdrawn": int}
_COMMON = {
    "market": dict,
    "mechanism": str,
    "not_promised": list,
    "root": str,
    "schema": str,
    "versions": dict,
}
_MONEY_1 = {"minor_units": (int, type(None))}
_MONEY_2 = {**_MONEY_1, "currency": str}
_BODY_1: dict[str, Any] = {
    **_COMMON,
    "money": _MONEY_1,
    "model": _GRID,
    "totals": {**_COUNTS, "paid": float, "promised": float, "spent": float},
    "training": {**_CONSTANTS, "n_coefficients": int, "total_epsilon": float},
}
_BODY_2: dict[str, Any] = {
    **_COMMON,
    "money": _MONEY_2,
    "commitment": (dict, type(None)),
    "menu": (dict, type(None)),
    "release": dict,
    "totals": {**_COUNTS, "total_payment": float, "total_promise": float, "total_spent": float},
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
_LINE_1 = {"id": (str, int), "promise": float, "payment": float, "spent": float, "weight": float}
_LINE_2 = {**_LINE_1, "quotes": int, "withdrew": bool}
_RECEIPT_1 = {"certificate": str, "path": list, "position": int, "salt": str, "schema": str}
_RECEIPT_2 = {**_RECEIPT_1, "money": _MONEY_2, "not_promised": list}
_OPENINGS_1 = {"certificate": str, "schema": str, **dict.fromkeys(("id", "salt", *VALUES), list)}
_OPENINGS_2 = {**_OPENINGS_1, "quotes": list, "withdrew": list}


@dataclass(frozen=True)
class Release:
    """What was released, and the public constants that its cost follows from."""

    kind: str
    delta: float
    features: Mapping[str, Any] | None
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
    """The public part of a certificate, whatever its version."""

    version: int
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
        If they are not those of a version that is known here.
    """
    version = _version(found, CERTIFICATE, "the certificate")
    if version == 1:
        refuse_other_parts(found, _BODY_1, "the certificate")
        return _body_1(found)
    refuse_other_parts(found, _BODY_2, "the certificate")
    return _body_2(found)


def receipt_of(found: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """Return a receipt's parts; a line of version 1 is one quote, of somebody who did not withdraw."""
    if _version(found, RECEIPT, "the receipt") != version:
        raise Broken("the receipt is of another version than the certificate")
    shape = {**_RECEIPT_1, "line": _LINE_1} if version == 1 else {**_RECEIPT_2, "line": _LINE_2}
    refuse_other_parts(found, shape, "the receipt")
    return {**found, "line": {"withdrew": False, "quotes": 1, **found["line"]}}


def lines_of(found: Mapping[str, Any], version: int) -> Lines:
    """Return the lines of openings, and the digest that they name is left to the caller."""
    if _version(found, OPENINGS, "the openings") != version:
        raise Broken("the openings are of another version than the certificate")
    refuse_other_parts(found, _OPENINGS_1 if version == 1 else _OPENINGS_2, "the openings")
    count = len(found["id"])
    kinds = _LINE_1 if version == 1 else _LINE_2
    for name, kind in {**kinds, "salt": str}.items():
        types = kind if isinstance(kind, tuple) else (kind,)
        if len(found[name]) != count or not set(map(type, found[name])) <= set(types):
            raise Broken(f"{name!r} in the openings is not one value of its type for every line")
    withdrew, quotes = [False] * count, [1] * count
    if version == 2:
        withdrew, quotes = found["withdrew"], found["quotes"]
    promises, payments, spent, weights = (found[name] for name in VALUES)
    return Lines(found["id"], promises, payments, spent, weights, withdrew, quotes, found["salt"])


def refuse_other_parts(found: Any, shape: Mapping[str, Any], what: str) -> None:
    """Refuse what does not have exactly these parts, each of exactly its type."""
    if not isinstance(found, dict) or found.keys() != shape.keys():
        raise Broken(f"{what} does not have the parts that this program knows")
    for name, kind in shape.items():
        if isinstance(kind, dict):
            refuse_other_parts(found[name], kind, f"{name!r} in {what}")
        elif type(found[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise Broken(f"{name!r} in {what} is not of the type that it must have")


def _version(found: Mapping[str, Any], schema: str, what: str) -> int:
    for version in (1, 2):
        if found.get("schema") == f"{schema}{version}":
            return version
    raise Broken(f"{what} is of a kind that this program does not know")


def _body_1(found: Mapping[str, Any]) -> Body:
    constants = dict(found["training"])
    constants["noise_rate"] = constants.pop("total_epsilon")
    constants.pop("clip")
    told = found["totals"]
    totals = Totals(
        *(told[name] for name in ("sellers", "bought_from", "withdrawn", "promised", "paid", "spent"))
    )
    return Body(
        version=1,
        release=Release(kind=BINARY, delta=0.0, features=None, **found["model"], **constants),
        totals=totals,
        menu=None,
        commitment=None,
        **_shared(found),
    )


def _body_2(found: Mapping[str, Any]) -> Body:
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
        version=2,
        release=release,
        totals=Totals(*(told[name] for name in names)),
        menu=found["menu"],
        commitment=found["commitment"],
        **_shared(found),
    )


def _shared(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mechanism": found["mechanism"],
        "market": found["market"],
        "minor_units": found["money"]["minor_units"],
        "currency": found["money"].get("currency", ""),
        "root": found["root"],
        "not_promised": found["not_promised"],
    }


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
