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

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign import schema
from dpmarket.campaign.acts import WORKER, Caller, act
from dpmarket.campaign.campaigns import describe, end_campaign
from dpmarket.campaign.database import Market
from dpmarket.campaign.money import end_all, of, pay_all, selling, selling_state, units_of
from dpmarket.campaign.partitions import CHANNEL, enter_spending, people_of
from dpmarket.campaign.seal import destroy_key, opener_of
from dpmarket.campaign.staging import stage
from dpmarket.campaign.transaction import Campaign, Tx, body_of, campaign_of, lock_campaign, require, step
from dpmarket.errors import FileProblem

_own, _person, _attempt = schema.participation.c, schema.person.c, schema.attempt.c
_sealed = schema.sealed.c


Sellers: TypeAlias = pl.DataFrame
"""The people whose epsilon a training spends, in the order of the keyed digests of their ids.

``name`` is of files the id; ``epsilon`` as promised; ``payment`` in minor units; ``id`` of the participation.
"""
_SELLERS: dict[str, Any] = {
    "digest": pl.Binary, "name": pl.String, "epsilon": pl.Float64, "payment": pl.Int64, "pool": pl.String,
    "id": pl.Int64,
}  # fmt: skip


def sellers_by(digests: list[bytes], names: Any = None, epsilons: Any = 1.0) -> Sellers:
    """Return people who are paid nothing and have no participations."""
    own = {"digest": digests, "name": names, "epsilon": epsilons, "payment": 0, "pool": "escrow", "id": 0}
    return pl.DataFrame(own, schema=_SELLERS)


Read = Callable[[Sellers], Any]
"""Returns the records of these sellers, in their order; what cannot be read is a public zero row."""


@dataclass(frozen=True, eq=False)
class Result:
    """What a release came to."""

    document: bytes  # the released model or statistics
    epsilons: FloatArray  # what each seller really spent, at most what was promised
    weights: FloatArray


ResultAsItIs = Annotated[Result, pydantic.SkipValidation]
Release = Callable[[Any, FloatArray, Callable[[], None]], Result]
"""Draws noise, once, from records and sellers' epsilons; it calls the third argument in the moment before.

What it raises before that is refused as if nothing had happened. A second call of the function does nothing.
"""


def train(market: Market, campaign: int, read: Read, release: Release, caller: Caller = WORKER) -> bytes:
    """Spend a campaign once, and return its released document; a second call returns the same.

    If it raises before the commit point the campaign is as it was; after it, it has failed after noise.
    """
    recover(market, campaign)
    there = document_of(market, campaign)
    if there is not None:
        return there
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
                _destroy_key(market, campaign)

        try:
            result = release(read(sellers), sellers.get_column("epsilon").to_numpy(), before_noise)
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


def document_of(market: Market, campaign: int, kind: str = "released") -> bytes | None:
    """Return a document of a campaign, such as what it released; None if there is none."""
    with market.look() as c:
        return body_of(c, campaign, kind)


def sellers_of(c: sa.Connection, found: Campaign) -> Sellers:
    """Return the people whose epsilon a campaign would spend now."""
    state = selling_state(found.channel)
    return people_of(c, found).filter(pl.col("state") == state).select(list(_SELLERS))


@act("worker")
def debit(tx: Tx, caller: Caller, campaign: int, attempt: str) -> Sellers:
    """Begin a training: from now on nobody leaves; return its sellers."""
    found = lock_campaign(tx, campaign)
    can = found.state == state_before(found)
    require(can, "state", f"The campaign is {found.state}; it cannot be trained now.")
    sellers = sellers_of(tx.c, found)
    require(sellers.height, "state", "Nobody sells: there is nothing to train on.")
    if found.channel != "live":
        others = [state for state in schema.ACTIVE if state != selling_state(found.channel)]
        end_all(tx, found, of(campaign, *others), "expired")
    tx.add(schema.attempt, id=attempt, campaign=campaign, state="debited", debited_at=tx.now)
    step(tx, campaign, (found.state,), state="training")
    tx.event(campaign, "training")
    return sellers


@act("worker")
def commit(tx: Tx, caller: Caller, campaign: int, attempt: str, sellers: Sellers) -> int:
    """Pass the commit point: from now on epsilon is spent and sellers are paid; return its tick."""
    found = lock_campaign(tx, campaign)
    named = tx.log.write_snapshot(attempt, sellers.drop("id"))
    _move_attempt(tx, attempt, "debited", state="committed", committed_at=tx.now)
    tick = tx.commit_point("spend", campaign=describe(found), attempt=attempt, snapshot=named)
    tx.set(schema.attempt, _attempt.id == attempt, tick=tick)
    return tick


@act("worker")
def return_(tx: Tx, caller: Caller, campaign: int, attempt: str) -> None:
    """Return an attempt that drew no noise: the campaign is as it was before the debit."""
    was = return_attempt(tx, campaign, attempt)
    if was is not None:
        tx.event(campaign, "returned")
    if was == "committed":
        tx.commit_point("return", campaign=describe(tx.campaign(campaign)), attempt=attempt)


