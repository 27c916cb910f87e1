"""Training: debit, read, commit point, ship, destroy the key, draw noise, release; once for each campaign.

The order is what makes a guarantee true whatever dies when:

1. a liveness lock says that the attempt is alive;
2. *debit*: the campaign is ``training`` and no act frees a hold any more;
3. records are read, the release is prepared, and a snapshot of people, epsilons and payments is on the disk;
4. *commit point*, in the moment before noise: the attempt is ``committed``, with a line ``spend``; the line
   is shipped to the log;
5. the campaign's key is destroyed; noise is drawn;
6. *release*: the document, what everybody spent, and what everybody is owed.

Before the commit point an error or a death returns the attempt, and nothing has happened. After it the
campaign is released, or it failed after noise: epsilon is spent as promised, and sellers are paid. If the
line cannot be shipped, no noise is drawn: the attempt is returned, and a line ``return`` follows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign import people, schema
from dpmarket.campaign.acts import WORKER, Caller, Campaign, Tx, act, campaign_of, lock_campaign, step
from dpmarket.campaign.campaigns import describe, end_campaign
from dpmarket.campaign.database import Market
from dpmarket.campaign.participations import count, end_all, of, pay_all, selling_state, units_of
from dpmarket.campaign.seal import Opener, destroy_key
from dpmarket.campaign.staging import stage
from dpmarket.errors import FileProblem, MarketRefusal

_own, _person, _attempt = schema.participation.c, schema.person.c, schema.attempt.c
_sealed, _document = schema.sealed.c, schema.document.c


@dataclass(frozen=True, eq=False)
class Sellers:
    """The people whose epsilon a training spends, in the order of their digests.

    Attributes
    ----------
    participations, digests, names
        Row ids, keyed digests of ids, and of files the ids.
    epsilons, payments, pools
        What each was promised, in epsilon and minor units, and from which escrow.
    """

    participations: list[int]
    digests: list[bytes]
    names: list[str | None]
    epsilons: FloatArray
    payments: list[int]
    pools: list[str]

    def to_frame(self) -> pl.DataFrame:
        """Return the snapshot that a repair needs."""
        kinds = {"digest": pl.Binary, "name": pl.String, "epsilon": pl.Float64, "payment": pl.Int64}
        columns = {
            "digest": self.digests,
            "name": self.names,
            "epsilon": self.epsilons,
            "payment": self.payments,
            "pool": self.pools,
        }
        return pl.DataFrame(columns, schema={**kinds, "pool": pl.String})


class RecordSource(Protocol):
    """Where records come from: sealed rows, a table, or many files."""

    def people(self) -> set[bytes] | None:
        """Return the digests of everybody in it, before the debit; None if that cannot be known."""
        ...

    def read(self, sellers: Sellers) -> Any:
        """Return the records of these sellers, in their order; what cannot be read is a public zero row."""
        ...

    def destroy(self) -> None:
        """Destroy what could read the records again, before noise is drawn."""
        ...


@dataclass(frozen=True, eq=False)
class Result:
    """What a release came to.

    Attributes
    ----------
    document
        The released model or statistics, as bytes.
    epsilons, weights
        What each seller really spent, at most what was promised, and with which weight.
    """

    document: bytes
    epsilons: FloatArray
    weights: FloatArray


SellersAsTheyAre = Annotated[Sellers, pydantic.SkipValidation]
ResultAsItIs = Annotated[Result, pydantic.SkipValidation]
Release = Callable[[Any, Sellers, Callable[[], None]], Result]
"""Draws noise, once, from records and sellers; it calls the third argument in the moment before.

