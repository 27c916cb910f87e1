"""Enter rounds of promises, look them up by their identity, and let sellers withdraw.

A *round* is one set of quotes. It is entered before the quotes are told, so that no promise can be lost, and
can be spent once (:mod:`dpmarket.ledger.releases`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import positions_in
from dpmarket.ledger import money, tables
from dpmarket.ledger.engine import Connection, new_id, now
from dpmarket.ledger.keyed import canonical, read_object
from dpmarket.ledger.pages import keep, kept_table

SELLER, EPSILON, PAYMENT = "seller", "epsilon", "payment_minor_units"
WEIGHT = "loss_weight"
MODEL = "model"  # the mechanism of rounds that models outside of campaigns enter
LIVE = "live "  # begins the digest of a round of the live desk, which keeps limits and escrow itself


@dataclass(frozen=True)
class CampaignEntry:
    """A campaign as the ledger knows it.

    Attributes
    ----------
    id, name
        Its identity, and what people call it.
    rules
        The public rules that were fixed with the first quote, as plain data; None for a draft of the live
        service.
    minor_units, currency
        How many smallest units make one unit of money, and of which.
    """

    id: str
    name: str
    rules: dict[str, Any] | None
    minor_units: int
    currency: str


@dataclass(frozen=True)
class Round:
    """One set of quotes, as the ledger knows it.

    Attributes
    ----------
    number
        Counts from 1 over all campaigns of the ledger.
    identity
        What a quotes file is known by: a keyed digest of rules, mechanism, reports and repetition.
    digest, repetition
        The same without the repetition, and how often these reports were promised before.
    campaign
        The id of its campaign.
    quoted_at, mechanism
        When, in UTC, and which mechanism decided.
    sellers, promised, payments, minor_units
        How many, the sum of their epsilons, and of their payments in minor units, so many to a unit of money.
    ceiling
        What nobody could be asked to give, known before any report; None if there was no such number.
    state
        ``open`` (not spent), ``debited`` (a training began), ``marked`` (it was about to draw noise),
        ``released``, or ``lost`` (spent, and there is no model).
    debited_at, release
        When the debit was made, and the id of what it was spent on; None for an open round.
    delta
        Of every promise in it; 0 without one.
    """

    number: int
    identity: str
    digest: str
    repetition: int
    campaign: str
    quoted_at: str
    mechanism: str
    sellers: int
    promised: float
    payments: int
    minor_units: int
    ceiling: float | None
    state: str
    debited_at: str | None
    release: str | None
    delta: float = 0.0


@dataclass(frozen=True, eq=False)
class NewRound:
    """What is entered as a round.

    Attributes
    ----------
    quotes
        Columns seller, epsilon, payment_minor_units; other columns are not looked at.
    content
        The quotes as a Parquet file, kept as it is.
    identity, digest, repetition, mechanism, minor_units, ceiling, delta
        As in :class:`Round`.
    parameters
        All that decided, as plain data.
    left_out
        Who reported and was not quoted, columns seller and reason; None if nobody.
    """

    quotes: pl.DataFrame
    content: bytes
    identity: str
    digest: str
    repetition: int
    mechanism: str
    minor_units: int
    ceiling: float | None
    parameters: Mapping[str, Any]
    left_out: bytes | None = None
    delta: float = 0.0


def revision_of(connection: Connection) -> int:
    """Return the number that grows with every change of promises."""
    return int(connection.execute(sa.select(tables.ledger.c.revision)).scalar_one())


def advance(connection: Connection) -> None:
    """Note that promises change: who decided by the state before decides again."""
    connection.execute(tables.ledger.update().values(revision=tables.ledger.c.revision + 1))


def campaign_named(connection: Connection, name: str) -> CampaignEntry | None:
    """Return the campaign of this name, None if there is none yet."""
    row = connection.execute(sa.select(tables.campaign).where(tables.campaign.c.name == name)).one_or_none()
    return None if row is None else _campaign(row)


def campaign_of(connection: Connection, identity: str) -> CampaignEntry:
    """Return a campaign by its id."""
    query = sa.select(tables.campaign).where(tables.campaign.c.id == identity)
    return _campaign(connection.execute(query).one())


def campaigns_of(connection: Connection) -> list[CampaignEntry]:
    """Return all campaigns, oldest first."""
    query = sa.select(tables.campaign).order_by(tables.campaign.c.made_at, tables.campaign.c.name)
    return [_campaign(row) for row in connection.execute(query)]


def make_campaign(
    connection: Connection, name: str, rules: Mapping[str, Any] | None, minor_units: int, currency: str
) -> CampaignEntry:
    """Enter a new campaign, with empty accounts."""
    identity = new_id()
    connection.execute(
        tables.campaign.insert().values(
            id=identity,
            name=name,
            made_at=now(),
            rules=None if rules is None else canonical(rules),
            minor_units=minor_units,
            currency=currency,
        )
    )
    money.make_accounts(connection, identity)
    return campaign_of(connection, identity)


def fix_rules(
    connection: Connection, campaign: CampaignEntry, rules: Mapping[str, Any], minor_units: int, currency: str
) -> None:
    """Fix the rules of a campaign that has none: a draft of the live service that is opened.

    Raises
    ------
    LedgerRefusal
        Its amounts are in other minor units, or of another currency.
    """
    _refuse_other_scale(campaign, minor_units)
    if campaign.currency not in ("", currency):
        raise LedgerRefusal(
            "the market file has changed since sellers were quoted: money.currency was "
            f"{campaign.currency!r} and is now {currency!r}. Put it back; for other rules, begin another "
            "campaign."
        )
    values = {"rules": canonical(rules), "currency": currency}
    connection.execute(tables.campaign.update().where(tables.campaign.c.id == campaign.id).values(values))


def enter_round(connection: Connection, campaign: str, new: NewRound) -> Round:
    """Enter a round, and hold its payments in escrow.

    Raises
    ------
    LedgerRefusal
        Escrow has less, the round was entered already, or its amounts are in other minor units than the
        campaign's.
    """
    _refuse_other_scale(campaign_of(connection, campaign), new.minor_units)
    promised, payments = totals(new.quotes)
    values = {
        "identity": new.identity,
        "digest": new.digest,
        "repetition": new.repetition,
        "campaign": campaign,
        "quoted_at": now(),
        "mechanism": new.mechanism,
        "sellers": new.quotes.height,
        "promised": promised,
        "delta": new.delta,
        "payments": payments,
        "minor_units": new.minor_units,
        "ceiling": new.ceiling,
        "parameters": json.dumps(new.parameters),
    }
    done = connection.execute(tables.round_.insert().values(values).returning(tables.round_.c.number))
    number = int(done.scalar_one())
    keep(connection, tables.page, {"round": number, "kind": "quoted"}, new.content)
    if new.left_out is not None:
        keep(connection, tables.left_out, {"round": number}, new.left_out)
    money.hold(connection, campaign, payments, number)
    advance(connection)
    return round_of(connection, number)


def rounds_of(connection: Connection, campaign: str | None = None) -> list[Round]:
    """Return all rounds, of one campaign or of all, oldest first."""
    return _rounds(connection, sa.true() if campaign is None else tables.round_.c.campaign == campaign)


def round_of(connection: Connection, number: int) -> Round:
    """Return one round."""
    return _rounds(connection, tables.round_.c.number == number)[0]


def round_with_identity(connection: Connection, identity: str) -> Round | None:
    """Return the round that a quotes file names, None if there is none."""
    found = _rounds(connection, tables.round_.c.identity == identity)
    return found[0] if found else None


def rounds_with_digest(connection: Connection, digest: str) -> list[Round]:
    """Return the rounds of the same reports under the same rules, in the order of their repetition."""
    return sorted(_rounds(connection, tables.round_.c.digest == digest), key=lambda found: found.repetition)


def decision_of(connection: Connection, number: int) -> dict[str, Any]:
    """Return all that decided a round, as plain data; empty where a repair entered it."""
    columns = tables.round_.c
    text = connection.execute(sa.select(columns.parameters).where(columns.number == number)).scalar_one()
    return read_object(text, f"what was decided for round {number}")


def quotes_of(connection: Connection, number: int) -> pl.DataFrame:
    """Return the quotes of a round: columns seller, epsilon, payment_minor_units.

    Raises
    ------
    FileProblem
        A page is missing or damaged.
    """
    return as_known(kept_table(connection, tables.page, {"round": number, "kind": "quoted"}))


def kept_quotes(connection: Connection, number: int) -> pl.DataFrame:
    """Return the quotes of who has not withdrawn from a round; columns as for :func:`quotes_of`."""
    quotes = quotes_of(connection, number)
    withdrawn = withdrawn_of(connection, number, quotes)
    return quotes.filter(~withdrawn) if withdrawn.any() else quotes


def left_out_of(connection: Connection, number: int) -> pl.DataFrame | None:
    """Return who reported for a round and was not quoted, columns seller and reason; None if nobody."""
    query = sa.select(sa.func.count()).where(tables.left_out.c.round == number)
    if connection.execute(query).scalar_one() == 0:
        return None
    return kept_table(connection, tables.left_out, {"round": number})


def as_known(quotes: pl.DataFrame) -> pl.DataFrame:
    """Return the columns by which quotes are known, under the ledger's own names."""
    return quotes.select(pl.nth(0).alias(SELLER), EPSILON, PAYMENT)


