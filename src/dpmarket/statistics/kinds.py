"""Statistics from plain data, as a file or a campaign holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpmarket.errors import InvalidInput
from dpmarket.statistics.histogram import PrivateHistogram
from dpmarket.statistics.mean import PrivateMean
from dpmarket.statistics.quantile import PrivateQuantile
from dpmarket.statistics.share import PrivateShare
from dpmarket.statistics.statistic import Statistic
from dpmarket.statistics.vector import PrivateVectorMean

KINDS: dict[str, type[Statistic]] = {
    each.kind: each
    for each in (PrivateMean, PrivateShare, PrivateHistogram, PrivateQuantile, PrivateVectorMean)
}


def statistic_from_dict(question: Mapping[str, Any]) -> Statistic:
    """Return the statistic whose ``to_dict()`` gave this data.

    Parameters
    ----------
    question
        Its ``kind`` and its public settings by name. Other settings are refused.

    Returns
    -------
    Statistic
        Not yet released.

    Examples
    --------
    >>> statistic_from_dict({"kind": "mean", "low": 0, "high": 120}).high
    120.0
    """
    settings = dict(question) if isinstance(question, Mapping) else {}
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"expected a statistic's kind, one of {', '.join(KINDS)}.")
    known = {each.name for each in fields(KINDS[kind])} - {"noise_source"}
    if unknown := sorted(str(name) for name in set(settings) - known):
        raise InvalidInput(f"expected settings of a {kind}, got {', '.join(unknown)}.")
    try:
        return KINDS[kind](**settings)
    except TypeError:
        raise InvalidInput(f"expected all settings of a {kind}: one is missing or of a wrong type.") from None
