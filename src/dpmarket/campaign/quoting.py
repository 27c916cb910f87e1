"""Quotes: the one place where a reported cost becomes an epsilon and a payment.

Online, a seller with a reservation reports a cost and gets the point of a public, stateless price schedule;
the cost is not stored. Offline, reports are sealed until the time to report is over; a function of the frozen
reports decides outside of any transaction, and one act enters the result. A file of reports is many acts at
once: consent, report, quote and acceptance of everybody in it.
"""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import WORKER, Caller, Cost, act
from dpmarket.campaign.campaigns import end_campaign, hold_quotes, sellers_rules
from dpmarket.campaign.database import Market
from dpmarket.campaign.line import refuse_unless_open
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.money import count, end_all, enter_staged, forget_sealed, hold_all, leave, of
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.seal import opener_of, seal
from dpmarket.campaign.sellers import put_sealed
from dpmarket.campaign.staging import frame, stage
from dpmarket.campaign.transaction import (
    Campaign,
    Participation,
    Tx,
    campaign_of,
    lock_campaign,
    require,
    step,
)
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule

_own, _person, _sealed = schema.participation.c, schema.person.c, schema.sealed.c
_LEFT = -1  # in place of room in the limits: the log says that this person withdrew


@dataclass(frozen=True, eq=False)
class Reports:
    """Frozen reports, in an order that says nothing: by the keyed digests of ids."""

    names: list[str]  # under which certificates know them: of files the ids, else the digests
    costs: FloatArray  # in money per unit of epsilon
    pools: list[str]  # the account of escrow that each would be paid from: the group


@dataclass(frozen=True, eq=False)
class Decision:
    """What a mechanism decided about frozen reports."""

    epsilons: FloatArray
    amounts: IntArray  # payments in whole minor units, never below a seller's loss
    offer: dict[str, Any]  # public facts about the decision, for the certificate


DecisionAsIs = Annotated[Decision, pydantic.SkipValidation]
Decide = Callable[[Reports], Decision]  # a mechanism: a function of frozen reports
DecideAsIs = Annotated[Decide, pydantic.SkipValidation]
_ENTERED = ("state", "reason", "pool", "epsilon", "payment")


@dataclass(frozen=True)
class Quote:
    """What a seller is offered: ``epsilon`` for ``payment`` minor units, to be accepted until a time."""

    epsilon: float
    payment: int
    until: str | None


def priced(schedule: PriceSchedule, costs: FloatArray, minor_units: int) -> tuple[FloatArray, IntArray]:
    """Return what a schedule quotes: epsilons, and payments in whole minor units, never below the loss."""
    epsilons, payments = schedule.quote(costs)
    amounts = whole_units(payments, minor_units, costs, schedule.amount(costs))
    return epsilons, np.where(epsilons > 0.0, np.maximum(amounts, 1), 0)


def schedules_from(offer: str) -> dict[str, PriceSchedule]:
    """Return the price schedules of a frozen offer by pool."""
    return {pool: PriceSchedule.from_dict(data) for pool, data in json.loads(offer).items()}


_by_digest: dict[str, dict[str, PriceSchedule]] = {}
_MOST_OFFERS = 64


def schedule_of(c: sa.Connection, me: Participation) -> PriceSchedule:
    """Return the price schedule of a seller's group."""
    found = _by_digest.get(me.offer_digest)
    if found is None:
        if len(_by_digest) >= _MOST_OFFERS:
            _by_digest.clear()
        found = _by_digest[me.offer_digest] = schedules_from(campaign_of(c, me.campaign).offer)
    return found[me.pool] if me.pool in found else found[money.ESCROW]


def refuse_without_reservation(me: Participation, now: str) -> None:
    """Refuse the menu to sellers who have no reservation, or no longer one."""
    require(me.state == "reserved", "state", "Only sellers with a reservation can do this.")
    require(me.until > now, "expired", "The reservation has ended; ask for another one.")


@act("seller")
def choose(tx: Tx, me: Participation, cost: Cost) -> Quote:
    """Report a cost and get its quote; a quote of 0 ends the participation as priced out."""
    refuse_unless_open(tx, me)
    refuse_without_reservation(me, tx.now)
    epsilons, amounts = priced(schedule_of(tx.c, me), np.array([cost]), me.minor_units)
    epsilon, payment = float(epsilons[0]), int(amounts[0])
    fits = payment <= me.money_held and people.epsilon_units(epsilon) <= me.epsilon_held
    require(fits, "state", "The offer is larger than the campaign's rules allow.")
    if payment == 0:
        leave(tx, me, "priced_out", epsilon=0.0, payment=0)
        return Quote(0.0, 0, None)
    until = min(tx.later(tx.terms.quote), me.deliver_until or tx.later(tx.terms.quote))
    rest = money.voiding(me.campaign, me.pool, me.money_held - payment, places=0)
    event = tx.new_event(me.campaign, "quoted", me.id)
    tx.move(me, "quoted", rest, event, epsilon=epsilon, payment=payment, money_held=payment, until=until)
    return Quote(epsilon, payment, until)


