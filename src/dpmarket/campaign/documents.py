"""Documents of a released live campaign: certificate, signature, sealed openings, receipts and the report.

A worker makes them once: every certificate draws new salts, and a second one would not fit the receipts of
the first.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import WORKER, Caller, act
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.database import Market
from dpmarket.campaign.seal import seal
from dpmarket.campaign.transaction import Tx, body_of
from dpmarket.campaign.unseal import operators_opener
from dpmarket.certificates import Certificate
from dpmarket.errors import FileProblem

_own, _person = schema.participation.c, schema.person.c


def certify_live(market: Market, campaign: int, sign: Callable[[Certificate], bytes] | None = None) -> bytes:
    """Return the certificate of a released campaign; made now, with its receipts, if there is none."""
    known = document_of(market, campaign, "certificate")
    if known is not None:
        return known
    made = certify_campaign(market, campaign)
    public = market.operator_key()
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
    known = body_of(tx.c, campaign, "certificate")
    if known is not None:
        return known  # another worker was quicker
    people = {digest.hex(): who for who, digest in _digests(tx.c, campaign).items()}
    for kind, body in documents.items():
        tx.add(schema.document, campaign=campaign, kind=kind, body=body, at=tx.now)
    values = {"campaign": campaign, "kind": "receipt", "at": tx.now}
    for digest, body in receipts.items():
        tx.add(schema.document, participation=people[digest], body=body, **values)
    tx.event(campaign, "certified")
    tx.job("report", campaign, tx.now)
    return documents["certificate"]


@act("worker")
def enter_report(tx: Tx, caller: Caller, campaign: int, page: bytes) -> None:
    """Enter a campaign's report, once; an empty one says that there is none."""
    if body_of(tx.c, campaign, "report") is None:
        tx.add(schema.document, campaign=campaign, kind="report", body=page, at=tx.now)


def document_of(market: Market, campaign: int, kind: str) -> bytes | None:
    """Return a document of a campaign; None if there is none."""
    with market.look() as c:
        return body_of(c, campaign, kind)


def reported_costs(market: Market, campaign: int) -> dict[bytes, float] | None:
    """Return what each person reported to an offline campaign, by digest; None online. Confidential."""
    sealed = document_of(market, campaign, "costs")
    if sealed is None:
        return None
    opened = operators_opener(market).open(sealed, "costs", str(campaign))
    if opened is None:
        raise FileProblem("the reported costs were sealed to another key.")
    rows = pl.read_csv(opened, schema={"id": pl.String, "cost": pl.Float64}).iter_rows()
    return {bytes.fromhex(name): cost for name, cost in rows}


def _digests(c: sa.Connection, campaign: int) -> dict[int, bytes]:
    """Return the keyed digests of a campaign's people by participation."""
    query = sa.select(_own.id, _person.digest).join(schema.person, _person.id == _own.person)
    return {int(who): bytes(digest) for who, digest in c.execute(query.where(_own.campaign == campaign))}
