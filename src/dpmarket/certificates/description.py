"""Descriptions as certificates state them: the market's public tables, the release, the announced rules.

All are plain data. Every market has groups with tables of virtual costs, an objective, the table of epsilon
costs, and prices: a list of schedules (one per group) for every part of the sellers, none where all reports
decided together. A release has its family of noise and the constants that its cost follows from.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpmarket.certificates.canonical import canonical

if TYPE_CHECKING:
    from dpmarket.statistics import ReleasedStatistic

RULES = "dpmarket.rules/3"
Asked = tuple[Sequence[str], float, "ReleasedStatistic"]
"""One of several statistics: its columns, its share of every epsilon, and what was released."""


def describe_market(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the market's description from all that decided: ``rules()`` of a mechanism, or a campaign's.

    They are ``mechanism``; ``groups`` or one ``virtual_cost``; ``objective``; ``epsilon_cost``; ``delta``;
    ``budget``; ``coverage`` of quotas (left out: hard); ``schedules`` (one per group) or ``prices`` (of each
    part ``payment_weight`` and ``schedules``); of cross-priced markets ``salt`` and, where it is bound to the
    sellers, ``sellers`` and ``nonce``.
    """
    groups = rules.get("groups") or [{"name": "all", "share": 1.0, "virtual_cost": rules.get("virtual_cost")}]
    prices = rules.get("prices", ())
    if "schedules" in rules:
        prices = ({"payment_weight": None, "schedules": list(rules["schedules"])},)
    split = None
    if rules.get("salt") is not None:
        split = {"parts": len(prices)} | {name: rules.get(name) for name in ("salt", "sellers", "nonce")}
    return {
        "mechanism": rules["mechanism"],
        "groups": list(groups),
        **({"coverage": rules["coverage"]} if "coverage" in rules else {}),
        "objective": rules.get("objective"),
        "epsilon_cost": rules["epsilon_cost"],
        "delta": rules.get("delta", 0.0),
        "budget": rules.get("budget"),
        "prices": list(prices),
        "split": split,
    }


def describe_model(
    description: Mapping[str, Any], features: Sequence[str], classes: Sequence[Any] | None, factor: float,
    encoder: Mapping[str, Any] | None,
) -> dict[str, Any]:  # fmt: skip
    """Return a model's release from an estimator's ``description_``.

    It has ``cells`` on a grid or, with a delta, ``coefficients``. ``classes`` are the labels, of two the
    negative class first, None for a regression; released numbers are multiplied by ``factor`` (the shrinkage
    correction); ``encoder`` is what was declared about encoded columns, None if none were.
    """
    bounds = {"low": [-1.0] * len(features), "high": [1.0] * len(features)}  # which every row obeys
    model = {
        "features": {"name": list(features), **bounds},
        "classes": None if classes is None else list(classes),
        "factor": factor,
        "encoder": None if encoder is None else dict(encoder),
    }
    found = {key: value for key, value in description.items() if key != "release"}
    # Verifiers derive what follows from the loss, the norm and the rows.
    terms = {key: value for key, value in description["release"].items() if key != "constants"}
    family = "descent" if "coefficients" in found else "norm"
    if family == "norm":
        found["cells"] = [[str(cell) for cell in row] for row in found["cells"]]
    return {"family": family, "terms": terms, "model": model, **found}


def describe_statistics(statistics: Mapping[str, Asked], rows_per_person: int) -> dict[str, Any]:
    """Return the release of statistics that were released together, with one bound on a person's records."""
    releases = [release for _, _, release in statistics.values()]
    spent = (release.total_weight * Fraction(2) ** release.unit_exponent for release in releases)
    exact = sum(spent, Fraction(0))
    total = float(exact)
    if Fraction(total) < exact:
        total = math.nextafter(total, math.inf)
    return {
        "family": "statistics",
        "rows_per_person": rows_per_person,
        "weight_total": total,
        "statistics": {name: _stated(*one) for name, one in statistics.items()},
    }


def _stated(columns: Sequence[str], share: float, release: ReleasedStatistic) -> dict[str, Any]:
    from dpmarket.statistics.sample import RESOLUTION  # imports scikit-learn, which verifiers do without

    few = len(release.labels) == 2 and release.kind == "histogram"
    moved = 1 if few or release.kind in ("mean", "share") else 2  # weights that replaced records move
    return {
        "columns": list(columns),
        "question": dict(release.question),
        "share": share,
        "numerators": [str(number) for number in release.numerators],
        "total_weight": str(release.total_weight),
        "unit_exponent": release.unit_exponent,
        "noise_scale": math.ldexp(moved * RESOLUTION, -release.unit_exponent),
    }


def announce_rules(
    market: Mapping[str, Any], release: Mapping[str, Any], money: Mapping[str, Any], **more: Any
) -> str:
    """Return the text of rules to be agreed to: what a certificate will have to state, as far as it is fixed.

    Verifiers compare every part that is announced here with the certificate's: what follows from reports (a
    planned payment weight, prices of parts, the salt) is left out by the caller. What depends on how many
    sellers there are is ``{"by_sellers": [[0, one], [50, another]]}``: here from 50 sellers on. ``more`` is
    what else the rules say, such as ``committed_at``.
    """
    announced = {"market": dict(market), "release": dict(release), "money": dict(money)}
    return canonical({**more, "schema": RULES, "announced": announced}).decode()


def rules_digest(text: str) -> str:
    """Return the digest that sellers agree to: the SHA-256 of the rules' text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
