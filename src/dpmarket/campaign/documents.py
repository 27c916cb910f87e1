"""Documents of a released live campaign: certificate, signature, sealed openings, receipts and the report.

A worker makes them once: every certificate draws new salts, and a second one would not fit the receipts of
the first.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import WORKER, Caller, Tx, act, campaign_of
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.database import Market
from dpmarket.campaign.seal import OPERATOR, Opener, seal
from dpmarket.certificates import Certificate
from dpmarket.errors import FileProblem

_own, _person, _document = schema.participation.c, schema.person.c, schema.document.c


def certify_live(market: Market, campaign: int, sign: Callable[[Certificate], bytes] | None = None) -> bytes:
    """Return the certificate of a released campaign; made now, with its receipts, if there is none.

    Parameters
    ----------
    market, campaign
        Which.
    sign
        Returns the signature of a certificate; None: there is none.

    Raises
    ------
    NotCertifiable
        What was done cannot be certified.
    """
    known = document_of(market, campaign, "certificate")
    if known is not None:
        return known
    made = certify_campaign(market, campaign)
    with market.look() as c:
        public = c.execute(sa.select(schema.market.c.operator_key)).scalar()
    if public is None:
        raise FileProblem("the operator's key is not set up yet.")
    documents = {
        "certificate": bytes(made),
        "openings": seal(bytes(public), made.openings(), "openings", str(campaign)),
    }
    if sign is not None:
        documents["signature"] = sign(made)
    return bytes(market.run(enter_certificate, WORKER, campaign, documents, dict(made.receipts())))


@act("worker")
def enter_certificate(
    tx: Tx, caller: Caller, campaign: int, documents: dict[str, bytes], receipts: dict[str, bytes]
) -> bytes:
    """Enter a certificate and what belongs to it, once; return the certificate that is entered.

    Receipts are by the keyed digests of people, as hexadecimal digits.
    """
    known = _body(tx.c, campaign, "certificate")
    if known is not None:
        return known  # another worker was quicker
    query = (
        sa.select(_person.digest, _own.id)
        .join(schema.person, _person.id == _own.person)
        .where(_own.campaign == campaign)
    )
    people = {bytes(digest).hex(): int(identity) for digest, identity in tx.c.execute(query)}
    rows: list[tuple[int | None, str, bytes]] = [(None, kind, body) for kind, body in documents.items()]
    rows += [(people[digest], "receipt", body) for digest, body in receipts.items()]
    values = [
        {"campaign": campaign, "participation": who, "kind": kind, "body": body, "at": tx.now}
        for who, kind, body in rows
    ]
    tx.c.execute(schema.document.insert(), values)
    tx.event(campaign, "certified")
    tx.job("report", campaign, tx.now)
    return documents["certificate"]


@act("worker")
def enter_report(tx: Tx, caller: Caller, campaign: int, page: bytes) -> None:
    """Enter a campaign's report, once; an empty one says that there is none."""
    if _body(tx.c, campaign, "report") is None:
        values = {"campaign": campaign, "kind": "report", "body": page, "at": tx.now}
        tx.c.execute(schema.document.insert(), values)


def document_of(market: Market, campaign: int, kind: str) -> bytes | None:
    """Return a document of a campaign; None if there is none."""
    with market.look() as c:
        return _body(c, campaign, kind)


def reported_costs(market: Market, campaign: int) -> dict[bytes, float] | None:
    """Return what each person reported to an offline campaign, by digest; None online. Confidential."""
    sealed = document_of(market, campaign, "costs")
    if sealed is None:
        return None
    with market.look() as c:
        public = c.execute(sa.select(schema.market.c.operator_key)).scalar_one()
        query = (
            sa.select(_own.id, _person.digest)
            .join(schema.person, _person.id == _own.person)
            .where(_own.campaign == campaign_of(c, campaign).id)
        )
        digests = {int(row.id): bytes(row.digest) for row in c.execute(query)}
    if market.keys is None:
        raise FileProblem("the operator's private key is not here.")
    opened = Opener(market.keys, OPERATOR, bytes(public)).open(sealed, "costs", str(campaign))
    if opened is None:
        raise FileProblem("the reported costs were sealed to another key.")
    table = pl.read_csv(opened)
    return {digests[row["participation"]]: float(row["cost"]) for row in table.iter_rows(named=True)}


def _body(c: sa.Connection, campaign: int, kind: str) -> bytes | None:
    mine = sa.and_(_document.campaign == campaign, _document.kind == kind, _document.participation.is_(None))
    found = c.execute(sa.select(_document.body).where(mine)).scalar()
    return None if found is None else bytes(found)
