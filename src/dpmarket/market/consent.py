"""Keep consent texts with versions and digests, and say to sellers what taking part means."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.ledger.keyed import canonical
from dpmarket.market import tables
from dpmarket.market.desk import time_text

ENGLISH = """\
You decide how much privacy you sell, and for how much money. Your record is used once, for one model
or for the numbers that this campaign asks for, all of them together.

What is promised. Whoever sees what is published, the model or the numbers, and knows everything about
everybody else, learns little about you: how little is the number epsilon of your offer. You are paid what
your offer says, from the moment on at which the training, or the computing of the numbers, begins to draw
its noise, whether or not anything comes of it. Your record is sealed
when you send it; the key that opens it is destroyed in the moment before noise is drawn, and the sealed rows
are deleted after the training.

What is not promised. If your privacy cost goes together with what is in your record, then the cost tells
something about the record, and your promise and your payment tell something about the cost. The buyer sees
sums of many sellers, never yours; but all other sellers together with the buyer can learn your promise from
those sums. Whoever runs the machine sees what the machine sees. Where all offers are made at once, what you
reported is kept sealed, so that an auditor can decide the offers again; otherwise it is not kept.

Money. Your payment is set aside before you are asked for anything. Where all offers are made at once, after
everybody has reported, they may come to more than the buyer has set aside: what is missing is the buyer's
debt, all offers stand, and nothing is asked of you before the debt is paid.

Leaving. You can withdraw at any time before the training begins; your record is deleted, and nobody else's
offer changes. While the training runs it cannot be stopped, and you are paid. Nothing is decided by how much
money all offers come to, or by how many people take part.
"""
"""The desk's own words; an operator adds who holds which role."""


@dataclass(frozen=True)
class ConsentPage:
    """What a seller is shown before they take part, and what they agree to by its digest.

    Attributes
    ----------
    version, language, text
        The consent text.
    market_digest, curve_digest
        Of the frozen market file, and of the curve of offers (None offline).
    digest
        Of all of these.
    """

    version: int
    language: str
    text: str
    market_digest: str
    curve_digest: str | None
    digest: str


def add_consent(connection: Connection, language: str, text: str, now: datetime, version: int = 0) -> int:
    """Keep a consent text; return its version.

    Parameters
    ----------
    language, text
        In which language, and what sellers read.
    now
        The time.
    version
        Of which this is another language; 0: a new version.

    Raises
    ------
    MarketRefusal
        This version has a text in this language already: texts never change.
    """
    columns = tables.consent.c
    if version == 0:
        version = int(connection.execute(sa.select(sa.func.max(columns.version))).scalar() or 0) + 1
    known = sa.select(columns.digest).where(columns.version == version, columns.language == language)
    if connection.execute(known).scalar() is not None:
        raise MarketRefusal("state", "this version has a text in this language, and texts never change.")
    values = {"version": version, "language": language, "text": text, "made_at": time_text(now)}
    digest = hashlib.sha256(text.encode()).hexdigest()
    connection.execute(tables.consent.insert().values(digest=digest, **values))
    return version


def consent_versions(connection: Connection) -> list[tuple[int, list[str]]]:
    """Return the versions of consent texts there are, oldest first, each with its languages."""
    columns = tables.consent.c
    found: dict[int, list[str]] = {}
    query = sa.select(columns.version, columns.language).order_by(columns.version, columns.language)
    for version, language in connection.execute(query):
        found.setdefault(int(version), []).append(str(language))
    return list(found.items())


def consent_pages(connection: Connection, campaign: str) -> dict[str, ConsentPage]:
    """Return what sellers of an opened campaign are shown, by language; as :func:`consent_page`."""
    live, text = tables.live_campaign.c, tables.consent.c
    query = (
        sa.select(text.language)
        .join(tables.live_campaign, text.version == live.consent_version)
        .where(live.campaign == campaign)
    )
    spoken = [str(language) for language in connection.execute(query).scalars()]
    return {language: consent_page(connection, campaign, language) for language in spoken}


def consent_page(connection: Connection, campaign: str, language: str = "en") -> ConsentPage:
    """Return what sellers of an opened campaign are shown before they take part.

    Raises
    ------
    MarketRefusal
        There is no such campaign or language, or the campaign is a draft: its rules may still change.
    """
    live, text = tables.live_campaign.c, tables.consent.c
    query = (
        sa.select(live.state, live.market_digest, live.curve_digest, text.version, text.language, text.text)
        .join(tables.consent, text.version == live.consent_version)
        .where(live.campaign == campaign, text.language == language)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no such campaign, or no text in this language.")
    if row.state == "draft":
        raise MarketRefusal("early", "the campaign is not open yet.")
    parts = [row.version, row.language, row.text, row.market_digest, row.curve_digest]
    digest = hashlib.sha256(canonical(parts).encode()).hexdigest()
    return ConsentPage(row.version, row.language, row.text, row.market_digest, row.curve_digest, digest)