@act("seller")
def report(tx: Tx, me: Participation, cost: Cost) -> None:
    """Report a cost to an offline campaign; it is sealed until the time to report is over."""
    refuse_unless_open(tx, me)
    require(me.mechanism == "offline", "state", "In this campaign sellers choose from a menu.")
    has_room = me.state == "waiting" and people.hold_limits(tx, me.person, me.ceiling, me.delta)
    can = me.state == "consented" or has_room
    require(can, "state", "Only sellers who consented and have room in their limits can report, once.")
    held = me.ceiling if has_room else me.epsilon_held
    tx.move(me, "reported", epsilon_held=held, reason=None, until=None)
    put_sealed(tx, me, "cost", struct.pack("<d", cost))
    tx.event(me.campaign, "reported", me.id)


def clear_campaign(market: Market, campaign: int, decide: Decide) -> str:
    """Quote all sellers of an offline campaign at once, or cancel it for good; return its state."""
    with market.look() as c:
        found = campaign_of(c, campaign)
        if found.state != "clearing":
            return str(found.state)
        query = (
            sa.select(_own.id, _person.digest, _own.pool, _sealed.body)
            .join(schema.person, _person.id == _own.person)
            .join(schema.sealed, _sealed.participation == _own.id)
            .where(of(campaign, "reported"), _sealed.kind == "cost")
            .order_by(_person.digest)
        )
        rows = c.execute(query).all()
    opener = opener_of(market.keys, str(campaign), found.public_key)
    opened = [opener.open(one.body, "cost", str(campaign), str(one.id)) or b"" for one in rows]
    kept = [row for row, content in zip(rows, opened, strict=True) if len(content) == 8]
    costs = np.array([struct.unpack("<d", content)[0] for content in opened if len(content) == 8])
    reports = Reports([row.digest.hex() for row in kept], costs, [row.pool for row in kept])
    try:
        if not kept:
            raise Infeasible("no report can be opened.")
        decision = decide(reports)
    except (Infeasible, InvalidInput, NotConverged):
        market.run(cancel_clearing, WORKER, campaign, "infeasible")
        return "cancelled"
    body, operator = None, market.operator_key()
    if operator is not None:
        table = pl.DataFrame({"id": reports.names, "cost": costs})
        body = seal(operator, table.write_csv().encode(), "costs", str(campaign))
    state = str(market.run(clear, WORKER, campaign, [row.id for row in kept], decision, body))
    return clear_campaign(market, campaign, decide) if state == "clearing" else state


@act("worker")
def cancel_clearing(tx: Tx, caller: Caller, campaign: int, reason: str) -> None:
    """End a campaign whose clearing cannot be decided, with the reason that everybody is shown."""
    found = lock_campaign(tx, campaign)
    if found.state == "clearing":
        end_campaign(tx, found, "cancelled", reason)


@act("worker")
def clear(
    tx: Tx, caller: Caller, campaign: int, who: list[int], decision: DecisionAsIs, costs: bytes | None = None
) -> str:
    """Enter what was decided about participations: hold all quotes, or none and a debt; return the state.

    If one of them withdrew meanwhile, nothing is entered, and the campaign is still ``clearing``: a decision
    is certified with everybody whom it was about. ``costs`` are the reports, sealed for an auditor.
    """
    found = lock_campaign(tx, campaign)
    if found.state != "clearing":
        return str(found.state)
    amounts = decision.amounts
    _refuse_beyond(found, decision.epsilons)
    quotes = {"id": pl.Series(who, dtype=pl.Int64), "epsilon": decision.epsilons, "payment": amounts}
    staged = stage(tx, "staged_quotes", "id", pl.DataFrame(quotes))
    reported = of(campaign, "reported")
    if count(tx.c, sa.and_(reported, _own.id.in_(sa.select(staged.c.id)))) < len(who):
        return "clearing"
    decided = sa.and_(reported, _own.id == staged.c.id)
    tx.set(schema.participation, decided, epsilon=staged.c.epsilon, payment=staged.c.payment)
    if costs is not None:
        tx.add(schema.document, campaign=campaign, kind="costs", body=costs, at=tx.now)
    unbought = sa.or_(_own.payment.is_(None), _own.payment == 0)
    end_all(tx, found, sa.and_(reported, unbought), "priced_out")
    tx.events(reported, "quoted")
    forget_sealed(tx, reported, "cost")
    tx.set(schema.participation, reported, state="quoted", until=found.deliver_until)
    if not (amounts > 0).any():
        end_campaign(tx, found, "cancelled", "nothing")
        return "cancelled"
    offer = canonical(decision.offer)
    state, debt = ("offered", 0) if hold_quotes(tx, found) else ("unpaid", _debt(tx, found))
    facts = {"offer": offer, "offer_digest": digest_of(offer), "cleared_at": tx.now}
    step(tx, campaign, ("clearing",), state=state, debt=debt, **facts)
    if state == "offered":
        tx.job("close", campaign, found.deliver_until)
    tx.event(campaign, state)
    return state


