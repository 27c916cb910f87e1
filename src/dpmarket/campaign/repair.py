"""Backups, and repair: enter what only the log knows, after one was put back or the log was lost.

In one transaction, missing lines of the log are replayed in order; the database's own lines that were never
shipped are entered again after them. A ``spend`` makes its campaign fail after noise, with everybody in its
snapshot spent and paid, or released where the released document is given; ``withdrawn``, ``payout`` and
``refund`` are entered as they were. Money that came in since the backup is entered as far as it went out.

If the log itself is lost, a live campaign whose private key exists cannot have drawn noise and goes on; the
promises of all other campaigns count as spent, and are paid.

A backup of a SQLite file is one, made by SQLite's online backup; of a PostgreSQL database it is what
``pg_dump`` writes. Private keys and the log are in neither. After a copy is put back, all tokens are deleted:
revoked ones could have come back.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess  # nosec B404
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.campaigns import ENDED, end_campaign
from dpmarket.campaign.checks import refuse_unbalanced
from dpmarket.campaign.database import Market, Url, is_address, lines_after, make_from_log, open_market
from dpmarket.campaign.log import Line, digest_of, make_line, tick_of
from dpmarket.campaign.money import count, end_all, hold_all, leave, of, pay_all, selling, units_of
from dpmarket.campaign.partitions import enter_rows, rest_of, void_rest
from dpmarket.campaign.payouts import Payout, enter_payout, payouts_of
from dpmarket.campaign.seal import has_key
from dpmarket.campaign.sellers import participation_by
from dpmarket.campaign.staging import frame, stage
from dpmarket.campaign.training import recover, return_attempt
from dpmarket.campaign.transaction import PARTICIPATION, Campaign, Tx, lock_campaign, market_row, step
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import PRIVATE, atomic_path

_own, _person, _attempt = schema.participation.c, schema.person.c, schema.attempt.c
Released = Mapping[int | str, bytes]
_PLAIN = ("--no-owner", "--no-privileges", "--no-password")


def repair(
    url: Url, state: Url, keys: Url | None = None, *, log_lost: bool = False, released: Released | None = None
) -> list[str]:
    """Enter commit points that a database lacks; return a word for each: its kind.

    A missing database is made from the log. ``log_lost`` writes the log anew from the database; without it, a
    lost log is refused. ``released`` has documents that exist elsewhere by the campaign's id or name: these
    campaigns are released, not failed.
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
    return done


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
        missing = [(line.content["kind"], line.content["body"]) for line in lines[same:]]
        _return_debited(tx)
        undone = {body["attempt"] for kind, body in missing if kind == "return"}
        for kind, body in missing:
            drew_nothing = kind == "spend" and body["attempt"] in undone
            if kind != "begun" and not drew_nothing:
                getattr(self, f"replay_{kind}")(tx, body)
        _rewrite_rows(tx, lines[:same], lines[same:], own[same:])
        return [kind for kind, _ in missing]

    def replay_spend(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that an attempt passed its commit point: everybody in its snapshot is spent, and paid."""
        table, name = self.log.read_snapshot(body["snapshot"]), body["attempt"]
        found = _campaign(tx, body["campaign"])
        # By attempts of its own that are dead.
        dead = sa.and_(_attempt.campaign == found.id, _attempt.id != name, _attempt.state == "committed")
        tx.set(schema.attempt, dead, state="returned", ended_at=tx.now)
        end_all(tx, found, of(found.id, *schema.ACTIVE), "lapsed", "repair")
        _spend_again(tx, found, table, name)
        if found.channel == "account":
            return
        document = self.released.get(found.id, self.released.get(body["campaign"]["name"]))
        state = found.state
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

    def replay_return(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that a committed attempt drew no noise, unless it was entered as failed already."""
        if tx.c.scalar(sa.select(_attempt.id).where(_attempt.id == body["attempt"])) is not None:
            return_attempt(tx, body["campaign"]["id"], body["attempt"])

    def replay_withdrawn(self, tx: Tx, body: Mapping[str, Any]) -> None:
        """Enter that people left a campaign; one that the database does not know needs no rows."""
        campaign = body["campaign"]["id"]
        is_known = _is_known(tx, campaign)
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

    def replay_payout(self, tx: Tx, body: Mapping[str, Any]) -> None:
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

    def replay_refund(self, tx: Tx, body: Mapping[str, Any]) -> None:
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
    identity, name, of, member = described["id"], described["name"], schema.campaign.c, schema.member.c
    if not _is_known(tx, identity):
        owner = tx.c.scalar(sa.select(member.id).where(member.id == described["owner"]))
        taken = sa.and_(of.name == name, of.owner.is_not_distinct_from(owner))
        if tx.c.scalar(sa.select(of.id).where(taken)) is not None:
            name = f"{name} ({identity})"
        is_account = described["channel"] == "account"
        own = {"owner": owner, "name": name, "state": "released" if is_account else "open", "made_at": tx.now}
        tx.add(schema.campaign, **{**described, **own, "rules_digest": digest_of(described["rules"])})
        if not is_account:
            money.make_accounts(tx, identity)
    return lock_campaign(tx, identity)


def _is_known(tx: Tx, campaign: int) -> bool:
    of_id = schema.campaign.c.id
    return tx.c.scalar(sa.select(of_id).where(of_id == campaign)) is not None


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
    kinds = {"person": pl.Int64, "known": pl.Int64, "epsilon": pl.Float64, "payment": pl.Int64}
    rows = frame(tx.c, query, **kinds, pool=pl.String)
    units = pl.Series([people.epsilon_units(one) for one in rows.get_column("epsilon")], dtype=pl.Int64)
    staged = stage(tx, "staged_spend", "person", rows.with_columns(units=units))
    _make_room(tx, found, staged)
    is_paid, sold = staged.c.payment > 0, selling(found)
    values = {
        "state": sa.literal(money.selling_state(found.channel)),
        "reason": sa.literal("repair"),
        "pool": staged.c.pool,
        "epsilon": sa.case((is_paid, staged.c.epsilon), else_=None),
        "payment": sa.case((is_paid, staged.c.payment), else_=None),
        "money_held": staged.c.payment,
        "epsilon_held": staged.c.units,
    }
    tx.set(schema.participation, _own.id == staged.c.known, **values)
    campaign, since = sa.literal(found.id, schema.WHOLE), sa.literal(tx.now)
    new = {"campaign": campaign, "person": staged.c.person, "since": since, **values}
    chosen = sa.select(*new.values()).where(staged.c.known.is_(None))
    tx.c.execute(schema.participation.insert().from_select(list(new), chosen))
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
        for me in tx.c.execute(others).all():
            if me.campaign_state != "training":
                leave(tx, me, "withdrawn", reason="repair")
    used = {
        "epsilon_cap": _person.epsilon_held + _person.epsilon_spent + staged.c.units,
        "delta_cap": _person.delta_used + found.delta,
    }
    raised = {cap: sa.case((units > _person[cap], units), else_=_person[cap]) for cap, units in used.items()}
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
        lines, shipped, campaign = lines_after(c, 0), market_row(c).shipped, schema.campaign.c
        is_live = c.scalar(sa.select(campaign.id).where(campaign.channel == "live").limit(1)) is not None
    if tick_of(market.log.last()) >= max(shipped, 1):
        raise FileProblem(f"cannot replace {market.log.path}: it is not shorter than it should be.")
    if market.keys is None and is_live:
        raise FileProblem("name the folder of private keys: it tells which campaigns drew no noise.")
    keys = market.keys

    def spend(tx: Tx) -> list[str]:
        _return_debited(tx)
        done = []
        states = [state for state in schema.CAMPAIGN if state not in ("draft", "training")]
        for identity in tx.c.scalars(sa.select(campaign.id).where(campaign.state.in_(states))).all():
            found = lock_campaign(tx, identity)
            public = found.public_key
            if keys is None or public is None or not has_key(keys, str(identity), public):
                done.append(_spend_in_doubt(tx, found))
        return done

    done: list[str] = market.transact(spend, verified=False)
    market.log.rewrite(lines)
    return done


def _spend_in_doubt(tx: Tx, found: Campaign) -> str:
    """End a campaign of which nobody knows whether noise was drawn: spent and paid where money is held."""
    state = "failed" if count(tx.c, selling(found)) or rest_of(tx.c, found.id)[1] else "cancelled"
    pay_all(tx, found, selling(found), units_of(tx, _own.epsilon))
    end_campaign(tx, found, state, "repair")
    return state


def back_up(url: Url, target: Url, programs: Path | None = None) -> None:
    """Copy a market's database, as it is at one moment, to a new file, by ``pg_dump`` in ``programs``."""
    with atomic_path(target, overwrite=False, mode=PRIVATE) as temporary:
        if is_address(url):
            _run("pg_dump", programs, os.fspath(url), "--format=custom", *_PLAIN, f"--file={temporary}")
            return
        copy = sqlite3.connect(temporary)
        source = _sqlite(f"file:{Path(url).absolute()}?mode=rw", f"cannot copy {url}")
        with source as opened, contextlib.closing(copy):
            opened.backup(copy)
        _refuse_damaged(temporary, f"cannot copy {url}")


def put_back(source: Url, url: Url, programs: Path | None = None) -> None:
    """Put a copy where there is no database; :func:`restore` also enters what it lacks."""
    if is_address(url):
        whole = ("--single-transaction", "--exit-on-error")
        _run("pg_restore", programs, os.fspath(url), *whole, *_PLAIN, str(source))
        return
    path = Path(url)
    if path.exists() or path.with_name(path.name + "-wal").exists():
        raise FileProblem(f"cannot put back {source}: {path} exists; stop the service and move it away.")
    with atomic_path(path, overwrite=False, mode=PRIVATE) as temporary:
        shutil.copyfile(source, temporary)
        _refuse_damaged(temporary, f"cannot put back {source}")


def _refuse_damaged(path: Path, refusal: str) -> None:
    """Refuse what is no whole SQLite file, before it stands in the place of a database."""
    with _sqlite(f"file:{path}?mode=ro&immutable=1", refusal) as connection:
        damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        raise FileProblem(f"{refusal}: it is damaged.")


@contextlib.contextmanager
def _sqlite(address: str, refusal: str) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            yield connection
    except sqlite3.Error as problem:
        raise FileProblem(f"{refusal}: {problem}.") from None


def restore(
    source: Url, url: Url, state: Url, keys: Url | None = None, programs: Path | None = None
) -> list[str]:
    """Put a copy back, repair it, delete all tokens, check it; return what the repair entered."""
    put_back(source, url, programs)
    entered = repair(url, state, keys)
    with open_market(url, state, keys) as market:
        market.transact(lambda tx: tx.delete(schema.token, sa.true()))
        refuse_unbalanced(market)
    return entered


def _run(program: str, programs: Path | None, address: str, *arguments: str) -> None:
    """Call a program of PostgreSQL on a database; the password goes by the environment."""
    found = shutil.which(program, path=None if programs is None else str(programs))
    if found is None:
        raise FileProblem(f"cannot find {program}: install PostgreSQL's client programs.")
    url = sa.make_url(address).set(drivername="postgresql")
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    shown = url.set(password=None).render_as_string(hide_password=False)
    # A program that the operator named; arguments are a list, and no shell reads them.
    done = subprocess.run(  # nosec B603
        [found, *arguments, f"--dbname={shown}"], env=environment, capture_output=True, check=False
    )
    if done.returncode != 0:  # its words may hold rows
        raise FileProblem(f"{program} failed with code {done.returncode}.")
