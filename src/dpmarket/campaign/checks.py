"""Checks: keys, books, log, clock, disk and jobs, without changing anything, with what to do about each.

The books balance if every account is the sum of its transfers, every hold is the sum of the holds of
participations, and every lifetime account is the sum of what participations hold and spent.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import partitions, schema
from dpmarket.campaign.campaigns import ENDED
from dpmarket.campaign.database import Market, lines_after
from dpmarket.campaign.log import digest_of
from dpmarket.campaign.money import ESCROW
from dpmarket.campaign.people import EPSILON_UNITS
from dpmarket.campaign.schema import moment_of, time_text
from dpmarket.campaign.seal import OPERATOR, has_key
from dpmarket.campaign.transaction import market_row
from dpmarket.errors import DpmarketError, FileProblem

_own, _person, _transfer = schema.participation.c, schema.person.c, schema.transfer.c
_of, _attempt, _job = schema.campaign.c, schema.attempt.c, schema.job.c
_LITTLE = 500 * 2**20
_AHEAD = timedelta(seconds=5)
_LATE = timedelta(hours=1)


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: its kind in one word, what was found, and what to do."""

    kind: str
    found: str
    todo: str


def findings(market: Market) -> Iterator[Finding]:
    """Give all that is wrong with a market, keys first."""
    yield from _keys(market)
    with market.look() as c:
        for sentence in books(c):
            yield Finding("books", sentence, "Stop the service and put back a backup, then repair.")
        yield from _clock(c, market.clock())
        yield from _jobs(c, market.clock())
    try:
        market.verify()
        market.log.lines()
    except FileProblem as problem:
        yield Finding("log", str(problem), "Run 'dpmarket repair'.")
    yield from _files(market)
    yield from _disk(market)


def _files(market: Market) -> Iterator[Finding]:
    column = schema.partition.c.campaign
    with market.look() as c:
        for campaign in c.scalars(sa.select(column).distinct()).all():
            kinds = (partitions.QUOTES, partitions.SPENDING)
            files = [one for kind in kinds for one in partitions.files_of(c, campaign, kind)]
            wrong = partitions.changed_file(files)
            if wrong is not None:
                yield Finding("files", f"{wrong} is not there as it was written.", "Put it back.")


def books(c: sa.Connection) -> list[str]:
    """Return a sentence for everything that does not add up."""
    return [*_accounts(c), *_people(c), *_states(c), *_chain(c)]


def _accounts(c: sa.Connection) -> Iterator[str]:
    sums: dict[tuple[int, str], int] = {}
    for column, sign in ((_transfer.credit, 1), (_transfer.debit, -1)):
        query = sa.select(_transfer.campaign, column, sa.func.sum(_transfer.amount))
        for campaign, name, amount in c.execute(query.group_by(_transfer.campaign, column)):
            sums[campaign, name] = sums.get((campaign, name), 0) + sign * int(amount)
    paid = sa.and_(_own.state == "spent", _own.payment > 0)
    taken = sa.func.count().filter(sa.or_(_own.money_held > 0, paid))
    holds = sa.select(_own.campaign, _own.pool, sa.func.sum(_own.money_held), taken)
    rows = c.execute(holds.group_by(_own.campaign, _own.pool))
    held = {(campaign, pool): (int(amount), int(places)) for campaign, pool, amount, places in rows}
    debts = sa.select(_own.campaign, sa.func.sum(_own.payment)).where(paid, _own.payout.is_(None))
    unpaid = {row[0]: int(row[1]) for row in c.execute(debts.group_by(_own.campaign))}
    filed = sa.select(_of.id, _of.state).where(_of.channel == partitions.CHANNEL)
    for campaign, state in c.execute(filed.where(_of.state != "cancelled")):
        amount, places = partitions.rest_of(c, campaign)
        is_held = state in partitions.HOLDING
        before = held.get((campaign, ESCROW), (0, 0))
        held[campaign, ESCROW] = (before[0] + (amount if is_held else 0), before[1] + places)
        if not is_held and partitions.first_payout(c, campaign) is None:
            unpaid[campaign] = unpaid.get(campaign, 0) + amount
    for row in c.execute(sa.select(schema.account)):
        what = f"account {row.name} of campaign {row.campaign}"
        if row.balance != sums.pop((row.campaign, row.name), 0):
            yield f"{what}: its balance is not the sum of its transfers."
        if (row.held, row.taken) != held.pop((row.campaign, row.name), (0, 0)):
            yield f"{what}: what it holds is not what participations hold."
        if row.name == "payable" and row.balance != unpaid.get(row.campaign, 0):
            yield f"{what}: its balance is not what sellers are owed."
    for campaign, pool in (key for key, amounts in held.items() if amounts != (0, 0)):
        yield f"campaign {campaign}: money is held in {pool}, which does not exist."


