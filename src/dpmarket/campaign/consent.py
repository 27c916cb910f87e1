"""Consent: texts that never change, and the page that a seller agrees to by its digest."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Campaign, Text, Tx, act, nothing
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.errors import FileProblem, MarketRefusal

_text = schema.text_version.c


@dataclass(frozen=True)
class ConsentPage:
    """What a seller is shown before taking part.

    Attributes
    ----------
    version, language, text
        The consent text.
    rules_digest, offer_digest
        Of the announced rules, which the certificate names, and of the prices; None offline.
    page
        The digest of all of these: a seller agrees to it.
    """

    version: int | None
    language: str
    text: str
    rules_digest: str
    offer_digest: str | None
    page: str


@act("operator")
def add_consent(tx: Tx, caller: Caller, texts: dict[str, Text]) -> int:
    """Enter a new version of the consent text, by language; return its number. Versions never change."""
    if not texts:
        raise MarketRefusal("invalid", "Expected a text in at least one language.")
    version = (last_version(tx.c) or 0) + 1
    rows = [
        {
            "kind": "consent",
            "version": version,
            "language": language,
            "body": body,
            "digest": digest_of(body),
            "made_at": tx.now,
        }
        for language, body in texts.items()
    ]
    tx.c.execute(schema.text_version.insert(), rows)
    return version


def last_version(c: sa.Connection) -> int | None:
    """Return the newest version of the consent text; None if there is none."""
    query = sa.select(sa.func.max(_text.version)).where(_text.kind == "consent")
    found = c.execute(query).scalar()
    return None if found is None else int(found)


def consent_versions(c: sa.Connection) -> list[tuple[int, list[str]]]:
    """Return the versions of the consent text, oldest first, each with its languages."""
    found: dict[int, list[str]] = {}
    query = sa.select(_text.version, _text.language).where(_text.kind == "consent")
    for version, language in c.execute(query.order_by(_text.version, _text.language)):
        found.setdefault(int(version), []).append(str(language))
    return list(found.items())


def consent_page(c: sa.Connection, found: Campaign, language: str) -> ConsentPage:
    """Return the page of a campaign in a language.

    Raises
    ------
    MarketRefusal
        There is no text in this language, or the campaign is a draft: its rules may still change.
    """
    if found.state == "draft":
        raise MarketRefusal("early", "The campaign is not open yet.")
    body, digest = "", None
    if found.consent is not None:
        query = sa.select(_text.body, _text.digest).where(
            _text.kind == "consent", _text.version == found.consent, _text.language == language
        )
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

        key = bytes(c.execute(sa.select(schema.market.c.key)).scalar_one())
        while len(_announced) >= _MOST:
            _announced.pop(next(iter(_announced)), None)
        try:
            known = rules_digest(rules_text(key, found))
        except FileProblem:  # rules that say no more than the market itself reads: nothing is certified
            known = found.rules_digest
        _announced[found.id] = known
    return known


def languages_of(c: sa.Connection, found: Campaign) -> list[str]:
    """Return the languages that a campaign's consent text is written in."""
    query = sa.select(_text.language).where(_text.kind == "consent", _text.version == found.consent)
    return [str(one) for one in c.execute(query.order_by(_text.language)).scalars()]
