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
from dpmarket.campaign.campaigns import ENDED, end_campaign
from dpmarket.campaign.database import Market, lines_after, make_from_log, open_market
from dpmarket.campaign.log import Line, digest_of, make_line
from dpmarket.campaign.participations import (
    active,
    count,
    end_all,
    hold_all,
    leave,
    of,
    pay_all,
    selling,
    selling_state,
    units_of,
)
from dpmarket.campaign.partitions import enter_rows, rest_of, void_rest
from dpmarket.campaign.payouts import Payout, enter_payout, payouts_of
from dpmarket.campaign.seal import has_key
from dpmarket.campaign.sellers import participation_by
from dpmarket.campaign.staging import frame, stage
from dpmarket.campaign.training import recover, return_attempt
from dpmarket.campaign.transaction import (
    PARTICIPATION,
    Campaign,
    Participation,
    Tx,
    campaign_of,
    lock_campaign,
    market_row,
    step,
)
from dpmarket.errors import FileProblem

_own, _person, _attempt = schema.participation.c, schema.person.c, schema.attempt.c
Released = Mapping[int | str, bytes]


def repair(
    url: str | os.PathLike[str],
    state: str | os.PathLike[str],
    keys: str | os.PathLike[str] | None = None,
    *,
    log_lost: bool = False,
    released: Released | None = None,
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
    make_from_log(url, Path(state))
    with open_market(url, state, keys) as market:
        if log_lost:
            done = _replace_log(market)
        else:
            replay = _Replay(market, market.log.lines(), released or {})
            done = market.transact(replay.enter_missing, verified=False)
        market.ship()
        recover(market)
    return list(done)


class _Replay:
    """Replays the lines that a database lacks."""

    def __init__(self, market: Market, lines: list[Line], released: Released) -> None:
        self.market, self.lines, self.released, self.log = market, lines, released, market.log

    def enter_missing(self, tx: Tx) -> list[str]:
        """Replay missing lines and put them before the database's own unshipped ones; return their kinds."""
        own, lines, place = lines_after(tx.c, 0), self.lines, self.market.place
        if lines and own and lines[0].digest != own[0].digest:
            raise FileProblem(f"cannot repair {place}: {self.log.path} is the log of another market.")
        if len(lines) < tx.row.shipped:
            raise FileProblem(
                f"cannot repair {place}: its log is too short. Name the right state folder, or say that the "
                "log is lost (--log-lost)."
            )
        same = 0
        while same < min(len(own), len(lines)) and own[same].digest == lines[same].digest:
            same += 1
        missing = [line.content for line in lines[same:]]
        _return_debited(tx)
        undone = {one["body"]["attempt"] for one in missing if one["kind"] == "return"}
        replays = {
            "spend": self.spend,
            "return": self.give_back,
            "withdrawn": self.withdrawn,
            "payout": self.payout,
            "refund": self.refund,
        }
        for one in missing:
            drew_nothing = one["kind"] == "spend" and one["body"]["attempt"] in undone
            if one["kind"] != "begun" and not drew_nothing:
                replays[one["kind"]](tx, one["body"])
        _rewrite_rows(tx, lines[:same], lines[same:], own[same:])
        return [one["kind"] for one in missing]

    def spend(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that an attempt passed its commit point: everybody in its snapshot is spent, and paid."""
        table, name = self.log.read_snapshot(body["snapshot"]), body["attempt"]
        found = _campaign(tx, body["campaign"])
        others = sa.and_(_attempt.campaign == found.id, _attempt.id != name)
        # By attempts of its own that are dead.
        tx.set(
            schema.attempt, sa.and_(others, _attempt.state == "committed"), state="returned", ended_at=tx.now
        )
        end_all(tx, found, active(found.id), "lapsed", "repair")
        _spend_again(tx, found, table, name)
        if found.channel == "account":
            return
        document, state = (
            self.released.get(found.id, self.released.get(body["campaign"]["name"])),
            found.state,
        )
        if state not in ENDED or state == "cancelled":
            state, reason = ("failed", "repair") if document is None else ("released", None)
            step(tx, found.id, (found.state,), state=state, reason=reason, debt=0)
        if document is not None:
            values = {"campaign": found.id, "kind": "released", "body": document, "at": tx.now}
            tx.c.execute(tx.insert(schema.document).values(values).on_conflict_do_nothing())
        ended = {"campaign": found.id, "state": state, "committed_at": tx.now, "ended_at": tx.now}
        if not tx.set(schema.attempt, _attempt.id == name, **ended):
            put = tx.insert(schema.attempt).values(id=name, debited_at=tx.now, **ended)
            tx.c.execute(put.on_conflict_do_nothing())  # one attempt of each campaign is not returned
        tx.event(found.id, state)

    def give_back(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that a committed attempt drew no noise, unless it was entered as failed already."""
        if tx.c.scalar(sa.select(_attempt.id).where(_attempt.id == body["attempt"])) is not None:
            return_attempt(tx, body["campaign"]["id"], body["attempt"])

    def withdrawn(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that people left a campaign; one that the database does not know needs no rows."""
        campaign, of_id = body["campaign"]["id"], schema.campaign.c.id
        is_known = tx.c.scalar(sa.select(of_id).where(of_id == campaign)) is not None
        if is_known:
            enter_rows(tx, lock_campaign(tx, campaign), [bytes.fromhex(one) for one in body["people"]])
        for digest in map(bytes.fromhex, body["people"]):
            if body["no_invitations"]:
                tx.set(schema.person, _person.id == people.enter_person(tx, digest), invitable=0)
            me = participation_by(tx, campaign, digest)
            if me is not None and me.state in schema.ACTIVE:
                leave(tx, me, "withdrawn")
            elif me is None and is_known:
                values = {"person": people.enter_person(tx, digest), "state": "withdrawn", "since": tx.now}
                tx.add(schema.participation, campaign=campaign, **values)

    def payout(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that payments were handed out: they are never handed out again."""
        found = _campaign(tx, body["campaign"])
        if any(one.id == body["payout"] for one in payouts_of(tx.c, found.id)):
            return
        query = sa.select(_own.id, _own.payout, _own.returns).join(schema.person, _person.id == _own.person)
        spent = query.where(_own.campaign == found.id, _own.state == "spent")
        came_back = total = number = 0
        table = self.log.read_snapshot(body["snapshot"]).select("digest", "returns", "payment")
        enter_rows(tx, found, table.get_column("digest").to_list())
        for digest, returns, payment in table.iter_rows():
            row = tx.c.execute(spent.where(_person.digest == digest)).one_or_none()
            if row is None or (row.payout is not None and returns <= row.returns):
                continue
            if row.payout is not None:  # a return that the backup does not know
                came_back += payment
            sent = {"payout": body["payout"], "returns": returns, "paid_at": None}
            tx.set(schema.participation, _own.id == row.id, **sent)
            total, number = total + payment, number + 1
        money.post(tx, found.id, "returned", money.OUTSIDE, money.PAYABLE, came_back)
        enter_payout(tx, found.id, Payout(body["payout"], body["number"], number, total))

    def refund(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that money left escrow; the campaign has ended."""
        found, transfer = _campaign(tx, body["campaign"]), schema.transfer.c
        if tx.c.scalar(sa.select(transfer.id).where(transfer.ref == body["ref"])) is not None:
            return
        if found.state == "training":
            raise FileProblem("a campaign is training and its money was refunded; its log was edited.")
        if found.state not in ENDED:
            end_campaign(tx, found, "cancelled", "repair")
        _fill(tx, found.id, body["pool"], body["amount"], f"repair/{body['ref']}")
        money.post(tx, found.id, "refund", body["pool"], money.OUTSIDE, body["amount"], ref=body["ref"])


def _rewrite_rows(tx: Tx, same: list[Line], missing: list[Line], own: list[Line]) -> None:
    """Put missing lines after the common ones, and the database's own unshipped lines after them."""
    log, lines = schema.commit_log, [*same, *missing]
    for line in own:
        content = line.content
        before = lines[-1].digest if lines else ""
        lines.append(make_line(len(lines) + 1, content["at"], content["kind"], content["body"], before))
    tx.delete(log, log.c.tick > len(same))
    for line in lines[len(same) :]:
        tx.add(log, tick=line.tick, line=line.text, digest=line.digest)
    head, shipped = lines[-1].digest if lines else "", len(same) + len(missing)
    tx.set(schema.market, sa.true(), tick=len(lines), head=head, shipped=shipped)


def _return_debited(tx: Tx) -> None:
    """Return attempts that had not passed their commit point when the backup was made."""
    query = sa.select(_attempt.campaign, _attempt.id).where(_attempt.state == "debited")
    for campaign, attempt in tx.c.execute(query).all():
        return_attempt(tx, campaign, attempt)


def _campaign(tx: Tx, described: Mapping[str, Any]) -> Campaign:
    """Return a campaign that a line names, entered if the database does not know it."""
    identity, of, member = described["id"], schema.campaign.c, schema.member.c
    if tx.c.scalar(sa.select(of.id).where(of.id == identity)) is None:
        owner = tx.c.scalar(sa.select(member.id).where(member.id == described["owner"]))
        taken = sa.and_(of.name == described["name"], of.owner.is_not_distinct_from(owner))
        is_taken = tx.c.scalar(sa.select(of.id).where(taken)) is not None
        is_account = described["channel"] == "account"
        values = {
            **described,
            "owner": owner,
            "name": f"{described['name']} ({identity})" if is_taken else described["name"],
            "state": "released" if is_account else "open",
        }
        tx.add(schema.campaign, **values, rules_digest=digest_of(described["rules"]), made_at=tx.now)
        if not is_account:
            money.make_accounts(tx, identity)
    return lock_campaign(tx, identity)


def _spend_again(tx: Tx, found: Campaign, table: pl.DataFrame, attempt: str) -> None:
    """Enter people of a snapshot whom the database does not know as spent: they sell, are spent and paid."""
    void_rest(tx, found)
    staged = stage(tx, "staged_people", "digest", table)
    people.enter_people(tx, staged)
    mine = sa.and_(_own.person == _person.id, _own.campaign == found.id)
    query = (
        sa.select(_person.id, _own.id, staged.c.epsilon, staged.c.payment, staged.c.pool)
        .join(schema.person, _person.digest == staged.c.digest)
        .outerjoin(schema.participation, mine)
        .where(sa.or_(_own.id.is_(None), _own.state != "spent"))
    )
    numbers = {"person": pl.Int64, "known": pl.Int64, "epsilon": pl.Float64, "payment": pl.Int64}
    rows = frame(tx.c, query, **numbers, pool=pl.String)
    units = pl.Series([people.epsilon_units(one) for one in rows.get_column("epsilon")], dtype=pl.Int64)
    staged = stage(tx, "staged_spend", "person", rows.with_columns(units=units))
    _make_room(tx, found, staged)
    is_paid, sells = staged.c.payment > 0, selling_state(found.channel)
    values = {
        "state": sa.literal(sells),
        "reason": sa.literal("repair"),
        "pool": staged.c.pool,
        "epsilon": sa.case((is_paid, staged.c.epsilon), else_=None),
        "payment": sa.case((is_paid, staged.c.payment), else_=None),
        "money_held": staged.c.payment,
        "epsilon_held": staged.c.units,
    }
    tx.set(schema.participation, _own.id == staged.c.known, **values)
    new = {
        "campaign": sa.literal(found.id, schema.WHOLE),
        "person": staged.c.person,
        "since": sa.literal(tx.now),
        **values,
    }
    columns = (value.label(name) for name, value in new.items())
    chosen = sa.select(*columns).where(staged.c.known.is_(None))
    tx.c.execute(schema.participation.insert().from_select(list(new), chosen))
    sold = of(found.id, sells)
    for pool, amount, _ in money.sums_by_pool(tx.c, sold, _own.money_held):
        if amount:
            _fill(tx, found.id, pool, amount, f"repair/{attempt}/{pool}")
    hold_all(tx, found, sold)
    pay_all(tx, found, sold, _own.epsilon_held, f"repair/{attempt}")


def _make_room(tx: Tx, found: Campaign, staged: sa.Table) -> None:
    """End other participations of people whose limits have no room, and count what was spent in any case."""
    full = sa.select(_person.id).join(staged, staged.c.person == _person.id)
    for person in tx.c.scalars(full.where(sa.not_(people.has_room(staged.c.units, found.delta)))).all():
        others = PARTICIPATION.where(_own.person == person, _own.state.in_(schema.ACTIVE))
        for me in [Participation(*one) for one in tx.c.execute(others)]:
            if me.campaign_state != "training":
                leave(tx, me, "withdrawn", reason="repair")
    epsilon = _person.epsilon_held + _person.epsilon_spent + staged.c.units
    delta = _person.delta_used + found.delta
    raised = {
        "epsilon_cap": sa.case((epsilon > _person.epsilon_cap, epsilon), else_=_person.epsilon_cap),
        "delta_cap": sa.case((delta > _person.delta_cap, delta), else_=_person.delta_cap),
    }
    tx.set(schema.person, _person.id == staged.c.person, **raised)


def _fill(tx: Tx, campaign: int, pool: str, amount: int, ref: str) -> None:
    """Enter money into a pool as far as it lacks an amount; a pool that is missing is made, without quota."""
    account = schema.account.c
    free = money.free_by_pool(tx.c, campaign).get(pool)
    if free is None:
        tx.add(schema.account, campaign=campaign, name=pool)
    tx.set(schema.account, sa.and_(account.campaign == campaign, account.name == pool), quota=None)
    if amount > (free or 0):
        money.enter_funds(tx, campaign, pool, amount - (free or 0), ref=ref)


def _replace_log(market: Market) -> list[str]:
    """Write a lost log anew; promises of campaigns that may have drawn noise count as spent, and are paid."""
    with market.look() as c:
        lines = lines_after(c, 0)
        shipped = market_row(c).shipped
        campaign = schema.campaign.c
        is_live = c.scalar(sa.select(campaign.id).where(campaign.channel == "live").limit(1)) is not None
    last = market.log.last()
    if last is not None and last.tick >= shipped:
        raise FileProblem(f"cannot replace {market.log.path}: it is not shorter than it should be.")
    if market.keys is None and is_live:
        raise FileProblem("name the folder of private keys: it tells which campaigns drew no noise.")
    keys = market.keys

    def spend(tx: Tx) -> list[str]:
        _return_debited(tx)
        done = []
        states = [state for state in schema.CAMPAIGN if state not in ("draft", "training")]
        for identity in tx.c.scalars(sa.select(campaign.id).where(campaign.state.in_(states))).all():
            public = campaign_of(tx.c, identity).public_key
            if keys is None or public is None or not has_key(keys, str(identity), public):
                done.append(_spend_in_doubt(tx, lock_campaign(tx, identity)))
        return done

    done = market.transact(spend, verified=False)
    market.log.rewrite(lines)
    return list(done)


def _spend_in_doubt(tx: Tx, found: Campaign) -> str:
    """End a campaign of which nobody knows whether noise was drawn: spent and paid where money is held."""
    state = "failed" if count(tx.c, selling(found)) or rest_of(tx.c, found.id)[1] else "cancelled"
    pay_all(tx, found, selling(found), units_of(tx, _own.epsilon))
    end_campaign(tx, found, state, "repair")
    return state
