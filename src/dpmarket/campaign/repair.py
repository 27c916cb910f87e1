"""Repair: enter what only the log knows, after a backup was put back, the log was lost, or a copy went on.

In one transaction, missing lines of the log are replayed in order; the database's own lines that were never
shipped are entered again after them. A ``spend`` makes its campaign fail after noise, with everybody in its
snapshot spent and paid, or released where the released document is given; ``withdrawn``, ``payout`` and
``refund`` are entered as they were. Money that came in since the backup is entered as far as it went out.

If the log itself is lost, a live campaign whose private key exists cannot have drawn noise and goes on; the
promises of all other campaigns count as spent, and are paid.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import (
    PARTICIPATION,
    Campaign,
    Participation,
    Tx,
    campaign_of,
    lock_campaign,
    step,
)
from dpmarket.campaign.campaigns import ENDED, end_campaign
from dpmarket.campaign.database import (
    UNLIMITED,
    Market,
    _engine,
    has_tables,
    lines_after,
    make_tables,
    open_market,
)
from dpmarket.campaign.log import Line, Log, digest_of, log_of_place, make_line
from dpmarket.campaign.participations import (
    active,
    count,
    end_all,
    leave,
    of,
    pay_all,
    selling_state,
    units_of,
)
from dpmarket.campaign.payouts import payouts_of
from dpmarket.campaign.seal import has_key
from dpmarket.campaign.staging import stage
from dpmarket.campaign.training import recover, state_before
from dpmarket.errors import FileProblem, MarketRefusal

_own, _person, _attempt, _transfer = (
    schema.participation.c,
    schema.person.c,
    schema.attempt.c,
    schema.transfer.c,
)


def repair(
    url: str | os.PathLike[str],
    state: str | os.PathLike[str],
    keys: str | os.PathLike[str] | None = None,
    *,
    log_lost: bool = False,
    released: Mapping[int | str, bytes] | None = None,
) -> list[str]:
    """Enter commit points that a database lacks; return a word for each: its kind.

    Parameters
    ----------
    url, state, keys
        As for :func:`~dpmarket.campaign.database.open_market`; a missing database is made from the log.
    log_lost
        Write the log anew from the database; without it, a lost log is refused.
    released
        Released documents by the campaign's id or name, which exist elsewhere: these campaigns are
        released, not failed.

    Raises
    ------
    FileProblem
        The log, a snapshot or the database cannot be read, or the log is of another market.
    """
    _make_from_log(url, Path(state))
    with open_market(url, state, keys) as market:
        if log_lost:
            done = _replace_log(market)
        else:
            lines = market.log.lines()
            done = market.transact(
                lambda tx: _enter_missing(tx, market, lines, released or {}), verified=False
            )
        market.ship()
        recover(market)
    return list(done)


def _make_from_log(url: str | os.PathLike[str], state: Path) -> None:
    """Make a database that is not there from the first line of its log."""
    place, engine = _engine(url, make=True)
    try:
        if has_tables(engine):
            return
        log = log_of_place(state, place)
        if log is None:
            raise FileProblem(f"cannot repair {place}: there is no market, and no log in {state} knows one.")
        first = log.lines()[0]
        make_tables(engine)
        body = first.content["body"]
        row = {
            "one": 1,
            "id": body["id"],
            "key": bytes.fromhex(body["key"]),
            "cap": UNLIMITED,
            "delta_cap": UNLIMITED,
            "tick": 1,
            "head": first.digest,
            "made_at": first.content["at"],
        }
        with engine.connect().execution_options(dpmarket_writing=True) as c, c.begin():
            c.execute(schema.market.insert().values(row))
            c.execute(schema.commit_log.insert().values(tick=1, line=first.text, digest=first.digest))
    finally:
        engine.dispose()


def _enter_missing(
    tx: Tx, market: Market, lines: list[Line], released: Mapping[int | str, bytes]
) -> list[str]:
    own = lines_after(tx.c, 0)
    if lines and own and lines[0].digest != own[0].digest:
        raise FileProblem(f"cannot repair {market.place}: {market.log.path} is the log of another market.")
    if len(lines) < tx.row.shipped:
        raise FileProblem(
            f"cannot repair {market.place}: its log is too short. Name the right state folder, or say that "
            "the log is lost (--log-lost)."
        )
    same = 0
    while same < min(len(own), len(lines)) and own[same].digest == lines[same].digest:
        same += 1
    missing = lines[same:]
    _return_debited(tx)
    undone = {one.content["body"]["attempt"] for one in missing if one.content["kind"] == "return"}
    for line in missing:
        content = line.content
        if content["kind"] == "spend" and content["body"]["attempt"] in undone:
            continue
        _REPLAYS[content["kind"]](tx, market.log, content["body"], released)
    _rewrite_rows(tx, same, missing, own[same:])
    return [one.content["kind"] for one in missing]


def _rewrite_rows(tx: Tx, same: int, missing: list[Line], own: list[Line]) -> None:
    """Put missing lines after the common ones, and the database's own unshipped lines after them."""
    log, market = schema.commit_log, schema.market
    tx.c.execute(log.delete().where(log.c.tick > same))
    lines = list(missing)
    head = missing[-1].digest if missing else None
    if head is None:
        query = sa.select(log.c.digest).where(log.c.tick == same)
        head = str(tx.c.execute(query).scalar() or "")
    for line in own:
        content = line.content
        again = make_line(same + len(lines) + 1, content["at"], content["kind"], content["body"], head)
        lines.append(again)
        head = again.digest
    if lines:
        rows = [{"tick": one.tick, "line": one.text, "digest": one.digest} for one in lines]
        tx.c.execute(log.insert(), rows)
    tick = same + len(lines)
    tx.c.execute(market.update().values(tick=tick, head=head, shipped=same + len(missing)))


