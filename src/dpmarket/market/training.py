"""Spend a closed campaign on what it buys, by the file desk's own function, and make its certificate once."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign.certifying import certify_round
from dpmarket.campaign.records import Records
from dpmarket.campaign.spending import ReadRecords, spend_and_train
from dpmarket.campaign.statistic_records import StatisticRecords
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, Round, reading, releases, rounds
from dpmarket.ledger.rounds import SELLER
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign, campaign_of
from dpmarket.market.closing import begin_training, cancel_empty, settle_campaign
from dpmarket.market.desk import Desk, acting, time_text
from dpmarket.market.keys import (
    OPERATOR,
    Opener,
    destroy_key,
    destroy_other_keys,
    names_of_keys,
    operator_key,
    seal,
)
from dpmarket.market.opening import market_of
from dpmarket.market.records import opened_records
from dpmarket.market.statements import insert


def train_campaign(desk: Desk, campaign: str, now: datetime) -> str:
    """Train a closed campaign's model, or release its statistics, once; return the campaign's state.

    It is ``released``; if everybody has withdrawn, ``cancelled``.

    Raises
    ------
    MarketRefusal
        The campaign is not closed.
    FileProblem, LedgerRefusal, InvalidInput, Infeasible, NotConverged
        No model. Before noise was drawn, all promises are given back and the campaign is closed as before;
        afterwards it is lost: promises are spent, and sellers are paid.

    Notes
    -----
    Guaranteed:

    * The set of sellers is fixed, and their promises are spent on the disk, before a record is opened.
    * The campaign's private key is destroyed after the mark and before noise is drawn. Who kills the worker
      before that finds everything as it was; who kills it later finds nothing to train on again.
    """
    with acting(desk) as connection:
        if campaign_of(connection, campaign).state == "training":
            settle_campaign(
                connection, campaign, now
            )  # of a worker that died: the ledger says how far it came
    with acting(desk) as connection:
        if cancel_empty(connection, campaign, now):
            return "cancelled"
        entered = begin_training(connection, campaign, now)
        found = campaign_of(connection, campaign)
    try:
        spend_and_train(
            desk.ledger,
            [entered],
            market_of(found.market),
            _reader(desk, found),
            before_noise=lambda: _destroy(desk, found),
        )
    finally:
        with acting(desk) as connection:
            state = settle_campaign(connection, campaign, now)
        if state in ("released", "lost"):
            _destroy(desk, found)
    return state


def sweep_keys(desk: Desk) -> int:
    """Destroy keys that nothing needs any more; return how many there were.

    Those of campaigns that ended without getting to it, and pairs of workers that died, or lost the database,
    before they could tell the public half. Of campaigns that the ledger does not know nothing is destroyed.
    """
    there = names_of_keys(desk.keys)
    if not there:
        return 0
    columns = tables.live_campaign.c
    query = sa.select(columns.campaign, columns.state, columns.public_key)
    with reading(desk.ledger) as connection:
        known = [row for row in connection.execute(query) if row.campaign in there]
    count = 0
    for row in known:
        if row.state in ("released", "lost", "cancelled"):
            count += destroy_other_keys(desk.keys, row.campaign, None)
        elif row.public_key is not None and there[row.campaign] > 1:
            count += destroy_other_keys(desk.keys, row.campaign, bytes(row.public_key))
    return count


def certify_campaign(desk: Desk, campaign: str, now: datetime) -> bytes:
    """Make the certificate of a released campaign and a receipt for everybody in it; return the certificate.

    Made once: every certificate draws new salts, and a second one would not fit the receipts of the first.

    Raises
    ------
    MarketRefusal
        The campaign has no released model.
    NotCertifiable
        What was done cannot be certified.
    """
    with reading(desk.ledger) as connection:
        found = campaign_of(connection, campaign)
        if found.state != "released" or found.round is None:
            raise MarketRefusal("state", "expected a campaign whose model was released.")
        known = certificate_of(connection, found.round)
        if known is not None:
            return known
        made = certify_round(connection, _round(connection, found))
    openings = seal(operator_key(desk.keys), made.openings(), "openings", campaign)
    values = {"round": found.round, "body": bytes(made), "openings": openings, "made_at": time_text(now)}
    own = tables.participation.c
    with acting(desk) as connection:
        entering = insert(connection, tables.certificate, values).on_conflict_do_nothing()
        if connection.execute(entering.returning(tables.certificate.c.round)).scalar() is not None:
            query = sa.select(own.person, own.id).where(
                own.campaign == campaign, own.consented_at.is_not(None)
            )
            by_person = {row.person: row.id for row in connection.execute(query)}
            rows = [
                {"participation": by_person[str(seller)], "body": body} for seller, body in made.receipts()
            ]
            connection.execute(tables.receipt.insert(), rows)
        kept = certificate_of(connection, found.round)
    assert kept is not None
    return kept


def certificate_of(connection: Connection, number: int) -> bytes | None:
    """Return the certificate that was made for a round, None if there is none."""
    columns = tables.certificate.c
    found = connection.execute(sa.select(columns.body).where(columns.round == number)).scalar()
    return None if found is None else bytes(found)


def openings_of(desk: Desk, campaign: str) -> bytes:
    """Return what a campaign's certificate commits to, with the salts. Confidential: for an auditor.

    Raises
    ------
    MarketRefusal
        There is no certificate.
    FileProblem
        The operator's private key is not here.
    """
    with reading(desk.ledger) as connection:
        found = campaign_of(connection, campaign)
        columns = tables.certificate.c
        sealed = connection.execute(sa.select(columns.openings).where(columns.round == found.round)).scalar()
    if sealed is None:
        raise MarketRefusal("unknown", "there is no certificate.")
    opened = Opener(desk.keys, OPERATOR, operator_key(desk.keys)).open(bytes(sealed), "openings", campaign)
    if opened is None:
        raise MarketRefusal("unknown", "what the certificate commits to was sealed to another key.")
    return opened


def model_of(connection: Connection, campaign: str) -> str:
    """Return the released model of a campaign, or its statistics, as JSON text.

    Raises
    ------
    MarketRefusal
        There is none.
    """
    found = campaign_of(connection, campaign)
    kept = None if found.round is None else releases.released_model(connection, found.round)
    if kept is None:
        raise MarketRefusal("unknown", "nothing was released.")
    return kept


def _reader(desk: Desk, found: LiveCampaign) -> ReadRecords:
    def read(people: pl.DataFrame, promised: FloatArray) -> Records | StatisticRecords:
        return opened_records(desk, found, people.select(SELLER), promised)

    return read


def _round(connection: Connection, found: LiveCampaign) -> Round:
    assert found.round is not None
    return rounds.round_of(connection, found.round)


def _destroy(desk: Desk, found: LiveCampaign) -> None:
    assert found.public_key is not None
    destroy_key(desk.keys, found.campaign, found.public_key)
