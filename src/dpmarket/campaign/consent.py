"""Consent: texts that never change, and the page that a seller agrees to by its digest."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Text, act
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.transaction import Campaign, Tx, market_row, nothing, require
from dpmarket.errors import FileProblem

_text = schema.text_version.c
Language = Annotated[str, pydantic.Field(pattern="^[a-z]{2,3}$")]


@dataclass(frozen=True)
class ConsentPage:
    """What a seller is shown before taking part."""

    version: int | None
    language: str
    text: str
    notice: str  # about privacy; empty: none
    rules_digest: str  # of the announced rules, which the certificate names
    offer_digest: str | None  # of the prices; None offline
    page: str  # the digest of all of these: a seller agrees to it


@act("operator")
def add_consent(
    tx: Tx, caller: Caller, texts: dict[Language, Text], notices: dict[Language, Text] | None = None
) -> int:
    """Enter a new version of consent text and privacy notice, by language; return its number.

    Versions never change. A campaign names one when it is drafted; without notices it has none.
    """
    require(texts, "invalid", "Expected a text in at least one language.")
    fits = not notices or notices.keys() == texts.keys()
    require(fits, "invalid", "Expected privacy notices in the languages of the consent text, or none.")
    return enter_texts(tx, consent=texts, notice=notices or {})


def enter_texts(tx: Tx, **texts: dict[str, str]) -> int:
    """Enter a new version of texts, by kind and language; return its number, counted for the first kind."""
    version = (last_version(tx.c, next(iter(texts))) or 0) + 1
    for kind, bodies in texts.items():
        for language, body in bodies.items():
            values = {"language": language, "body": body, "digest": digest_of(body), "made_at": tx.now}
            tx.add(schema.text_version, kind=kind, version=version, **values)
    return version


def last_version(c: sa.Connection, kind: str = "consent") -> int | None:
    """Return the newest version of a kind of text; None if there is none."""
    newest: int | None = c.scalar(sa.select(sa.func.max(_text.version)).where(_text.kind == kind))
    return newest


def consent_versions(c: sa.Connection) -> dict[int, list[str]]:
    """Return the languages of each version of the consent text, the oldest first."""
    found: dict[int, list[str]] = {}
    query = sa.select(_text.version, _text.language).where(_text.kind == "consent")
    for version, language in c.execute(query.order_by(_text.version, _text.language)):
        found.setdefault(version, []).append(language)
    return found


def consent_page(c: sa.Connection, found: Campaign, language: str) -> ConsentPage:
    """Return the page of a campaign in a language."""
    require(found.state != "draft", "early", "The campaign is not open yet.")
    texts: dict[str, tuple[str, str]] = {}
    if found.consent is not None:
        query = sa.select(_text.kind, _text.body, _text.digest).where(_text.version == found.consent)
        rows = c.execute(query.where(_text.kind.in_(("consent", "notice")), _text.language == language))
        texts = {row.kind: (row.body, row.digest) for row in rows}
        if "consent" not in texts:
            raise nothing()
    (body, digest), (notice, of_notice) = (texts.get(kind, ("", None)) for kind in ("consent", "notice"))
    rules = _announced(market_row(c).key, found)
    agreed = [found.consent, language, digest, of_notice, rules, found.offer_digest]
    return ConsentPage(
        found.consent, language, body, notice, rules, found.offer_digest, digest_of(canonical(agreed))
    )


@lru_cache(maxsize=256)
def _announced(key: bytes, found: Campaign) -> str:
    """Return the digest of a campaign's announced rules, which are frozen once it is open."""
    from dpmarket.campaign.certificate import rules_text
    from dpmarket.certificates.description import rules_digest

    try:
        return rules_digest(rules_text(key, found))
    except FileProblem:  # rules that say no more than the market itself reads: nothing is certified
        return str(found.rules_digest)