def return_attempt(tx: Tx, campaign: int, attempt: str) -> str | None:
    """Return an attempt that goes on, and its campaign; return what it was, None if it had ended."""
    found = lock_campaign(tx, campaign)
    was = tx.c.scalar(sa.select(_attempt.state).where(_attempt.id == attempt))
    if was not in ("debited", "committed"):
        return None
    _move_attempt(tx, attempt, was, state="returned", ended_at=tx.now)
    if found.state == "training":
        step(tx, campaign, ("training",), state=state_before(found))
    return str(was)


def state_before(found: Campaign) -> str:
    """Return the state from which a campaign is trained."""
    if found.channel == "live":
        return "closed"
    return "offered" if found.mechanism == "offline" else "open"


@act("worker")
def enter_release(
    tx: Tx, caller: Caller, campaign: int, attempt: str, sellers: Sellers, result: ResultAsItIs
) -> None:
    """Enter a release: its document, what everybody spent, and what everybody is owed."""
    found = lock_campaign(tx, campaign)
    used, promised = result.epsilons, sellers.get_column("epsilon").to_numpy()
    within = used.shape == promised.shape and (used <= promised * (1.0 + 1e-12)).all()
    require(within, "invalid", "The release spent more epsilon than was promised.")
    if found.channel == CHANNEL:
        enter_spending(tx, found, sellers.select("name", used=used, weight=result.weights))
    else:
        staged = stage(tx, "staged_use", "id", sellers.select("id", used=used, weight=result.weights))
        mine = sa.and_(_own.id == staged.c.id, _own.campaign == campaign)
        tx.set(schema.participation, mine, epsilon_used=staged.c.used, weight=staged.c.weight)
    tx.add(schema.document, campaign=campaign, kind="released", body=result.document, at=tx.now)
    spent = units_of(tx, _own.epsilon_used)
    # At least one unit: a row that spends epsilon spends delta, and says so.
    _end_training(tx, found, attempt, "released", sa.case((spent < 1, 1), else_=spent))


@act("worker")
def fail(tx: Tx, caller: Caller, campaign: int, attempt: str) -> None:
    """Enter that a training failed after noise: epsilon is spent as promised, and sellers are paid."""
    found = lock_campaign(tx, campaign)
    if found.state == "training":
        _end_training(tx, found, attempt, "failed", units_of(tx, _own.epsilon))


def _end_training(tx: Tx, found: Campaign, attempt: str, state: str, charge: Any) -> None:
    _move_attempt(tx, attempt, "committed", state=state, ended_at=tx.now)
    pay_all(tx, found, selling(found), charge)
    end_campaign(tx, found, state, None if state == "released" else "noise")
    if found.channel == "live":
        tx.job("certify", found.id, tx.now)


def _move_attempt(tx: Tx, attempt: str, before: str, **values: Any) -> None:
    mine = sa.and_(_attempt.id == attempt, _attempt.state == before)
    done = tx.set(schema.attempt, mine, **values) == 1
    require(done, "state", "Another process ended this training.")


def recover(market: Market, campaign: int | None = None) -> list[tuple[int, str]]:
    """End trainings whose processes died; return campaigns and what became of each attempt.

    The database alone decides: a ``debited`` attempt returns, a ``committed`` one failed after noise.
    """
    going_on = sa.or_(_attempt.state == "debited", _attempt.state == "committed")
    query = sa.select(_attempt.id, _attempt.campaign).where(going_on)
    with market.look() as c:
        rows = c.execute(query if campaign is None else query.where(_attempt.campaign == campaign)).all()
    ended = []
    for row in rows:
        with market.alive(row.id) as free:
            if not free:
                continue
            with market.look() as c:  # it may have ended before its lock was free
                state = c.scalar(sa.select(_attempt.state).where(_attempt.id == row.id))
            if state in ("debited", "committed"):
                end, became = (return_, "returned") if state == "debited" else (fail, "failed")
                market.run(end, WORKER, row.campaign, row.id)
                ended.append((row.campaign, became))
    return ended


def sealed_records(market: Market, campaign: int, decode: Callable[[list[bytes | None]], Any]) -> Read:
    """Return what reads records of a live campaign: sealed rows, and the key that opens them.

    ``decode`` turns opened rows into records; a row that does not open is None: the public zero row.
    """

    def read(sellers: Sellers) -> Any:
        mine = sa.select(_sealed.participation, _sealed.body).where(
            _own.campaign == campaign, _sealed.kind == "record"
        )
        with market.look() as c:
            public = campaign_of(c, campaign).public_key
            rows = c.execute(mine.join(schema.participation, _own.id == _sealed.participation)).all()
        bodies, opener = dict(rows), opener_of(market.keys, str(campaign), public)
        return decode(
            [opener.open(bodies.get(one, b""), "record", str(campaign), str(one)) for one in sellers["id"]]
        )

    return read


def _destroy_key(market: Market, campaign: int) -> None:
    """Destroy a live campaign's private key: nobody reads its records again."""
    with market.look() as c:
        public = campaign_of(c, campaign).public_key
    if market.keys is not None and public is not None:
        destroy_key(market.keys, str(campaign), public)