What it raises before that is refused as if nothing had happened. A second call of the function does nothing.
"""


def train(
    market: Market, campaign: int, source: RecordSource, release: Release, caller: Caller = WORKER
) -> bytes:
    """Spend a campaign once, and return its released document; a second call returns the same.

    Raises
    ------
    MarketRefusal
        The campaign cannot be trained now.
    DpmarketError
        No release. Before the commit point the campaign is as it was; after it, it has failed after noise.
    """
    recover(market, campaign)
    there = released(market, campaign)
    if there is not None:
        return there
    _refuse_absent(market, campaign, source)
    attempt = secrets.token_hex(16)
    with market.alive(attempt) as free:
        assert free, "a random name is free"
        sellers = market.run(debit, caller, campaign, attempt)
        is_committed = False

        def before_noise() -> None:
            nonlocal is_committed
            if not is_committed:
                market.run(commit, caller, campaign, attempt, sellers)
                is_committed = True
                source.destroy()

        try:
            records = source.read(sellers)
            result = release(records, sellers, before_noise)
            before_noise()
            market.run(enter_release, caller, campaign, attempt, sellers, result)
        except BaseException as problem:
            if not is_committed:
                _give_back(market, caller, campaign, attempt)
            elif isinstance(problem, Exception):
                market.run(fail, caller, campaign, attempt)
            raise
    return result.document


def _give_back(market: Market, caller: Caller, campaign: int, attempt: str) -> None:
    """Return an attempt before noise, also one whose commit point could not be shipped."""
    try:
        market.run(return_, caller, campaign, attempt)
    except FileProblem:
        # The log cannot be written, or another copy went on. Returning only frees: it is entered in any case,
        # and shipped by a later act, or after a repair.
        market.transact(lambda tx: return_(tx, caller, campaign, attempt), verified=False)
        raise


def released(market: Market, campaign: int) -> bytes | None:
    """Return a campaign's released document; None if there is none."""
    with market.look() as c:
        query = sa.select(_document.body).where(_document.campaign == campaign, _document.kind == "released")
        found = c.execute(query).scalar()
    return None if found is None else bytes(found)


def _refuse_absent(market: Market, campaign: int, source: RecordSource) -> None:
    """Refuse records that lack people whose epsilon would be spent."""
    there = source.people()
    if there is None:
        return
    with market.look() as c:
        selling = of(campaign, selling_state(campaign_of(c, campaign).channel))
        query = sa.select(_person.digest).join(schema.participation, _own.person == _person.id)
        absent = sum(bytes(one) not in there for one in c.execute(query.where(selling)).scalars())
    if absent:
        raise MarketRefusal(
            "invalid",
            f"The records lack {absent} sellers. Find their records, or let these sellers lapse "
            "(withdraw --absent-from).",
        )


def sellers_of(c: sa.Connection, found: Campaign) -> Sellers:
    """Return the people whose epsilon a campaign would spend now."""
    query = (
        sa.select(_own.id, _person.digest, _person.name, _own.epsilon, _own.payment, _own.pool)
        .join(schema.person, _person.id == _own.person)
        .where(of(found.id, selling_state(found.channel)))
        .order_by(_person.digest)
    )
    rows = c.execute(query).all()
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True)) if rows else [()] * 6
    return Sellers(
        list(columns[0]),
        [bytes(one) for one in columns[1]],
        list(columns[2]),
        np.array(columns[3], dtype=float),
        list(columns[4]),
        list(columns[5]),
    )


@act("worker")
def debit(tx: Tx, caller: Caller, campaign: int, attempt: str) -> Sellers:
    """Begin a training: from now on nobody leaves; return its sellers."""
    found = lock_campaign(tx, campaign)
    if found.state != state_before(found):
        raise MarketRefusal("state", f"The campaign is {found.state}; it cannot be trained now.")
    sellers = sellers_of(tx.c, found)
    if not sellers.participations:
        raise MarketRefusal("state", "Nobody sells: there is nothing to train on.")
    if found.channel != "live":
        others = [state for state in schema.ACTIVE if state != selling_state(found.channel)]
        end_all(tx, found, of(campaign, *others), "expired")
    values = {"id": attempt, "campaign": campaign, "state": "debited", "debited_at": tx.now}
    tx.c.execute(schema.attempt.insert(), values)
    step(tx, campaign, (found.state,), state="training")
    tx.event(campaign, "training")
    return sellers


@act("worker")
def commit(tx: Tx, caller: Caller, campaign: int, attempt: str, sellers: SellersAsTheyAre) -> int:
    """Pass the commit point: from now on epsilon is spent and sellers are paid; return its tick."""
    found = lock_campaign(tx, campaign)
    named = tx.snapshot(attempt, sellers.to_frame())
    _move_attempt(tx, attempt, ("debited",), state="committed", committed_at=tx.now)
    tick = tx.commit_point("spend", campaign=describe(found), attempt=attempt, snapshot=named)
    tx.c.execute(schema.attempt.update().where(_attempt.id == attempt).values(tick=tick))
    return tick


