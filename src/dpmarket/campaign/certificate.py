"""The certificate of a released campaign, from files or live, with a receipt for everybody in it.

Everything comes from the campaign's row, its participations and its released document. Announced rules are a
function of the campaign's frozen rules, so that they can be written again at any time. A worker makes the
documents of a live campaign once: every certificate draws new salts, and a second one would not fit the
receipts of the first.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import WORKER, Caller, act
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import operators_opener
from dpmarket.campaign.opening import NO_CURRENCY, by_schedules, decide_for, pools_of, rules_of
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.quoting import Decide, schedules_from
from dpmarket.campaign.rules.decision import Binding
from dpmarket.campaign.rules.pricing import OFFLINE, online_schedules
from dpmarket.campaign.rules.publication import announced_text
from dpmarket.campaign.rules.released import ModelFile, Released, released_from_bytes
from dpmarket.campaign.seal import seal
from dpmarket.campaign.training import document_of
from dpmarket.campaign.transaction import Campaign, Tx, body_of, campaign_of
from dpmarket.certificates.certificate import Certificate, make_certificate
from dpmarket.certificates.commitments import Sellers
from dpmarket.certificates.description import (
    describe_market,
    describe_model,
    describe_statistics,
    rules_digest,
)
from dpmarket.errors import FileProblem, NotCertifiable
from dpmarket.files import csv_text, write_folder
from dpmarket.mechanisms.cross_pricing import split
from dpmarket.progress import StageProgress, silent

LEFT = ("declined", "expired", "lapsed", "withdrawn", "screened_out")  # quoted, and gone before the release


def nonce_of(key: bytes, campaign: int) -> bytes:
    """Return the secret key of the digest of a campaign's sellers: fixed when it is drafted."""
    return hashlib.blake2b(campaign.to_bytes(8, "big"), key=key, digest_size=32, person=b"nonce").digest()


def rules_text(key: bytes, found: Campaign) -> str:
    """Return a campaign's announced rules; their SHA-256 is what sellers agree to."""
    nonce = hashlib.sha256(nonce_of(key, found.id)).hexdigest()
    return announced_text(rules_of(found), found.made_at, nonce)


def binding_of(key: bytes, found: Campaign) -> Binding:
    """Return what the salt of a campaign's cross-pricing follows from, together with its reports."""
    if found.mechanism != OFFLINE or rules_of(found).objective.budget is None:
        return Binding("00" * 32, nonce_of(key, found.id))  # nothing is split
    return Binding(rules_digest(rules_text(key, found)), nonce_of(key, found.id))


def decide_of(key: bytes, found: Campaign) -> Decide:
    """Return the mechanism of a campaign: online, the price schedule that was frozen when it opened."""
    if found.mechanism != OFFLINE and found.offer is not None:
        return by_schedules(schedules_from(found.offer), found.minor_units)
    return decide_for(rules_of(found), binding_of(key, found))


def certify_campaign(market: Market, campaign: int) -> Certificate:
    """Return the certificate of a released campaign, with new salts at every call.

    Of people who left before the release it certifies what they were quoted, and that nothing is owed.
    """
    with market.look() as c:
        found = campaign_of(c, campaign)
    document = document_of(market, campaign)
    if document is None:
        raise NotCertifiable("there is nothing to certify before a model or statistics are released.")
    made = released_from_bytes(document)
    if not made.secure_noise:
        raise NotCertifiable("expected a model with secret noise; this one's can be repeated.")
    release = describe_release(made)
    public = decided_by(found)
    text = rules_text(market.key, found)
    sellers, quoted_at = _sellers(market, found, public, release)
    currency = "" if found.currency == NO_CURRENCY else found.currency
    return make_certificate(
        sellers,
        describe_market(public),
        release,
        {"currency": currency, "minor_units": found.minor_units},
        rules=text,
        quoted_at=quoted_at,
        nonce=nonce_of(market.key, found.id) if "salt" in public else None,
    )


def decided_by(found: Campaign) -> dict[str, Any]:
    """Return all that decided, as plain data."""
    if found.mechanism == OFFLINE:
        return dict(json.loads(found.offer or "{}"))
    return online_schedules(rules_of(found))[1]


