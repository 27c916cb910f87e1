"""Descriptions as certificates state them: the market's public tables, the release, the announced rules.

Everything is plain data for canonical JSON. A market is described by the same parts whatever its mechanism:
groups with tables of virtual costs, an objective, the table of epsilon costs, and prices, one list of
schedules (one per group) for every part of the sellers; no prices where all reports decided together. A
release is described by its family of noise and the constants that its cost follows from.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpmarket.certificates.canonical import canonical
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    from dpmarket.statistics import ReleasedStatistic

RULES = "dpmarket.rules/3"


def describe_market(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the market's description from all that decided, as plain data.

    Parameters
    ----------
    rules
        ``rules()`` of a mechanism, or a campaign's: ``mechanism``; ``groups`` or one ``virtual_cost``;
        ``objective``; ``epsilon_cost``; ``delta``; ``budget``; ``coverage`` of quotas (left out: hard);
        ``schedules`` (one per group) or ``prices`` (of each part ``payment_weight`` and ``schedules``); of
        cross-priced markets ``salt`` and, where it is bound to the sellers, ``sellers`` and ``nonce``.

    Returns
    -------
    dict
        The ``market`` of a certificate.
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
    description: Mapping[str, Any],
    *,
    features: Sequence[tuple[str, float, float]],
    classes: Sequence[Any] | None,
    factor: float = 1.0,
    encoder: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a model's release from an estimator's ``description_``.

    Parameters
    ----------
    description
        What the estimator published: with ``cells`` on a grid or, with a delta, with ``coefficients``.
    features, encoder
        Name and public bounds of each feature, in the order of the coefficients; and what was declared about
        encoded columns, None if none were.
    classes
        The labels, of two the negative class first; None for a regression.
    factor
        By which the released numbers are multiplied (the shrinkage correction).

    Returns
    -------
    dict
        The ``release`` of a certificate.
    """
    names, lows, highs = zip(*features, strict=True)
    model = {
        "features": {"name": list(names), "low": list(map(float, lows)), "high": list(map(float, highs))},
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


@dataclass(frozen=True)
class CertifiedStatistic:
    """One statistic of a release.

    Attributes
    ----------
    columns, share, release
        What it was asked of, its part of every epsilon, at most 1, and what was released.
    """

    columns: tuple[str, ...]
    share: float
    release: ReleasedStatistic


def describe_statistics(statistics: Mapping[str, CertifiedStatistic], rows_per_person: int) -> dict[str, Any]:
    """Return the release of statistics that were released together.

    Parameters
    ----------
    statistics, rows_per_person
        Each by its name, and the bound on the records of one person, the same for all.

    Returns
    -------
    dict
        The ``release`` of a certificate.
    """
    releases = [one.release for one in statistics.values()]
    spent = (release.total_weight * Fraction(2) ** release.unit_exponent for release in releases)
    exact = sum(spent, Fraction(0))
    total = float(exact)
    if Fraction(total) < exact:
        total = math.nextafter(total, math.inf)
    return {
        "family": "statistics",
        "rows_per_person": rows_per_person,
        "weight_total": total,
        "statistics": {name: _stated(one) for name, one in statistics.items()},
    }


def _stated(one: CertifiedStatistic) -> dict[str, Any]:
    from dpmarket.statistics.sample import RESOLUTION  # imports scikit-learn, which verifiers do without

    release = one.release
    few = len(release.labels) == 2 and release.kind == "histogram"
    moved = 1 if few or release.kind in ("mean", "share") else 2  # weights that replaced records move
    return {
        "columns": list(one.columns),
        "question": dict(release.question),
        "share": one.share,
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
    sellers there are is ``{"by_sellers": [[0, one], [50, another]]}``: here from 50 sellers on.

    Parameters
    ----------
    market, release, money
        The fixed parts of a certificate's ``market``, ``release`` and ``money``.
    **more
        What else the rules say, such as ``committed_at`` or the campaign's rules file.

    Returns
    -------
    str
        Canonical JSON. Its SHA-256 is the digest that sellers agree to.

    Examples
    --------
    >>> text = announce_rules({"mechanism": "online"}, {}, {"currency": "EUR", "minor_units": 100})
    >>> text.startswith('{"announced":{"market":{"mechanism":"online"},"money":'), len(rules_digest(text))
    (True, 64)
    """
    if more.keys() & {"announced", "schema"}:
        raise InvalidInput("expected no further part of the name 'announced' or 'schema' in rules.")
    announced = {"market": dict(market), "release": dict(release), "money": dict(money)}
    return canonical({"schema": RULES, "announced": announced, **more}).decode()


def rules_digest(text: str) -> str:
    """Return the digest of rules: the SHA-256 of their text in UTF-8.

    Parameters
    ----------
    text
        The text that sellers agree to.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    return hashlib.sha256(text.encode()).hexdigest()