@act("worker")
def return_(tx: Tx, caller: Caller, campaign: int, attempt: str) -> None:
    """Return an attempt that drew no noise: the campaign is as it was before the debit."""
    found = lock_campaign(tx, campaign)
    was = tx.c.execute(sa.select(_attempt.state).where(_attempt.id == attempt)).scalar()
    if was not in ("debited", "committed"):
        return
    _move_attempt(tx, attempt, (was,), state="returned", ended_at=tx.now)
    if found.state == "training":
        step(tx, campaign, ("training",), state=state_before(found))
    tx.event(campaign, "returned")
    if was == "committed":
        tx.commit_point("return", campaign=describe(found), attempt=attempt)


def state_before(found: Campaign) -> str:
    """Return the state from which a campaign is trained."""
    if found.channel == "live":
        return "closed"
    return "offered" if found.mechanism == "offline" else "open"


@act("worker")
def enter_release(
    tx: Tx, caller: Caller, campaign: int, attempt: str, sellers: SellersAsTheyAre, result: ResultAsItIs
) -> None:
    """Enter a release: its document, what everybody spent, and what everybody is owed."""
    found = lock_campaign(tx, campaign)
    used = np.asarray(result.epsilons, dtype=float)
    if used.shape != sellers.epsilons.shape or not (used <= sellers.epsilons * (1.0 + 1e-12)).all():
        raise MarketRefusal("invalid", "The release spent more epsilon than was promised.")
    rows = pl.DataFrame(
        {
            "id": pl.Series(sellers.participations, dtype=pl.Int64),
            "used": used,
            "weight": np.asarray(result.weights, dtype=float),
        }
    )
    staged = stage(tx, "staged_use", "id", rows)
    tx.c.execute(
        schema.participation.update()
        .where(_own.id == staged.c.id, _own.campaign == campaign)
        .values(epsilon_used=staged.c.used, weight=staged.c.weight)
    )
    selling = of(campaign, selling_state(found.channel))
    tx.c.execute(
        schema.document.insert(),
        {"campaign": campaign, "kind": "released", "body": result.document, "at": tx.now},
    )
    spent = units_of(tx, _own.epsilon_used)
    # At least one unit: a row that spends epsilon spends delta, and says so.
    _end_training(tx, found, attempt, "released", sa.case((spent < 1, 1), else_=spent), selling)


@act("worker")
def fail(tx: Tx, caller: Caller, campaign: int, attempt: str) -> None:
    """Enter that a training failed after noise: epsilon is spent as promised, and sellers are paid."""
    found = lock_campaign(tx, campaign)
    if found.state == "training":
        selling = of(campaign, selling_state(found.channel))
        _end_training(tx, found, attempt, "failed", units_of(tx, _own.epsilon), selling)


def _end_training(tx: Tx, found: Campaign, attempt: str, state: str, charge: Any, selling: Any) -> None:
    pay_all(tx, found, selling, charge)
    own = sa.select(_own.id).where(_own.campaign == found.id)
    tx.c.execute(schema.sealed.delete().where(_sealed.participation.in_(own)))
    _move_attempt(tx, attempt, ("committed",), state=state, ended_at=tx.now)
    step(tx, found.id, ("training",), state=state, reason=None if state == "released" else "noise")
    tx.event(found.id, state)
    tx.job("ended", found.id, tx.now, lane="mail")
    if found.channel == "live":
        tx.job("sweep_key", found.id, tx.now)
        tx.job("certify", found.id, tx.now)


def _move_attempt(tx: Tx, attempt: str, before: tuple[str, ...], **values: Any) -> None:
    changed = tx.c.execute(
        schema.attempt.update().where(_attempt.id == attempt, _attempt.state.in_(before)).values(**values)
    )
    if changed.rowcount != 1:
        raise MarketRefusal("state", "Another process ended this training.")


