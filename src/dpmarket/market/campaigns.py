"""Draft, fund, open and cancel campaigns; what is frozen at the opening never changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign.market_file import check_market as checked_market
from dpmarket.campaign.frozen_rules import rules_of
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, balance_of, rounds
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.deltas import LIFETIME_DELTA
from dpmarket.market.desk import lock_ledger, time_text
from dpmarket.market.events import enter_event, enter_event_for_all
from dpmarket.market.holds import void_all
from dpmarket.market.jobs import enter_job
from dpmarket.market.opening import Opening, digest_of, market_of, market_text
from dpmarket.market.people import free_epsilon_of_all

ENDED = ("released", "lost", "cancelled")
LONGEST = timedelta(days=3653)
"""How far ahead a campaign can end: a debt that is paid late moves the end, which must stay a date."""


@dataclass(frozen=True)
class Schedule:
    """When sellers come and until when they send their records.

    Attributes
    ----------
    opens_at, closes_at
        Between these sellers take part and are quoted (offline: report).
    deliver_until
        Until then they accept and send records; then the campaign closes and training begins by itself.
    """

    opens_at: datetime
    closes_at: datetime
    deliver_until: datetime


@dataclass(frozen=True)
class LiveCampaign:
    """A campaign as the desk knows it; the curve itself apart.

    Attributes
    ----------
    campaign, buyer, title
        Its id, whose it is, what people call it.
    state, mechanism
        Where it stands; ``online`` or ``offline``.
    market, market_digest, curve_digest
        The market file as JSON, and what both are known by.
    largest_payment
        What is set aside for a seller at the menu, in minor units; None offline.
    ceiling
        What nobody is asked to exceed, epsilon; None before the opening.
    minor_units, currency
        Of its money.
    escrow, payable
        The ids of its accounts.
    public_key
        To which records are sealed; None before the opening.
    round
        The ledger's round, once its set of sellers is fixed.
    debt
        What the buyer must pay before sellers are asked for anything, in minor units.
    consent_version
        Of the text that sellers agree to.
    opens_at, closes_at, deliver_until, cleared_at
        Times, in UTC.
    """

    campaign: str
    buyer: str
    title: str
    state: str
    mechanism: str
    market: str
    market_digest: str
    curve_digest: str | None
    largest_payment: int | None
    ceiling: float | None
    minor_units: int
    currency: str
    escrow: str
    payable: str
    public_key: bytes | None
    round: int | None
    debt: int
    consent_version: int
    opens_at: str
    closes_at: str
    deliver_until: str
    cleared_at: str | None


def add_member(connection: Connection, name: str, role: str, now: datetime) -> str:
    """Enter somebody who works with the desk: buyer, paymaster, auditor or operator; return their id."""
    if role not in ("buyer", "paymaster", "auditor", "operator"):
        raise MarketRefusal("invalid", "expected the role buyer, paymaster, auditor or operator.")
    identity = new_id()
    values = {"id": identity, "name": name, "role": role, "made_at": time_text(now)}
    connection.execute(tables.member.insert().values(values))
    return identity


def draft_campaign(
    connection: Connection,
    buyer: str,
    title: str,
    market: Mapping[str, Any],
    mechanism: str,
    schedule: Schedule,
    *,
    consent_version: int,
    now: datetime,
) -> LiveCampaign:
    """Enter a campaign that nobody is invited to yet.

    Parameters
    ----------
    buyer
        The id of a member who buys.
    title
        Unique among this buyer's: what others call theirs is nobody's business.
    market
        The market file as plain data.
    mechanism
        ``online``: everybody is quoted when they come, and the money that was set aside is never exceeded.
        ``offline``: everybody reports, then all are quoted at once.
    schedule, consent_version, now
        When, with which text, and the time.

    Raises
    ------
    MarketRefusal
        No such buyer or text, a title that the buyer has used, or times that are out of order.
    FileProblem
        What is wrong with the market file.
    """
    lock_ledger(connection)
    checked = checked_market(market)
    if checked.sellers.excluded is not None or checked.ledger.url is not None:
        raise MarketRefusal(
            "invalid", "expected a market without sellers.excluded and ledger.url: files are not read here."
        )
    if checked.sellers.lifetime_epsilon is not None:
        raise MarketRefusal(
            "invalid",
            "expected a market without sellers.lifetime_epsilon: here people's own limits are kept.",
        )
    if (checked.objective.delta or 0.0) > LIFETIME_DELTA:
        raise MarketRefusal(
            "invalid",
            f"expected objective.delta of at most {LIFETIME_DELTA:g}, which nobody's deltas exceed over all "
            "campaigns of this desk.",
        )
    role = sa.select(tables.member.c.role).where(tables.member.c.id == buyer)
    if connection.execute(role).scalar() != "buyer":
        raise MarketRefusal("unknown", "there is no such buyer.")
    if mechanism not in ("online", "offline"):
        raise MarketRefusal("invalid", "expected the mechanism online or offline.")
    times = [time_text(moment) for moment in (schedule.opens_at, schedule.closes_at, schedule.deliver_until)]
    if schedule.deliver_until - now > LONGEST:
        raise MarketRefusal("invalid", "expected deliver_until within ten years.")
    if not times[0] < times[1] <= times[2] or time_text(now) >= times[1]:
        raise MarketRefusal("invalid", "expected now < closes_at, and opens_at < closes_at <= deliver_until.")
    texts = sa.select(tables.consent.c.version).where(tables.consent.c.version == consent_version)
    if connection.execute(texts).first() is None:
        raise MarketRefusal("unknown", "there is no such consent text.")
    live = tables.live_campaign.c
    known = sa.select(live.campaign).where(live.buyer == buyer, live.title == title)
    if connection.execute(known).first() is not None:
        raise MarketRefusal("state", "you have a campaign of this title already.")
    scale, currency = checked.money.minor_units, checked.money.currency
    entry = rounds.make_campaign(connection, ledger_name(title), None, scale, currency)
    account = ledger_tables.account.c
    kinds = sa.select(account.kind, account.id).where(account.campaign == entry.id)
    accounts: dict[str, str] = {row.kind: row.id for row in connection.execute(kinds)}
    text = market_text(checked)
    values = {
        "campaign": entry.id,
        "buyer": buyer,
        "title": title,
        "state": "draft",
        "mechanism": mechanism,
        "market": text,
        "market_digest": digest_of(text),
        "minor_units": scale,
        "currency": currency,
        "escrow": accounts["escrow"],
        "payable": accounts["payable"],
        "consent_version": consent_version,
        "opens_at": times[0],
        "closes_at": times[1],
        "deliver_until": times[2],
        "made_at": time_text(now),
    }
    connection.execute(tables.live_campaign.insert().values(values))
    enter_event(connection, entry.id, None, "drafted", time_text(now))
    return campaign_of(connection, entry.id)


def ledger_name(title: str) -> str:
    """Return what the ledger calls a new campaign: a name of its own, also if others chose the title, too."""
    return f"{title} [{new_id()}]"


def title_of(name: str) -> str:
    """Return the title of a campaign from what the ledger calls it."""
    return re.sub(r" \[[0-9a-f]{32}\]$", "", name)


def campaign_of(connection: Connection, campaign: str) -> LiveCampaign:
    """Return a campaign.

    Raises
    ------
    MarketRefusal
        There is none.
    """
    columns = [tables.live_campaign.c[name] for name in LiveCampaign.__dataclass_fields__]
    query = sa.select(*columns).where(tables.live_campaign.c.campaign == campaign)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no such campaign.")
    return LiveCampaign(**row._mapping)


def step(connection: Connection, campaign: str, before: tuple[str, ...], **values: Any) -> bool:
    """Change a campaign's row if it is in one of these states; return whether it was.

    On PostgreSQL this waits for all acts of sellers under way, which hold the row in shares.
    """
    columns = tables.live_campaign.c
    changed = connection.execute(
        tables.live_campaign.update()
        .where(columns.campaign == campaign, columns.state.in_(before))
        .values(values)
    )
    return changed.rowcount == 1


def open_campaign(
    connection: Connection, campaign: str, opening: Opening, public_key: bytes, now: datetime
) -> LiveCampaign:
    """Freeze the rules and let sellers come.

    Parameters
    ----------
    opening
        As :func:`~dpmarket.market.opening.plan_opening` planned it.
    public_key
        Of a new key pair (:func:`~dpmarket.market.keys.new_key`), to which records are sealed.
    now
        The time.

    Raises
    ------
    MarketRefusal
        It is no draft, the market file changed since it was planned, too little money is set aside, or the
        time for sellers is over.
    """
    lock_ledger(connection)
    found = campaign_of(connection, campaign)
    if found.state != "draft":
        raise MarketRefusal("state", "expected a draft: this campaign was opened or cancelled before.")
    if found.market_digest != opening.market_digest or (opening.curve is None) != (
        found.mechanism == "offline"
    ):
        raise MarketRefusal("invalid", "expected a plan of this campaign's market file and mechanism.")
    if time_text(now) >= found.closes_at:
        raise MarketRefusal("expired", f"the time for sellers ended at {found.closes_at}.")
    available = balance_of(connection, campaign).available
    if available < opening.escrow:
        raise MarketRefusal(
            "funds", f"expected at least {opening.escrow} minor units in escrow, found {available}."
        )
    step(
        connection,
        campaign,
        ("draft",),
        state="open",
        curve=opening.curve,
        curve_digest=opening.curve_digest,
        largest_payment=opening.largest_payment,
        ceiling=opening.ceiling,
        public_key=public_key,
    )
    rounds.fix_rules(
        connection,
        rounds.campaign_of(connection, campaign),
        rules_of(market_of(found.market)),
        found.minor_units,
        found.currency,
    )
    enter_event(connection, campaign, None, "opened", time_text(now))
    if found.mechanism == "offline":
        enter_job(connection, "clear", campaign, found.closes_at)
    else:
        enter_job(connection, "close", campaign, found.deliver_until)
    return campaign_of(connection, campaign)


def cancel_campaign(connection: Connection, campaign: str, now: datetime) -> None:
    """End a draft, or an open campaign in which nobody was quoted; what people's limits held is free again.

    Raises
    ------
    MarketRefusal
        Somebody was quoted: a quote is a promise.
    """
    at = time_text(now)
    live = tables.live_campaign.c
    query = sa.select(live.state).where(live.campaign == campaign).with_for_update()
    if connection.execute(query).scalar() not in ("draft", "open"):
        campaign_of(connection, campaign)
        raise MarketRefusal("state", "expected a draft or an open campaign.")
    quoted = (
        sa.select(tables.quote.c.participation)
        .join(tables.participation, tables.participation.c.id == tables.quote.c.participation)
        .where(tables.participation.c.campaign == campaign)
        .limit(1)
    )
    if connection.execute(quoted).first() is not None:
        raise MarketRefusal("state", "somebody was quoted, and a quote is a promise.")
    step(connection, campaign, ("draft", "open"), state="cancelled")
    end_for_all(connection, campaign, at)
    enter_event(connection, campaign, None, "cancelled", at)


def end_for_all(connection: Connection, campaign: str, at: str) -> None:
    """Let everybody go who has no promise of a campaign that ends: seats and limits are free."""
    own = tables.participation.c
    early = own.state.in_(("invited", "consented", "waiting", "seated", "reported"))
    chosen = sa.and_(own.campaign == campaign, early)
    found = campaign_of(connection, campaign)
    enter_event_for_all(connection, campaign, "expired", at, early)
    void_all(connection, found.escrow, chosen, at)
    connection.execute(tables.waiting.delete().where(tables.waiting.c.campaign == campaign))
    free_epsilon_of_all(connection, chosen)
    connection.execute(
        tables.participation.update()
        .where(chosen)
        .values(state="expired", lease_until=None, sealed_cost=None)
    )
