"""Turn a market's rules into a file to publish before anybody reports, and certificates refer to it.

That nobody gains by lying rests on prices that no report could move. Who publishes the rules, or their digest
and time where others keep it, before the first report comes in, can be held to them afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dpmarket.errors import FileProblem, NotCertifiable
from dpmarket.files import parse_json, read_bytes

SCHEMA = "dpmarket.commitment/1"
_LARGEST = 8 << 20


@dataclass(frozen=True)
class RulesReference:
    """What a certificate says about the rules that were published before the quotes.

    Attributes
    ----------
    digest
        SHA-256 of the published file, as ``sha256sum`` tells it.
    committed_at, quoted_at
        When the file was made, and when the quotes were given: ISO 8601, with the distance from UTC.
    """

    digest: str
    committed_at: str
    quoted_at: str

    def to_dict(self) -> dict[str, str]:
        """Return plain data."""
        return {"digest": self.digest, "committed_at": self.committed_at, "quoted_at": self.quoted_at}


@dataclass(frozen=True)
class PublishedRules:
    """A file of rules, as it was published.

    Attributes
    ----------
    data
        The file's bytes.
    committed_at
        When it was made.
    distribution
        The distribution of costs, as plain data.
    market
        The market's rules as plain data.
    mechanisms
        The public parameters that mechanisms would use, by their names, as far as the rules alone fix them.
    """

    data: bytes
    committed_at: str
    distribution: Mapping[str, Any]
    market: Mapping[str, Any]
    mechanisms: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the file, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    def reference(self, quoted_at: str) -> RulesReference:
        """Return what a certificate says of these rules, for quotes that were given at that time.

        Raises
        ------
        NotCertifiable
            If the quotes came first.
        """
        if not datetime.fromisoformat(self.committed_at) <= datetime.fromisoformat(quoted_at):
            raise NotCertifiable(
                f"expected rules published before the quotes of {quoted_at}, got some of {self.committed_at}."
            )
        return RulesReference(self.digest, self.committed_at, quoted_at)


def publishable_rules(
    distribution: Mapping[str, Any],
    market: Mapping[str, Any],
    mechanisms: Mapping[str, Any],
    at: datetime,
) -> PublishedRules:
    """Return the rules as a file to publish.

    Parameters
    ----------
    distribution, market, mechanisms
        As in :class:`PublishedRules`.
    at
        Now, with the distance from UTC.

    Returns
    -------
    PublishedRules
        What to publish before anybody reports.
    """
    content = {
        "schema": SCHEMA,
        "committed_at": at.isoformat(timespec="seconds"),
        "distribution": dict(distribution),
        "market": dict(market),
        "mechanisms": dict(mechanisms),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _rules(text.encode() + b"\n")


def read_rules(source: str | os.PathLike[str]) -> PublishedRules:
    """Read a file of rules that ``dpmarket commit`` wrote.

    Parameters
    ----------
    source
        The file.

    Returns
    -------
    PublishedRules
        As they were published.

    Raises
    ------
    FileProblem
        If there is no such file, or it holds no rules.
    """
    data = read_bytes(source, _LARGEST)
    try:
        return _rules(data)
    except (KeyError, TypeError, ValueError):
        raise FileProblem(f"expected rules in {source}, as 'dpmarket commit' writes them.") from None


def _rules(data: bytes) -> PublishedRules:
    found = parse_json(data)
    if found["schema"] != SCHEMA:
        raise ValueError
    when = str(found["committed_at"])
    if datetime.fromisoformat(when).tzinfo is None:
        raise ValueError
    return PublishedRules(
        data, when, *(dict(found[name]) for name in ("distribution", "market", "mechanisms"))
    )
