"""Consent: texts that never change, and the page that a seller agrees to by its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Text, act
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.transaction import Campaign, Tx, market_row, nothing, require, value
from dpmarket.errors import FileProblem

_text = schema.text_version.c


@dataclass(frozen=True)
class ConsentPage:
    """What a seller is shown before taking part."""

    version: int | None
    language: str
    text: str
    rules_digest: str  # of the announced rules, which the certificate names
    offer_digest: str | None  # of the prices; None offline
    page: str  # the digest of all of these: a seller agrees to it


@act("operator")
def add_consent(tx: Tx, caller: Caller, texts: dict[str, Text]) -> int:
    """Enter a new version of the consent text, by language; return its number. Versions never change."""
    require(texts, "invalid", "Expected a text in at least one language.")
    version = (last_version(tx.c) or 0) + 1
    for language, body in texts.items():
        values = {"language": language, "body": body, "digest": digest_of(body), "made_at": tx.now}
        tx.add(schema.text_version, kind="consent", version=version, **values)
    return version


def last_version(c: sa.Connection) -> int | None:
    """Return the newest version of the consent text; None if there is none."""
    newest: int | None = value(c, sa.select(sa.func.max(_text.version)).where(_text.kind == "consent"))
    return newest


def consent_versions(c: sa.Connection) -> list[tuple[int, list[str]]]:
    """Return the versions of the consent text, oldest first, each with its languages."""
    found: dict[int, list[str]] = {}
    query = sa.select(_text.version, _text.language).where(_text.kind == "consent")
    for version, language in c.execute(query.order_by(_text.version, _text.language)):
        found.setdefault(int(version), []).append(str(language))
    return list(found.items())


def consent_page(c: sa.Connection, found: Campaign, language: str) -> ConsentPage:
    """Return the page of a campaign in a language."""
    require(found.state != "draft", "early", "The campaign is not open yet.")
    body, digest = "", None
    if found.consent is not None:
        query = sa.select(_text.body, _text.digest).where(_of(found), _text.language == language)
        row = c.execute(query).one_or_none()
        if row is None:
            raise nothing()
        body, digest = str(row.body), str(row.digest)
    rules = announced_digest(c, found)
    page = digest_of(canonical([found.consent, language, digest, rules, found.offer_digest]))
    return ConsentPage(found.consent, language, body, rules, found.offer_digest, page)


_announced: dict[int, str] = {}
_MOST = 256


def announced_digest(c: sa.Connection, found: Campaign) -> str:
    """Return the digest of a campaign's announced rules, which are frozen once it is open."""
    known = _announced.get(found.id)
    if known is None:
        from dpmarket.campaign.certificate import rules_text
        from dpmarket.certificates import rules_digest

        while len(_announced) >= _MOST:
            _announced.pop(next(iter(_announced)), None)
        try:
            known = rules_digest(rules_text(bytes(market_row(c).key), found))
        except FileProblem:  # rules that say no more than the market itself reads: nothing is certified
            known = found.rules_digest
        _announced[found.id] = known
    return known


def languages_of(c: sa.Connection, found: Campaign) -> list[str]:
    """Return the languages that a campaign's consent text is written in."""
    query = sa.select(_text.language).where(_of(found)).order_by(_text.language)
    return [str(one) for one in c.scalars(query)]


def _of(found: Campaign) -> Any:
    return sa.and_(_text.kind == "consent", _text.version == found.consent)
