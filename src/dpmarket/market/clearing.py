"""Quote all sellers of an offline campaign at once, from sealed reports.

The decision follows from the reports, and all of it is entered in one transaction: a killed worker's work is
done again by the next.

Nothing is void because of a sum. What escrow lacks is the buyer's debt; until it is paid the quotes stand,
and nobody is asked for anything. The debt is fixed here and does not shrink when somebody leaves: it would
shrink by what they were offered, which tells their cost. It is told in steps of what a batch of people is
expected to be paid, for the same reason.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.campaign.decision import Decision, Reported, decide_offline
from dpmarket.campaign.drafting import salt_of
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.terms import terms_of
from dpmarket.errors import Infeasible, MarketRefusal
from dpmarket.files import table_from_bytes, table_to_bytes
from dpmarket.ledger import Connection, reading
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.keyed import canonical
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign, campaign_of, end_for_all, step
from dpmarket.market.desk import Desk, Terms, acting, lock_ledger, time_text
from dpmarket.market.events import enter_event, enter_event_for_all
from dpmarket.market.holds import free_of, pay_values, reserve
from dpmarket.market.jobs import enter_job
from dpmarket.market.keys import OPERATOR, Opener, operator_key, seal
from dpmarket.market.opening import market_of
from dpmarket.market.people import free_limits_of_all
from dpmarket.market.standing import checked_cost, move, refuse_campaign, refuse_outside, refused, standing_of
from dpmarket.market.statements import insert_all, random_id

_own, _quote = tables.participation.c, tables.quote.c


@dataclass(frozen=True)
class Clearing:
    """What clearing came to.

    Attributes
    ----------
    reports, quoted
        How many reported, and how many were offered something.
    total
        Of all offers, in minor units.
    debt
        What the buyer must pay before sellers are asked for anything, in whole steps: 0 or more than is
        missing.
    state
        The campaign's: ``deciding``, ``unpaid``, or ``cancelled`` if nothing can be bought from anybody who
        reported.
    """

    reports: int
    quoted: int
    total: int
    debt: int
    state: str


def report_cost(connection: Connection, participation: str, cost: float, now: datetime) -> None:
    """Report a cost for an offline campaign, once; it is sealed, and opened for clearing and an auditor only.

    Parameters
    ----------
    cost
        Money per unit of epsilon, finite and at least 0.
    now
        The time.

    Raises
    ------
    MarketRefusal
        No cost; no consent, or a report before; too early or late; a campaign in which sellers choose.
    """
    cost = checked_cost(cost)
    found, at = standing_of(connection, participation), time_text(now)
    refuse_campaign(found, "open")
    if found.mechanism != "offline":
        raise MarketRefusal("state", "in this campaign sellers take a seat and choose.")
    refuse_outside(at, found.opens_at, found.closes_at)
    if found.state != "consented":
        raise refused(("consented",))
    sealed = seal(found.public_key, struct.pack("<d", cost), "cost", found.campaign, participation)
    move(connection, participation, ("consented",), state="reported", sealed_cost=sealed)
    enter_event(connection, found.campaign, participation, "reported", at)


def clear(desk: Desk, campaign: str, now: datetime) -> Clearing:
    """Quote everybody who reported for an offline campaign whose time for reports is over.

    Can be killed anywhere and done again.

    Raises
    ------
    MarketRefusal
        It is too early, or all were quoted before.
    FileProblem
        The campaign's private key is gone.
    InvalidInput
        What the mechanism refuses.
    """
    found = begin_clearing(desk, campaign, now)
    sellers, costs = open_costs(desk, found)
    # Drawn by the ledger's secret key: a killed worker's successor decides the same.
    ids = [who for who, _ in sellers]
    salt = salt_of(desk.ledger.key, campaign, ids)
    decision = _decided(market_of(found.market), Reported(ids, costs, salt))
    if decision is None:
        with acting(desk) as connection:
            lock_ledger(connection)
            if not step(connection, campaign, ("clearing",), state="cancelled"):
                raise MarketRefusal("state", "this campaign was cleared already.")
            end_for_all(connection, campaign, time_text(now))
            enter_event(connection, campaign, None, "cancelled", time_text(now))
        return Clearing(len(sellers), 0, 0, 0, "cancelled")
    sealed = _seal_costs(desk, campaign, sellers, costs)
    with acting(desk) as connection:
        done = enter_quotes(connection, found, sellers, decision, now, desk.terms)
        connection.execute(tables.cleared_costs.insert().values(campaign=campaign, sealed=sealed))
        return done


def _decided(market: Market, reported: Reported) -> Decision | None:
    """Return the decision about a frozen list of reports; None where nothing can be bought."""
    if not (reported.costs <= terms_of(market).virtual_cost.reserve_price).any():
        return None
    try:
        return decide_offline(market, reported)
    except Infeasible:
        return None


def costs_of(desk: Desk, campaign: str) -> pl.DataFrame:
    """Return who reported what for an offline campaign that was cleared. Confidential: for an auditor.

    Returns
    -------
    polars.DataFrame
        Columns participation and cost (money per unit of epsilon), in the order of the decision.

    Raises
    ------
    MarketRefusal
        Nothing was cleared.
    FileProblem
        The operator's private key is not here.
    """
    columns = tables.cleared_costs.c
    with reading(desk.ledger) as connection:
        sealed = connection.execute(sa.select(columns.sealed).where(columns.campaign == campaign)).scalar()
    opened = None
    if sealed is not None:
        opener = Opener(desk.keys, OPERATOR, operator_key(desk.keys))
        opened = opener.open(bytes(sealed), "costs", campaign)
    if opened is None:
        raise MarketRefusal("unknown", "there are no costs, or they were sealed to another key.")
    return table_from_bytes(opened)


def begin_clearing(desk: Desk, campaign: str, now: datetime) -> LiveCampaign:
    """End the time for reports; who has not reported by now is not in it."""
    at = time_text(now)
    with acting(desk) as connection:
        found = campaign_of(connection, campaign)
        if found.mechanism != "offline" or found.state not in ("open", "clearing"):
            raise MarketRefusal("state", "expected an open offline campaign, not yet cleared.")
        if at < found.closes_at:
            raise MarketRefusal("early", f"sellers can report until {found.closes_at}.")
        step(connection, campaign, ("open",), state="clearing")
        return campaign_of(connection, campaign)


def open_costs(
    desk: Desk, found: LiveCampaign
) -> tuple[list[tuple[str, str]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return who reported, as (participation, person), and what, in one order for every worker.

    Who sealed something that is no cost has not reported.
    """
    assert found.public_key is not None
    opener = Opener(desk.keys, found.campaign, found.public_key)
    query = sa.select(_own.id, _own.person, _own.sealed_cost).where(
        _own.campaign == found.campaign, _own.state == "reported"
    )
    with reading(desk.ledger) as connection:
        rows = connection.execute(query.order_by(_own.id)).all()
    sellers, costs = [], []
    for row in rows:
        content = opener.open(bytes(row.sealed_cost), "cost", found.campaign, row.id)
        if content is not None and len(content) == 8:
            sellers.append((str(row.id), str(row.person)))
            costs.append(struct.unpack("<d", content)[0])
    return sellers, np.array(costs)