def _sellers(
    market: Market, found: Campaign, public: Mapping[str, Any], release: Mapping[str, Any]
) -> tuple[Sellers, str]:
    """Return a line for everybody who was decided about, and when the first of them was quoted."""
    with market.look() as c:
        table = people_of(c, found).drop_nulls("epsilon")
    if table.height == 0:
        raise NotCertifiable("nobody was quoted.")
    is_live, pools = found.channel == "live", pools_of(rules_of(found))
    ids = [
        digest.hex() if is_live else str(name) for name, digest in table.select("name", "digest").iter_rows()
    ]
    promised = table.get_column("epsilon").to_numpy()
    spent, own = (table.get_column(name).fill_null(0.0).to_numpy() for name in ("used", "weight"))
    if release["family"] == "descent":
        own = np.rint(own * release["weight_total"])
    elif release["family"] == "statistics":
        unit = 2.0 ** min(one["unit_exponent"] for one in release["statistics"].values())
        own = spent = np.rint(own / unit) * unit
    sellers = Sellers(
        ids=ids,
        epsilons=promised,
        payments=table.get_column("payment").to_numpy(),
        used=np.minimum(spent, promised),
        weights=own,
        withdrew=table.get_column("state").is_in(LEFT).to_numpy(),
        parts=split(ids, bytes.fromhex(public["salt"])) if "salt" in public else None,
        groups=np.array([pools.index(pool) for pool in table.get_column("pool")], dtype=np.int64),
    )
    return sellers, str(table.get_column("since").min())


def describe_release(made: Released) -> dict[str, Any]:
    """Return the release of a certificate."""
    if isinstance(made, ModelFile):
        return describe_model(
            made.description, made.features, made.labels or None, made.shrinkage_correction, made.encoder
        )
    statistics = {
        name: (asked.columns, asked.share, asked.released()) for name, asked in made.statistics.items()
    }
    return describe_statistics(statistics, made.rows_per_person)


def write_receipts(
    certificate: Certificate, folder: str | os.PathLike[str], progress: StageProgress = silent
) -> int:
    """Write receipts by number, and an index of whose each is, into a new folder; return how many."""
    total = len(certificate.lines)

    def files() -> Iterator[tuple[str, bytes]]:
        names = []
        for number, (seller, receipt) in enumerate(certificate.receipts(), 1):
            names.append((str(seller), f"receipt-{number:07d}.json"))
            yield names[-1][1], receipt
            if number % 1_000 == 0:
                progress("Writing receipts", number / total)
        sellers, written = zip(*names, strict=True)
        yield "index.csv", csv_text(pl.DataFrame({"seller": sellers, "file": written}))

    write_folder(folder, files())
    return total


def certify_live(market: Market, campaign: int, sign: Callable[[Certificate], bytes] | None = None) -> bytes:
    """Return the certificate of a released campaign; made now, with its receipts, if there is none."""
    known = document_of(market, campaign, "certificate")
    if known is not None:
        return known
    made = certify_campaign(market, campaign)
    public = market.operator_key()
    if public is None:
        raise FileProblem("the operator's key is not set up yet.")
    openings = seal(public, made.openings(), "openings", str(campaign))
    documents = {"certificate": bytes(made), "openings": openings}
    if sign is not None:
        documents["signature"] = sign(made)
    return bytes(market.run(enter_certificate, WORKER, campaign, documents, dict(made.receipts())))


@act("worker")
def enter_certificate(
    tx: Tx, caller: Caller, campaign: int, documents: dict[str, bytes], receipts: dict[str, bytes]
) -> bytes:
    """Enter a certificate, its documents, and receipts by digest in hex, once; return the one entered."""
    known = body_of(tx.c, campaign, "certificate")
    if known is not None:
        return known  # another worker was quicker
    own, person = schema.participation.c, schema.person.c
    query = sa.select(person.digest, own.id).join(schema.person, person.id == own.person)
    people = {digest.hex(): who for digest, who in tx.c.execute(query.where(own.campaign == campaign))}
    for kind, body in documents.items():
        tx.add(schema.document, campaign=campaign, kind=kind, body=body, at=tx.now)
    for digest, body in receipts.items():
        receipt = {"kind": "receipt", "participation": people[digest], "body": body, "at": tx.now}
        tx.add(schema.document, campaign=campaign, **receipt)
    tx.event(campaign, "certified")
    tx.job("report", campaign, tx.now)
    return documents["certificate"]


@act("worker")
def enter_report(tx: Tx, caller: Caller, campaign: int, page: bytes) -> None:
    """Enter a campaign's report, once; an empty one says that there is none."""
    if body_of(tx.c, campaign, "report") is None:
        tx.add(schema.document, campaign=campaign, kind="report", body=page, at=tx.now)


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
