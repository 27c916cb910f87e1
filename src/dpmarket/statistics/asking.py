"""Turn a question in plain data, as a file or a campaign holds it, into a statistic and its release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from numpy.typing import ArrayLike

from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.histogram import PrivateHistogram
from dpmarket.statistics.mean import PrivateMean, PrivateShare
from dpmarket.statistics.quantile import PrivateQuantile
from dpmarket.statistics.several import Statistic
from dpmarket.statistics.vector import PrivateVectorMean

KINDS: dict[str, type[Any]] = {
    each.kind: each
    for each in (PrivateMean, PrivateShare, PrivateHistogram, PrivateQuantile, PrivateVectorMean)
}


def statistic_from_dict(question: Mapping[str, Any]) -> Statistic:
    """Return the statistic whose ``to_dict()`` gave this data.

    Parameters
    ----------
    question
        Its ``kind`` and its public settings by name.

    Returns
    -------
    Statistic
        Not yet released.

    Raises
    ------
    InvalidInput
        If the kind or a setting is unknown, or a setting missing or not what it should be.

    Examples
    --------
    >>> statistic_from_dict({"kind": "mean", "low": 0, "high": 120}).high
    120.0
    """
    settings = dict(question) if isinstance(question, Mapping) else {}
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"expected a statistic's kind, one of {', '.join(KINDS)}.")
    known = {field.name for field in fields(KINDS[kind])} - {"noise_source"}
    unknown = sorted(str(name) for name in set(settings) - known)
    if unknown:
        raise InvalidInput(f"expected settings of a {kind}, got {', '.join(unknown)}.")
    try:
        statistic: Statistic = KINDS[kind](**settings)
    except TypeError:
        raise InvalidInput(f"expected all settings of a {kind}: one is missing or of a wrong type.") from None
    return statistic


def release_statistic(
    question: Mapping[str, Any],
    records: ArrayLike,
    epsilons: ArrayLike | Mapping[Any, float],
    people: ArrayLike | None = None,
    noise_source: NoiseSource | None = None,
) -> Statistic:
    """Ask a question of records and promises; return the statistic with its release and what it spent.

    Parameters
    ----------
    question
        A statistic's public settings, as its ``to_dict()`` tells them.
    records, epsilons, people
        As in the statistic's ``fit``.
    noise_source
        None means :class:`~dpmarket.privacy.SecureNoise`.

    Returns
    -------
    Statistic
        ``release_`` may be published; ``epsilons_`` is what was spent on each person.

    Raises
    ------
    InvalidInput, EntropyUnavailable
        As :func:`statistic_from_dict` and the statistic's ``fit``.

    Examples
    --------
    >>> question = {"kind": "share", "confidence": 0.9}
    >>> asked = release_statistic(question, [True, False, True], epsilons=[1.0, 0.5, 2.0])
    >>> asked.epsilons_.tolist(), asked.release_.certifiable
    ([1.0, 0.5, 2.0], True)
    """
    statistic: Any = statistic_from_dict(question)
    statistic.noise_source = noise_source
    fitted: Statistic = statistic.fit(records, epsilons=epsilons, people=people)
    return fitted