def _people(c: sa.Connection) -> Iterator[str]:
    uses_delta = sa.or_(_own.epsilon_held > 0, _own.epsilon_spent > 0)
    amounts: dict[str, Any] = {"epsilon_held": _own.epsilon_held, "epsilon_spent": _own.epsilon_spent}
    amounts["delta_used"] = sa.case((uses_delta, _of.delta), else_=0)
    columns = (sa.func.sum(amount).label(name) for name, amount in amounts.items())
    joined = sa.select(_own.person, *columns).join(schema.campaign, _of.id == _own.campaign)
    sums = joined.group_by(_own.person).subquery()
    differs = sa.or_(*(_person[name] != sa.func.coalesce(sums.c[name], 0) for name in amounts))
    query = sa.select(_person.id).outerjoin(sums, sums.c.person == _person.id).where(differs)
    wrong = "the lifetime account is not the sum of what campaigns hold and spent"
    yield from _each(c, query, "person", wrong)
    above = sa.and_(_own.epsilon_held > 0, _own.epsilon * float(EPSILON_UNITS) > _own.epsilon_held)
    query = sa.select(_own.id).where(above)
    yield from _each(c, query, "participation", "its epsilon is above what is held for it")
    if c.dialect.name != "sqlite":  # SQLite has foreign keys
        for column, table in ((_own.person, schema.person), (_own.campaign, schema.campaign)):
            query = sa.select(_own.id).where(~sa.exists().where(table.c.id == column))
            yield from _each(c, query, "participation", f"its {table.name} does not exist")


def _states(c: sa.Connection) -> Iterator[str]:
    ended, active = _of.state.in_(ENDED), _own.state.in_(schema.ACTIVE)
    query = sa.select(_of.id).join(schema.participation, _own.campaign == _of.id).where(ended, active)
    yield from _each(c, query.distinct(), "campaign", "it has ended, and some of its sellers have not")
    running = sa.select(_attempt.campaign).where(_attempt.state.in_(("debited", "committed")))
    query = sa.select(_of.id).where((_of.state == "training") != _of.id.in_(running))
    yield from _each(c, query, "campaign", "its state and its training attempts contradict each other")
    sold = sa.and_(_own.state.in_(("accepted", "delivered")), _own.money_held != _own.payment)
    query = sa.select(_own.id).where(sold)
    yield from _each(c, query, "participation", "what is held is not what was promised")


def _each(c: sa.Connection, query: Any, what: str, wrong: str) -> Iterator[str]:
    """Give a sentence for each of the first ten ids that a query finds."""
    for identity in c.scalars(query.limit(10)):
        yield f"{what} {identity}: {wrong}."


def _chain(c: sa.Connection) -> Iterator[str]:
    row, before, tick = market_row(c), "", 0
    for line in lines_after(c, 0):
        tick += 1
        if line.tick != tick or line.digest != digest_of(line.text) or line.content["before"] != before:
            yield f"commit point {line.tick}: it does not follow from the one before."
            return
        before = line.digest
    if (row.tick, row.head) != (tick, before):
        yield "the market's row does not name its last commit point."


def _keys(market: Market) -> Iterator[Finding]:
    if market.keys is None:
        return
    public = market.operator_key()
    with market.look() as c:
        live = c.execute(sa.select(_of.id, _of.state, _of.public_key).where(_of.channel == "live")).all()
    if public is not None and not has_key(market.keys, OPERATOR, public):
        todo = "Name the right folder, or put the key back from its own copy."
        yield Finding("keys", f"the operator's private key is not in {market.keys}.", todo)
    for campaign, state, key in live:
        there = key is not None and has_key(market.keys, str(campaign), key)
        if state in ENDED and there:
            yield Finding("keys", f"campaign {campaign} has ended and its key is there.", "Start a worker.")
        elif state not in (*ENDED, "draft", "training") and not there:
            todo = "Name the right folder: after a day without its key a campaign ends."
            yield Finding("keys", f"the private key of campaign {campaign} is not in {market.keys}.", todo)


def _clock(c: sa.Connection, now: datetime) -> Iterator[Finding]:
    newest = c.scalar(sa.select(sa.func.max(schema.event.c.at)))
    if newest is not None and moment_of(newest) - now > _AHEAD:
        yield Finding("clock", "the clock is behind the newest entry.", "Set the clock.")
    if c.dialect.name != "sqlite":
        there = c.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        if abs(there.astimezone(UTC) - datetime.now(UTC)) > _AHEAD:
            yield Finding("clock", "the database server's clock differs from this one.", "Set both clocks.")


def _jobs(c: sa.Connection, now: datetime) -> Iterator[Finding]:
    late = sa.and_(_job.state == "waiting", _job.due_at < time_text(now - _LATE))
    wrong = sa.or_(late, _job.state == "failed", _job.state == "unknown")
    query = sa.select(_job.kind, _job.state, sa.func.count()).where(wrong).group_by(_job.kind, _job.state)
    for kind, state, number in c.execute(query):
        todo = "Start a worker." if state == "waiting" else "Mend the cause, then run 'dpmarket retry'."
        yield Finding("jobs", f"{number} jobs '{kind}' are {state}.", todo)


def _disk(market: Market) -> Iterator[Finding]:
    folders = {market.log.folder, market.keys, Path(market.place).parent if market.is_file else None}
    for folder in sorted(folder for folder in folders if folder is not None and folder.is_dir()):
        free = shutil.disk_usage(folder).free
        if free < _LITTLE:
            yield Finding("disk", f"{folder} has {free // 2**20} MB left.", "Make room on this disk.")


def refuse_unbalanced(market: Market) -> None:
    """Refuse a market whose books do not balance."""
    with market.look() as c:
        problems = books(c)
    if problems:
        raise DpmarketError(problems[0])