def _refuse_beyond(found: Campaign, epsilons: FloatArray) -> None:
    largest = people.epsilon_units(float(np.max(epsilons, initial=0.0)))
    within = largest <= found.ceiling
    require(within, "invalid", "An epsilon was decided that is above the campaign's ceiling.")


def _debt(tx: Tx, found: Campaign) -> int:
    """Return what a buyer must pay: what is missing, rounded up to steps of what a batch can expect."""
    free = money.free_by_pool(tx.c, found.id)
    pools = money.sums_by_pool(tx.c, of(found.id, "quoted"), _own.payment)
    missing = max(money.needed(pools, free) - free[money.ESCROW], 0)
    expected = sellers_rules(found).expected or 1000
    width = max(-(-tx.terms.batch * sum(free.values()) // expected), 1)
    return -(-missing // width) * width


@act("operator")
def import_reports(
    tx: Tx, caller: Caller, campaign: int, reports: pl.DataFrame, decide: DecideAsIs
) -> pl.DataFrame:
    """Quote everybody in a file of reports who has no quote yet, and enter that they accept.

    Reports have the columns ``id``, ``cost`` and, for groups, ``group``. Offline the same reports give the
    same quotes again, and others are refused: a campaign is one purchase. Return new people:
    id, epsilon, payment in minor units and state, without those for whom escrow has no room.
    """
    found = lock_campaign(tx, campaign)
    table, digest = _frozen(tx.market_key, reports)
    if found.mechanism == "offline" and found.reports_digest is not None:
        sentence = "This campaign was quoted for other reports: begin another campaign for these."
        require(found.reports_digest == digest, "state", sentence)
    table = table.join(_standings(tx.c, found), on="digest", how="left", maintain_order="left")
    new = table.filter(pl.col("known").is_null())
    if new.height == 0:
        return quotes_in(people_of(tx.c, found).clear())
    is_open = found.state == "open" and found.channel == "file"
    require(is_open, "state", "Reports come from files while the campaign is open.")
    room = new.filter(pl.col("room").fill_null(1) == 1)
    minimum = sellers_rules(found).minimum
    enough = found.mechanism != "offline" or room.height >= minimum
    require(enough, "few", f"{room.height} people reported, and the rules ask for {minimum}.")
    names, pools = (room.get_column(name).to_list() for name in ("name", "pool"))
    frozen = Reports(names, room.get_column("cost").to_numpy(), pools)
    decision = decide(frozen) if room.height else Decision(np.zeros(0), np.zeros(0, dtype=np.int64), {})
    _refuse_beyond(found, decision.epsilons)
    quotes = room.with_columns(epsilon=pl.Series(decision.epsilons), payment=pl.Series(decision.amounts))
    if found.mechanism != "offline" and not found.self_funded:
        quotes = _with_room(quotes.sort("row"), money.room_by_pool(tx.c, campaign), int(found.largest or 0))
    state = pl.when(pl.col("payment") > 0).then(pl.lit("accepted")).otherwise(pl.lit("priced_out"))
    withdrew = pl.when(pl.col("room") == _LEFT)
    left = new.filter(pl.col("room") <= 0).with_columns(
        state=withdrew.then(pl.lit("withdrawn")).otherwise(pl.lit("excluded")),
        reason=withdrew.then(None).otherwise(pl.lit("limit")),
    )
    both = pl.concat([quotes.with_columns(state=state), left], how="diagonal").sort("digest")
    _enter_quotes(tx, found, both.select("digest", "name", *_ENTERED))
    facts: dict[str, Any] = {"reports_digest": digest}
    if found.mechanism == "offline":
        offer = canonical(decision.offer)
        facts |= {"state": "offered", "offer": offer, "offer_digest": digest_of(offer), "cleared_at": tx.now}
    step(tx, campaign, ("open",), **facts)
    tx.event(campaign, "imported")
    return quotes_in(both)


def quotes_in(table: pl.DataFrame) -> pl.DataFrame:
    """Return the quotes of people of a file campaign, by id."""
    return table.select("epsilon", "payment", "state", id="name")


def _enter_quotes(tx: Tx, found: Campaign, quotes: pl.DataFrame) -> None:
    """Enter participations, and hold the payments and limits of those who accept."""
    staged = stage(tx, "staged_people", "digest", quotes)
    people.enter_people(tx, staged)
    last = tx.c.scalar(sa.select(sa.func.max(_own.id))) or 0
    sold = staged.c.state == "accepted"
    held = {
        "money_held": sa.case((sold, staged.c.payment), else_=0),
        "epsilon_held": sa.case((sold, found.ceiling), else_=0),
    }
    enter_staged(tx, found, staged, {name: staged.c[name] for name in _ENTERED} | held)
    added = sa.and_(of(found.id, "accepted"), _own.id > last)
    if found.self_funded:
        for pool, amount, _ in money.sums_by_pool(tx.c, added, _own.money_held):
            money.enter_funds(tx, found.id, pool, amount)
    is_held = hold_all(tx, found, added)
    require(is_held, "funds", "Escrow has less than these quotes come to; fund the campaign.")


def _with_room(quotes: pl.DataFrame, room: dict[str, tuple[int, int | None]], largest: int) -> pl.DataFrame:
    """Return the first quotes of each pool, in the order of the file, that escrow and quota have room for.

    The largest payment is set aside before a report is looked at; where that does not fit, nobody later in
    this pool has room either, so that no report decides about its own room.
    """
    amounts, pools = quotes.get_column("payment").to_numpy(), quotes.get_column("pool")
    fits = np.zeros(amounts.size, dtype=bool)
    for name in pools.unique():
        of = np.flatnonzero((pools == name).to_numpy())
        free, places = room.get(name, (0, None))
        before = np.cumsum(amounts[of]) - amounts[of]
        fits[of] = before <= free - largest
        if places is not None:
            sold = (amounts[of] > 0).astype(np.int64)
            fits[of] &= np.cumsum(sold) - sold < places
    return quotes.filter(pl.Series(fits))


def _frozen(key: bytes, reports: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return reports with digests and pools, sorted by digest, and the digest of all of them."""
    ids = reports.get_column("id").cast(pl.String).to_list()
    digests = people.person_digests(key, ids)
    is_once = len(set(digests)) == len(digests)
    require(is_once, "invalid", "An id stands in two rows of the reports.")
    costs = reports.get_column("cost").cast(pl.Float64).to_numpy()
    is_cost = (np.isfinite(costs) & (costs >= 0.0)).all()
    require(is_cost, "invalid", "Expected finite costs of at least 0 in all rows of the reports.")
    pool = pl.lit(money.ESCROW)
    if "group" in reports.columns:
        pool = pl.concat_str(pl.lit(money.pool_of("")), pl.col("group"))
    table = reports.select(
        row=pl.int_range(pl.len()),
        name=pl.Series(ids),
        cost=pl.Series(costs),
        pool=pool,
        digest=pl.Series(digests, dtype=pl.Binary),
    ).sort("digest")
    content = b"".join(table.get_column("digest")) + table.get_column("cost").to_numpy().tobytes()
    if "group" in reports.columns:
        content += json.dumps(table.get_column("pool").to_list()).encode()
    return table, hashlib.blake2b(content, key=key, digest_size=32).hexdigest()


def reports_digest_of(key: bytes, reports: pl.DataFrame) -> str:
    """Return the digest by which a campaign knows its reports (columns ``id`` and ``cost``)."""
    return _frozen(key, reports)[1]


def _standings(c: sa.Connection, found: Campaign) -> pl.DataFrame:
    """Return which people are in the campaign already, or have no room for it in their limits."""
    left = _withdrawn_by_name(c, found)
    mine = sa.and_(_own.person == _person.id, _own.campaign == found.id)
    fits = sa.case((people.has_room(found.ceiling, found.delta), 1), else_=0)
    query = sa.select(_person.digest, _own.id, fits).outerjoin(schema.participation, mine)
    table = frame(c, query, digest=pl.Binary, known=pl.Int64, room=pl.Int64)
    gone = pl.DataFrame({"digest": pl.Series(sorted(left), dtype=pl.Binary)}).with_columns(left=True)
    table = table.join(gone, on="digest", how="full", coalesce=True)
    return table.select("digest", "known", pl.when("left").then(_LEFT).otherwise("room").alias("room"))


def _withdrawn_by_name(c: sa.Connection, found: Campaign) -> set[bytes]:
    """Return people who withdrew from a file campaign of this name, by the log, whatever its id was."""
    log = schema.commit_log.c
    left: set[bytes] = set()
    for text in c.scalars(sa.select(log.line).where(log.line.like('%"kind":"withdrawn"%'))):
        body = json.loads(text)["body"]
        if body["campaign"]["name"] == found.name and body["campaign"]["channel"] == found.channel == "file":
            left.update(bytes.fromhex(one) for one in body["people"])
    return left
