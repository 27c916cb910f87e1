"""Statistics from plain data, as a file or a campaign holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpmarket.errors import InvalidInput
from dpmarket.statistics.histogram import PrivateHistogram
from dpmarket.statistics.mean import PrivateMean, PrivateShare
from dpmarket.statistics.quantile import PrivateQuantile
from dpmarket.statistics.statistic import Statistic
from dpmarket.statistics.vector import PrivateVectorMean

KINDS = (PrivateMean, PrivateShare, PrivateHistogram, PrivateQuantile, PrivateVectorMean)


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
    made = next((each for each in KINDS if each.kind == kind), None)
    if made is None:
        raise InvalidInput(f"expected a statistic's kind: {', '.join(each.kind for each in KINDS)}.")
    unknown = set(settings) - {each.name for each in fields(made)} | ({"noise_source"} & set(settings))
    if unknown:
        raise InvalidInput(f"expected settings of a {kind}, got {', '.join(sorted(map(str, unknown)))}.")
    try:
        return made(**settings)
    except TypeError:
        raise InvalidInput(f"expected all settings of a {kind}: one is missing or of a wrong type.") from None