def totals(quotes: pl.DataFrame) -> tuple[float, int]:
    """Return the sums of epsilons and of payments."""
    return float(quotes.get_column(EPSILON).sum()), int(quotes.get_column(PAYMENT).sum())


def amounts_of(quotes: pl.DataFrame) -> tuple[FloatArray, IntArray]:
    """Return the columns of numbers: epsilons, and payments in minor units."""
    return (
        np.asarray(quotes.get_column(EPSILON).to_numpy()),
        np.asarray(quotes.get_column(PAYMENT).to_numpy()),
    )


def spent_of(connection: Connection, found: Round) -> FloatArray:
    """Return what each seller of a round has spent in it, in the order of :func:`quotes_of`.

    Nothing while it is open; the whole promise from the debit on; what the released model really spent, which
    is never more, once there is one. Withdrawn sellers spend nothing.
    """
    if found.state == "released":
        spent = _spent_table(connection, found.number)
        return np.asarray(spent.get_column("spent").to_numpy())
    quotes = quotes_of(connection, found.number)
    if found.state == "open":
        return np.zeros(quotes.height)
    return np.where(withdrawn_of(connection, found.number, quotes), 0.0, amounts_of(quotes)[0])


def weights_of(connection: Connection, number: int) -> FloatArray:
    """Return each seller's weight in the model that was released for a round, in the order of its quotes."""
    return np.asarray(_spent_table(connection, number).get_column(WEIGHT).to_numpy())