def _return_debited(tx: Tx) -> None:
    """Return attempts that had not passed their commit point when the backup was made."""
    query = sa.select(_attempt.id, _attempt.campaign).where(_attempt.state == "debited")
    for attempt, campaign in tx.c.execute(query).all():
        found = lock_campaign(tx, campaign)
        tx.c.execute(
            schema.attempt.update().where(_attempt.id == attempt).values(state="returned", ended_at=tx.now)
        )
        if found.state == "training":
            step(tx, campaign, ("training",), state=state_before(found))


def _campaign(tx: Tx, described: Mapping[str, Any]) -> Campaign:
    """Return a campaign that a line names, entered if the database does not know it."""
    try:
        return lock_campaign(tx, described["id"])
    except MarketRefusal:
        pass
    member, of_name = schema.member.c, schema.campaign.c
    owner = tx.c.execute(sa.select(member.id).where(member.id == described["owner"])).scalar()
    taken = sa.select(of_name.id).where(
        of_name.name == described["name"], of_name.owner.is_not_distinct_from(owner)
    )
    name = described["name"]
    if tx.c.execute(taken).first() is not None:
        name = f"{name} ({described['id']})"
    values = {key: described[key] for key in described if key not in ("name", "owner")}
    tx.c.execute(
        schema.campaign.insert(),
        {
            **values,
            "name": name,
            "owner": owner,
            "state": "released" if described["channel"] == "account" else "open",
            "rules_digest": digest_of(described["rules"]),
            "made_at": tx.now,
        },
    )
    if described["channel"] != "account":
        money.make_accounts(tx, described["id"])
    return lock_campaign(tx, described["id"])