def _seal_costs(
    desk: Desk,
    campaign: str,
    sellers: Sequence[tuple[str, str]],
    costs: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> bytes:
    """Return what a campaign is cleared by, sealed to the operator: the campaign's own key will be gone."""
    table = pl.DataFrame({"participation": [who for who, _ in sellers], "cost": costs})
    return seal(operator_key(desk.keys), table_to_bytes(table), "costs", campaign)


def enter_quotes(
    connection: Connection,
    found: LiveCampaign,
    sellers: Sequence[tuple[str, str]],
    decision: Decision,
    now: datetime,
    terms: Terms | None = None,
) -> Clearing:
    """Enter all quotes of an offline campaign, hold their money or note the debt, in one transaction.

    Raises
    ------
    MarketRefusal
        Another worker was quicker.
    """
    at = time_text(now)
    lock_ledger(connection)
    outcome = decision.outcome
    text = canonical(decision.rules)
    if not step(connection, found.campaign, ("clearing",), state="deciding", decision=text, cleared_at=at):
        raise MarketRefusal("state", "this campaign was cleared already.")
    # Who withdrew while it was decided has no quote; nobody else's changes.
    there = set(
        connection.execute(
            sa.select(_own.id).where(_own.campaign == found.campaign, _own.state == "reported")
        ).scalars()
    )
    stays = [place for place, (who, _) in enumerate(sellers) if who in there]
    payments = decision.amounts[stays]
    if stays:
        quotes = {
            "participation": [sellers[place][0] for place in stays],
            "epsilon": outcome.epsilons[stays].tolist(),
            "payment": payments.tolist(),
            "made_at": [at] * len(stays),
        }
        insert_all(connection, tables.quote, quotes)
    bought = sa.select(_quote.participation).where(_quote.participation == _own.id, _quote.payment > 0)
    reported = sa.and_(_own.campaign == found.campaign, _own.state == "reported")
    enter_event_for_all(connection, found.campaign, "quoted", at, reported)
    free_limits_of_all(connection, sa.and_(reported, ~bought.exists()))
    answers = tables.participation.update().where(reported)
    # Every row once: who is bought from, then all who are left.
    connection.execute(answers.where(bought.exists()).values(state="quoted", sealed_cost=None))
    connection.execute(answers.values(state="declined", sealed_cost=None, held_epsilon=0.0))
    end_for_all(connection, found.campaign, at)  # who consented and did not report
    total = int(payments.sum())
    debt = 0
    if _hold_all(connection, found, total, at):
        enter_job(connection, "close", found.campaign, found.deliver_until)
    else:
        debt = _debt(found, total, free_of(connection, found.escrow), (terms or Terms()).batch)
        step(connection, found.campaign, ("deciding",), state="unpaid", debt=debt)
    enter_event(connection, found.campaign, None, "cleared", at)
    state = "unpaid" if debt else "deciding"
    return Clearing(len(sellers), int((payments > 0).sum()), total, debt, state)


def pay_debt(connection: Connection, found: LiveCampaign, amount: int, now: datetime) -> int:
    """Count money that came into escrow against an unpaid campaign's debt; return what is still owed.

    Once nothing is, the money of all quotes that stand is held. Who left meanwhile makes the debt no smaller:
    what was meant for them is the buyer's again when the campaign has ended. The time to accept and to send
    records is as much later as the buyer was late.
    """
    at, debt = time_text(now), max(found.debt - amount, 0)
    if debt:
        step(connection, found.campaign, ("unpaid",), debt=debt)
        return debt
    query = (
        sa.select(sa.func.coalesce(sa.func.sum(_quote.payment), 0))
        .join(tables.participation, _own.id == _quote.participation)
        .where(_own.campaign == found.campaign, _own.state == "quoted")
    )
    step(connection, found.campaign, ("unpaid",), state="deciding", debt=0)
    if not _hold_all(connection, found, int(connection.execute(query).scalar_one()), at):
        raise MarketRefusal("funds", "escrow has less than its sellers were promised.")
    late = datetime.fromisoformat(at) - datetime.fromisoformat(str(found.cleared_at))
    # By a clock that was put back nobody has less time than they were told.
    until = time_text(datetime.fromisoformat(found.deliver_until) + max(late, timedelta()))
    step(connection, found.campaign, ("deciding",), deliver_until=until)
    enter_job(connection, "close", found.campaign, until)
    enter_event(connection, found.campaign, None, "debt paid", at)
    return 0


def cancel_deserted(connection: Connection, campaign: str, now: datetime) -> bool:
    """End an unpaid campaign that everybody has left; return whether it was one."""
    lock_ledger(connection)
    left = sa.select(_own.id).where(_own.campaign == campaign, _own.state == "quoted").limit(1)
    found = campaign_of(connection, campaign)
    if found.state != "unpaid" or connection.execute(left).first() is not None:
        return False
    step(connection, campaign, ("unpaid",), state="cancelled", debt=0)
    enter_event(connection, campaign, None, "cancelled", time_text(now))
    return True


def _debt(found: LiveCampaign, total: int, free: int, batch: int) -> int:
    """Return what a buyer must pay: what is missing, rounded up to whole steps, in minor units.

    A step is what a batch of people can be expected to be paid, by what the buyer set aside for all.
    """
    expected = market_of(found.market).sellers.expected or 1
    width = max(-(-batch * free // expected), 1)
    return -(-(total - free) // width) * width


def _hold_all(connection: Connection, found: LiveCampaign, total: int, at: str) -> bool:
    """Hold the payments of everybody who is quoted, all or none; return whether escrow had them."""
    if not reserve(connection, found.escrow, total):
        return False
    # Inside the database: taking the rows out and in again is most of the work.
    values = {
        **pay_values((found.escrow, found.payable), "", "", 0, at),
        "id": random_id(connection),
        "amount": _quote.payment,
        "person": _own.person,
        "participation": _own.id,
    }
    chosen = (
        sa.select(*(value if isinstance(value, sa.ColumnElement) else sa.literal(value)
                    for value in values.values()))
        .join(tables.quote, _quote.participation == _own.id)
        .where(_own.campaign == found.campaign, _own.state == "quoted")
    )  # fmt: skip
    connection.execute(ledger_tables.transfer.insert().from_select(list(values), chosen))
    return True