def _spent_table(connection: Connection, number: int) -> pl.DataFrame:
    return kept_table(connection, tables.page, {"round": number, "kind": "spent"})


def withdrawn_of(connection: Connection, number: int, quotes: pl.DataFrame) -> BoolArray:
    """Return which sellers of a round have withdrawn, in the order of its quotes."""
    sellers = who_withdrew(connection, number)
    withdrawn = np.zeros(quotes.height, dtype=bool)
    if sellers:
        places = positions_in(pl.DataFrame({SELLER: sellers}), SELLER, quotes, SELLER)
        withdrawn[places[places >= 0]] = True
    return withdrawn


def who_withdrew(connection: Connection, number: int) -> list[str]:
    """Return the sellers who have withdrawn from a round."""
    query = sa.select(tables.withdrawal.c.seller).where(tables.withdrawal.c.round == number)
    return list(connection.execute(query).scalars())


def count_withdrawn(connection: Connection, number: int) -> int:
    """Return how many sellers have withdrawn from a round."""
    query = sa.select(sa.func.count()).where(tables.withdrawal.c.round == number)
    return int(connection.execute(query).scalar_one())


def withdraw(connection: Connection, number: int, sellers: Sequence[str]) -> list[str]:
    """Take sellers out of a round before it is spent; return those who had not withdrawn before.

    What was held for them is free again. Nobody else's promise or payment changes. The log outside is not
    told: :func:`dpmarket.ledger.withdraw` does both.

    Raises
    ------
    LedgerRefusal
        A seller has no quote in this round, or the round's promises are spent already.
    """
    if not sellers:
        return []
    quotes = quotes_of(connection, number)
    asked = pl.DataFrame({SELLER: list(dict.fromkeys(sellers))})
    places = positions_in(asked, SELLER, quotes, SELLER)
    unknown = int((places < 0).sum())
    if unknown:
        raise LedgerRefusal(
            f"cannot withdraw: {unknown} of {asked.height} sellers have no quote in this file."
        )
    found = round_of(connection, number)
    if found.state != "open":
        raise LedgerRefusal(
            f"cannot withdraw: training on these quotes began at {found.debited_at}, and what it took "
            "cannot be taken back."
        )
    places = places[~withdrawn_of(connection, number, quotes)[places]]
    if places.size == 0:
        return []
    at = now()
    leaving: list[str] = quotes.get_column(SELLER).gather(places).to_list()
    rows = [{"round": number, "seller": seller, "withdrawn_at": at} for seller in leaving]
    connection.execute(tables.withdrawal.insert(), rows)
    money.shrink_hold(connection, number, int(amounts_of(quotes)[1][places].sum()))
    advance(connection)
    return leaving


def _refuse_other_scale(campaign: CampaignEntry, minor_units: int) -> None:
    if campaign.minor_units != minor_units:
        raise LedgerRefusal(
            "the market file has changed since sellers were quoted: money.minor_units was "
            f"{campaign.minor_units} and is now {minor_units}. Put it back; for other rules, begin another "
            "campaign."
        )


def _campaign(row: Any) -> CampaignEntry:
    what = f"the rules of the campaign {row.name!r}"
    rules = None if row.rules is None else read_object(row.rules, what)
    for table in (rules or {}).values():
        if not isinstance(table, dict):
            raise FileProblem(f"cannot use the ledger: {what} are no tables; were they edited? Put it back.")
    return CampaignEntry(row.id, row.name, rules, int(row.minor_units), row.currency)


def _rounds(connection: Connection, where: Any) -> list[Round]:
    entered, debit, release = tables.round_.c, tables.debit.c, tables.release.c
    spending = sa.join(tables.debit, tables.release, sa.and_(debit.release == release.id, debit.counts == 1))
    query = (
        sa.select(
            *(entered[name] for name in Round.__dataclass_fields__ if name in entered),
            sa.func.coalesce(release.state, "open").label("state"),
            release.debited_at,
            release.id.label("release"),
        )
        .select_from(tables.round_.outerjoin(spending, debit.round == entered.number))
        .where(where)
        .order_by(entered.number)
    )
    return [Round(**row._mapping) for row in connection.execute(query)]