def _replay_spend(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Enter that an attempt passed its commit point: everybody in its snapshot is spent, and paid."""
    table = log.read_snapshot(body["snapshot"])
    found = _campaign(tx, body["campaign"])
    if found.state == "training":  # by an attempt of its own that is dead
        tx.c.execute(
            schema.attempt.update()
            .where(_attempt.campaign == found.id, _attempt.state == "committed")
            .values(state="returned", ended_at=tx.now)
        )
    end_all(tx, found, active(found.id), "lapsed", "repair")
    rows = _unspent(tx, found, table)
    staged = stage(tx, "staged_spend", "person", rows)
    _make_room(tx, found, staged)
    _enter_spent(tx, found, staged)
    if found.channel == "account":
        return
    _pay(tx, found, rows, body["attempt"])
    document = released.get(found.id, released.get(body["campaign"]["name"]))
    state = found.state
    if state not in ENDED or state == "cancelled":
        state = "failed" if document is None else "released"
        reason = "repair" if document is None else None
        step(tx, found.id, (found.state,), state=state, reason=reason, debt=0)
    if document is not None:
        values = {"campaign": found.id, "kind": "released", "body": document, "at": tx.now}
        tx.c.execute(tx.insert(schema.document).values(values).on_conflict_do_nothing())
    values = {"campaign": found.id, "state": state, "committed_at": tx.now, "ended_at": tx.now}
    known = sa.select(_attempt.id).where(_attempt.id == body["attempt"])
    if tx.c.execute(known).first() is not None:
        tx.c.execute(schema.attempt.update().where(_attempt.id == body["attempt"]).values(values))
    elif tx.c.execute(sa.select(_attempt.id).where(
        _attempt.campaign == found.id, _attempt.state != "returned")).first() is None:  # fmt: skip
        tx.c.execute(schema.attempt.insert(), {**values, "id": body["attempt"], "debited_at": tx.now})
    tx.event(found.id, state)


def _unspent(tx: Tx, found: Campaign, table: pl.DataFrame) -> pl.DataFrame:
    """Return the people of a snapshot whom the database does not know as spent, entered as people."""
    staged = stage(tx, "staged_people", "digest", table)
    people.enter_people(tx, staged)
    mine = sa.and_(_own.person == _person.id, _own.campaign == found.id)
    query = (
        sa.select(_person.id, _own.id, staged.c.epsilon, staged.c.payment, staged.c.pool)
        .join(schema.person, _person.digest == staged.c.digest)
        .outerjoin(schema.participation, mine)
        .where(sa.or_(_own.id.is_(None), _own.state != "spent"))
    )
    kinds = {"person": pl.Int64, "known": pl.Int64, "epsilon": pl.Float64, "payment": pl.Int64}
    rows = pl.DataFrame(tx.c.execute(query).all(), schema={**kinds, "pool": pl.String}, orient="row")
    units = [people.epsilon_units(one) for one in rows.get_column("epsilon")]
    return rows.with_columns(units=pl.Series(units, dtype=pl.Int64))


def _make_room(tx: Tx, found: Campaign, staged: sa.Table) -> None:
    """End other participations of people whose limits have no room, and count what was spent in any case."""
    epsilon = _person.epsilon_held + _person.epsilon_spent + staged.c.units
    delta = _person.delta_used + found.delta
    full = sa.select(_person.id).join(staged, staged.c.person == _person.id)
    full = full.where(sa.or_(epsilon > _person.epsilon_cap, delta > _person.delta_cap))
    for person in tx.c.execute(full).scalars().all():
        others = PARTICIPATION.where(_own.person == person, _own.state.in_(schema.ACTIVE))
        for one in tx.c.execute(others).all():
            me = Participation(*one)
            if me.campaign_state != "training":
                leave(tx, me, "withdrawn", reason="repair")
    raised = {
        "epsilon_cap": sa.case((epsilon > _person.epsilon_cap, epsilon), else_=_person.epsilon_cap),
        "delta_cap": sa.case((delta > _person.delta_cap, delta), else_=_person.delta_cap),
    }
    tx.c.execute(schema.person.update().where(_person.id == staged.c.person).values(raised))


def _enter_spent(tx: Tx, found: Campaign, staged: sa.Table) -> None:
    bought = staged.c.payment > 0
    quoted = {
        "epsilon": sa.case((bought, staged.c.epsilon), else_=None),
        "payment": sa.case((bought, staged.c.payment), else_=None),
    }
    tx.c.execute(
        schema.participation.update()
        .where(_own.id == staged.c.known)
        .values(
            **quoted,
            state="spent",
            pool=staged.c.pool,
            epsilon_spent=staged.c.units,
            reason="repair",
            until=None,
        )
    )
    values = {
        "campaign": sa.literal(found.id, schema.WHOLE),
        "person": staged.c.person,
        "state": sa.literal("spent"),
        "reason": sa.literal("repair"),
        "pool": staged.c.pool,
        **quoted,
        "epsilon_spent": staged.c.units,
        "since": sa.literal(tx.now),
    }
    new = sa.select(*(value.label(name) for name, value in values.items())).where(staged.c.known.is_(None))
    tx.c.execute(schema.participation.insert().from_select(list(values), new))
    tx.c.execute(
        schema.person.update()
        .where(_person.id == staged.c.person)
        .values(
            epsilon_spent=_person.epsilon_spent + staged.c.units, delta_used=_person.delta_used + found.delta
        )
    )


def _pay(tx: Tx, found: Campaign, rows: pl.DataFrame, name: str) -> None:
    """Owe people of a snapshot their payments, from escrow; what it lacks came in since the backup."""
    account = schema.account.c
    for pool, amount, number in (
        rows.group_by("pool")
        .agg(pl.col("payment").sum(), (pl.col("payment") > 0).sum().alias("people"))
        .sort("pool")
        .iter_rows()
    ):
        _fill(tx, found.id, pool, amount, f"repair/{name}/{pool}")
        money.post(tx, found.id, "pay", pool, money.PAYABLE, amount, ref=f"repair/{name}/{pool}/pay")
        tx.c.execute(
            schema.account.update()
            .where(account.campaign == found.id, account.name == pool)
            .values(taken=account.taken + number, quota=None)
        )


def _fill(tx: Tx, campaign: int, pool: str, amount: int, ref: str) -> None:
    """Enter money into a pool as far as it lacks an amount; a pool that is not there is made."""
    if money.balance(tx.c, campaign, pool) is None:
        tx.c.execute(schema.account.insert(), {"campaign": campaign, "name": pool})
    missing = amount - money.free_by_pool(tx.c, campaign)[pool]
    if missing > 0:
        money.enter_funds(tx, campaign, pool, missing, ref=ref)


def _replay_return(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Enter that a committed attempt drew no noise, unless it was entered as failed already."""
    query = sa.select(_attempt.state).where(_attempt.id == body["attempt"])
    if tx.c.execute(query).scalar() == "committed":
        tx.c.execute(schema.attempt.update().where(_attempt.id == body["attempt"]).values(state="debited"))
        _return_debited(tx)


def _replay_withdrawn(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Enter that people left a campaign; one that the database does not know needs no rows."""
    for text in body["people"]:
        digest = bytes.fromhex(text)
        if body["no_invitations"]:
            person = people.enter_person(tx, digest)
            tx.c.execute(schema.person.update().where(_person.id == person).values(invitable=0))
        query = PARTICIPATION.join(schema.person, _person.id == _own.person).where(
            _own.campaign == body["campaign"]["id"], _person.digest == digest
        )
        row = tx.c.execute(query).one_or_none()
        if row is not None and row.state in schema.ACTIVE:
            leave(tx, Participation(*row), "withdrawn")
        elif (
            row is None
            and tx.c.execute(
                sa.select(schema.campaign.c.id).where(schema.campaign.c.id == body["campaign"]["id"])
            ).first()
        ):
            person = people.enter_person(tx, digest)
            values = {"campaign": body["campaign"]["id"], "person": person, "state": "withdrawn"}
            tx.c.execute(schema.participation.insert(), {**values, "since": tx.now})


def _replay_payout(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Enter that payments were handed out: they are never handed out again."""
    table = log.read_snapshot(body["snapshot"])
    found = _campaign(tx, body["campaign"])
    if any(one.id == body["payout"] for one in payouts_of(tx.c, found.id)):
        return
    came_back = total = number = 0
    for digest, returns, payment in table.select("digest", "returns", "payment").iter_rows():
        query = (
            sa.select(_own.id, _own.payout, _own.returns)
            .join(schema.person, _person.id == _own.person)
            .where(_own.campaign == found.id, _person.digest == digest, _own.state == "spent")
        )
        row = tx.c.execute(query).one_or_none()
        if row is None:
            continue
        if row.payout is not None and returns > row.returns:  # a return that the backup does not know
            came_back += payment
        elif row.payout is not None:
            continue
        tx.c.execute(
            schema.participation.update()
            .where(_own.id == row.id)
            .values(payout=body["payout"], returns=returns, paid_at=None)
        )
        total, number = total + payment, number + 1
    values = {"id": body["payout"], "campaign": found.id, "number": body["number"], "people": number}
    tx.c.execute(schema.payout.insert(), {**values, "amount": total, "made_at": tx.now})
    money.post(tx, found.id, "returned", money.OUTSIDE, money.PAYABLE, came_back)
    ref = f"payout/{body['payout']}"
    money.post(tx, found.id, "payout", money.PAYABLE, money.OUTSIDE, total, ref=ref)


def _replay_refund(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Enter that money left escrow; the campaign has ended."""
    found = _campaign(tx, body["campaign"])
    if tx.c.execute(sa.select(_transfer.id).where(_transfer.ref == body["ref"])).first() is not None:
        return
    if found.state not in ENDED:
        if found.state == "training":
            raise FileProblem("a campaign is training and its money was refunded; its log was edited.")
        end_campaign(tx, found, "cancelled", "repair")
    _fill(tx, found.id, body["pool"], body["amount"], f"repair/{body['ref']}")
    money.post(tx, found.id, "refund", body["pool"], money.OUTSIDE, body["amount"], ref=body["ref"])


def _replay_begun(tx: Tx, log: Log, body: Mapping[str, Any], released: Mapping[int | str, bytes]) -> None:
    """Do nothing: the market is there."""


_REPLAYS = {
    "begun": _replay_begun,
    "spend": _replay_spend,
    "return": _replay_return,
    "withdrawn": _replay_withdrawn,
    "payout": _replay_payout,
    "refund": _replay_refund,
}


def _replace_log(market: Market) -> list[str]:
    """Write a lost log anew; promises of campaigns that may have drawn noise count as spent, and are paid."""
    with market.look() as c:
        lines = lines_after(c, 0)
        shipped = c.execute(sa.select(schema.market.c.shipped)).scalar_one()
        campaign = schema.campaign.c
        is_live = c.execute(sa.select(campaign.id).where(campaign.channel == "live")).first() is not None
    last = market.log.last()
    if last is not None and last.tick >= shipped:
        raise FileProblem(f"cannot replace {market.log.path}: it is not shorter than it should be.")
    if market.keys is None and is_live:
        raise FileProblem("name the folder of private keys: it tells which campaigns drew no noise.")
    keys = market.keys

    def spend(tx: Tx) -> list[str]:
        _return_debited(tx)
        done = []
        states = ("open", "clearing", "unpaid", "offered", "closed", "training")
        query = sa.select(schema.campaign.c.id).where(schema.campaign.c.state.in_(states))
        for identity in tx.c.execute(query).scalars().all():
            found = campaign_of(tx.c, identity)
            public = found.public_key
            alive = keys is not None and public is not None and has_key(keys, str(identity), public)
            if found.state != "training" and not (found.channel == "live" and alive):
                done.append(_spend_in_doubt(tx, lock_campaign(tx, identity)))
        return done

    done = market.transact(spend, verified=False)
    market.log.rewrite(lines)
    return list(done)


def _spend_in_doubt(tx: Tx, found: Campaign) -> str:
    """End a campaign of which nobody knows whether noise was drawn: spent and paid where money is held."""
    selling = of(found.id, selling_state(found.channel))
    if count(tx.c, selling) == 0:
        end_campaign(tx, found, "cancelled", "repair")
        return "cancelled"
    pay_all(tx, found, selling, units_of(tx, _own.epsilon))
    end_all(tx, found, active(found.id), "lapsed", "repair")
    step(tx, found.id, (found.state,), state="failed", reason="repair", debt=0)
    tx.event(found.id, "failed")
    return "failed"