def recover(market: Market, campaign: int | None = None) -> list[tuple[int, str]]:
    """End trainings whose processes died; return campaigns and what became of each attempt.

    The database alone decides: a ``debited`` attempt returns, a ``committed`` one failed after noise.
    """
    query = sa.select(_attempt.id, _attempt.campaign, _attempt.state).where(
        sa.or_(_attempt.state == "debited", _attempt.state == "committed")
    )
    if campaign is not None:
        query = query.where(_attempt.campaign == campaign)
    with market.look() as c:
        running = c.execute(query).all()
    ended = []
    for row in running:
        with market.alive(row.id) as free:
            if not free:
                continue
            with market.look() as c:  # it may have ended before its lock was free
                state = c.execute(sa.select(_attempt.state).where(_attempt.id == row.id)).scalar()
            if state in ("debited", "committed"):
                market.run(return_ if state == "debited" else fail, WORKER, row.campaign, row.id)
                ended.append((int(row.campaign), "returned" if state == "debited" else "failed"))
    return ended


@act("worker")
def cancel_empty(tx: Tx, caller: Caller, campaign: int) -> str:
    """End a closed campaign that everybody has left; return its state."""
    found = lock_campaign(tx, campaign)
    if found.state == "closed" and count(tx.c, of(campaign, selling_state(found.channel))) == 0:
        end_campaign(tx, found, "cancelled", "nobody")
        return "cancelled"
    return found.state


class SealedRecords:
    """Records of a live campaign: sealed rows, and the key that opens them.

    Parameters
    ----------
    market, campaign
        Whose.
    decode
        Turns opened rows into records; a row that does not open is None: the public zero row.
    """

    def __init__(self, market: Market, campaign: int, decode: Callable[[list[bytes | None]], Any]) -> None:
        self._market, self._campaign, self._decode = market, campaign, decode
        with market.look() as c:
            self._public = bytes(campaign_of(c, campaign).public_key or b"")

    def people(self) -> set[bytes] | None:
        """Return None: delivered records are there."""
        return None

    def read(self, sellers: Sellers) -> Any:
        """Open and decode the sealed rows of these sellers."""
        if self._market.keys is None:
            raise FileProblem("no private keys are here: a worker has them.")
        opener = Opener(self._market.keys, str(self._campaign), self._public)
        query = (
            sa.select(_sealed.participation, _sealed.body)
            .join(schema.participation, _own.id == _sealed.participation)
            .where(_own.campaign == self._campaign, _sealed.kind == "record")
        )
        with self._market.look() as c:
            bodies = {int(who): bytes(body) for who, body in c.execute(query)}
        opened = [
            opener.open(bodies.get(who, b""), "record", str(self._campaign), str(who))
            for who in sellers.participations
        ]
        return self._decode(opened)

    def destroy(self) -> None:
        """Destroy the campaign's private key."""
        if self._market.keys is not None:
            destroy_key(self._market.keys, str(self._campaign), self._public)


class TableRecords:
    """Records of a file campaign: a table with a column of ids.

    Parameters
    ----------
    key
        The market's key.
    table
        The records, one or more rows for each person.
    id_column
        Which column has the ids.
    """

    def __init__(self, key: bytes, table: pl.DataFrame, id_column: str = "id") -> None:
        ids = table.get_column(id_column).cast(pl.String).to_list()
        digests = pl.Series("digest", people.person_digests(key, ids), dtype=pl.Binary)
        self._table = table.with_columns(digests)

    def people(self) -> set[bytes] | None:
        """Return the digests of everybody in the table."""
        return set(self._table.get_column("digest").to_list())

    def read(self, sellers: Sellers) -> Any:
        """Return the rows of these sellers, with a column ``seller``: the place of each in their order."""
        order = pl.DataFrame(
            {"digest": pl.Series(sellers.digests, dtype=pl.Binary), "seller": range(len(sellers.digests))}
        )
        return order.join(self._table, on="digest", maintain_order="left").drop("digest")

    def destroy(self) -> None:
        """Do nothing: a file's owner has the records anyway."""


def market_key(market: Market) -> bytes:
    """Return the key of digests of ids."""
    with market.look() as c:
        return bytes(c.execute(sa.select(schema.market.c.key)).scalar_one())
