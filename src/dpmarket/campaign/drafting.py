"""Turn reports and the state of a ledger into a round that can be entered, or into a refusal."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from dpmarket.campaign.amounts import money_text
from dpmarket.campaign.decision import (
    Decide,
    Decision,
    Reported,
    budget_in_minor_units,
    ceiling_of,
    decide_online,
)
from dpmarket.campaign.delta import delta_of, refuse_too_many
from dpmarket.campaign.identity import round_identity
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.reports import (
    EXCLUDED,
    FULL,
    LIFETIME,
    Reports,
    beyond_delta,
    lifetime_limit,
    not_invited,
)
from dpmarket.campaign.frozen_rules import refuse_changed
from dpmarket.campaign.terms import is_one_by_one
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Balance, Connection, Round, balance_of, money, rounds
from dpmarket.ledger.keyed import keyed
from dpmarket.ledger.odometer import open_promises
from dpmarket.ledger.rounds import EPSILON, PAYMENT, SELLER, CampaignEntry, NewRound


@dataclass(frozen=True, eq=False)
class Choice:
    """A decision about a file of reports.

    Attributes
    ----------
    decision
        Promises and payments of those who are quoted.
    quoted
        Who they are, one column.
    left_out
        Who is not quoted and why, columns seller and reason; None if nobody.
    revision
        The state of the ledger by which it was decided.
    """

    decision: Decision
    quoted: pl.DataFrame
    left_out: pl.DataFrame | None
    revision: int


@dataclass(frozen=True, eq=False)
class Draft:
    """A round that can be entered as long as the ledger does not change.

    Attributes
    ----------
    new
        The round, but for the bytes that will be kept.
    left_out
        As in :class:`Choice`.
    revision
        The state of the ledger by which it was drafted.
    """

    new: NewRound
    left_out: pl.DataFrame | None
    revision: int


def new_salt() -> bytes:
    """Draw what sellers of a frozen list are split into parts by."""
    return secrets.token_bytes(32)


def salt_of(key: bytes, campaign: str, sellers: Iterable[object]) -> bytes:
    """Return the salt of a frozen list in a ledger that exists.

    Drawn by the ledger's secret key from the campaign and the sellers of the list, whatever they reported, so
    that the same sellers get the same parts from a ledger that was restored from a backup without the round.
    """
    listed = hashlib.sha256("\n".join(sorted(map(str, sellers))).encode()).hexdigest()
    return bytes.fromhex(keyed(key, "salt", f"{campaign} {listed}"))


def choose(
    market: Market,
    market_path: str,
    reports: Reports,
    decide: Decide,
    connection: Connection | None,
    campaign: CampaignEntry | None,
    *,
    salt: bytes,
) -> Choice:
    """Decide about a file of reports by the state of the ledger; None: there is no ledger yet.

    Sellers who are left out because of their id, or of what they gave already, are left out before any cost
    is looked at.

    Raises
    ------
    LedgerRefusal
        Nobody can be quoted, or the campaign was quoted before.
    """
    if connection is not None and campaign is not None:
        refuse_second_round(connection, campaign, decide)
    limit = lifetime_limit(market, connection)
    ceiling = None if limit is None else ceiling_of(market, decide)
    excluded, over = not_invited(market, market_path, reports.sellers, connection, limit, ceiling)
    over = np.union1d(over, beyond_delta(market, reports.sellers, connection, campaign, excluded))
    out = np.concatenate([excluded, over])
    invited = reports
    if out.size:
        invited = reports.only(np.setdiff1d(np.arange(reports.costs.size), out))
    if invited.costs.size == 0:
        raise nobody_invited(excluded.size, over.size)
    ids = invited.sellers.get_column(SELLER).to_list()
    decision = decide(market, Reported(ids, invited.costs, salt, available_of(market, connection, campaign)))
    everybody = bool(decision.quoted.all())
    left = [
        (reports.sellers[excluded.tolist()], EXCLUDED),
        (reports.sellers[over.tolist()], LIFETIME),
        *([] if everybody else [(invited.sellers.filter(~decision.quoted), FULL)]),
    ]
    return Choice(
        decision=decision,
        quoted=invited.sellers if everybody else invited.sellers.filter(decision.quoted),
        left_out=_with_reasons(left),
        revision=0 if connection is None else rounds.revision_of(connection),
    )


def nobody_invited(excluded: int, over: int) -> LedgerRefusal:
    """Return the refusal of reports of people none of whom may be quoted, so many for each reason."""
    return LedgerRefusal(
        f"nobody in the file can be quoted: {excluded} must not sell, and {over} have less left of their "
        "lifetime's epsilon or delta than this market could ask for."
    )


def refuse_second_round(connection: Connection, campaign: CampaignEntry, decide: Decide) -> None:
    """Refuse a list of a campaign whose sellers were all decided about at once, or are decided one by one.

    An offline campaign is one purchase: sellers who could report in two rounds of it would gain by a
    misreport in the first.
    """
    before = rounds.rounds_of(connection, campaign.id)
    if before and not (decide is decide_online and all(is_one_by_one(one.mechanism) for one in before)):
        raise LedgerRefusal(
            "this campaign was quoted before, and an offline campaign is quoted once: begin another campaign "
            "for other reports."
        )


def draft_of(
    market: Market,
    choice: Choice,
    key: bytes,
    digest: str,
    connection: Connection,
    campaign: CampaignEntry | None,
) -> Draft:
    """Return the round that a choice is.

    Raises
    ------
    LedgerRefusal
        Sellers have an open promise in this campaign.
    """
    decision = choice.decision
    quotes = pl.DataFrame(
        {
            SELLER: choice.quoted.get_column(SELLER),
            EPSILON: decision.outcome.epsilons,
            PAYMENT: decision.amounts,
        }
    )
    new = NewRound(
        quotes=quotes,
        content=b"",
        identity=round_identity(key, digest, 0),
        digest=digest,
        repetition=0,
        mechanism=decision.rules["mechanism"],
        minor_units=market.money.minor_units,
        ceiling=decision.ceiling,
        parameters=decision.rules,
        delta=delta_of(market),
    )
    if campaign is not None:
        before = sum(found.sellers for found in rounds.rounds_of(connection, campaign.id))
        refuse_too_many(market, before + quotes.height)
        waiting = open_promises(connection, campaign.id, quotes)
        if waiting.height:
            raise LedgerRefusal(
                f"{waiting.height} of {quotes.height} sellers have an open promise in this campaign. Leave "
                "them out of the file."
            )
    return Draft(new, choice.left_out, choice.revision)


def enter_draft(
    connection: Connection, name: str, rules: dict[str, object], market: Market, draft: Draft, content: bytes
) -> Round:
    """Enter the campaign, if it is new, its money, and the round, in one step.

    Raises
    ------
    LedgerRefusal
        Online, the budget has no room for it; or the campaign has other rules by now, or none.
    """
    scale, currency = market.money.minor_units, market.money.currency
    campaign = rounds.campaign_named(connection, name)
    if campaign is None:
        campaign = rounds.make_campaign(connection, name, rules, scale, currency)
    refuse_changed(campaign.rules, market)  # it may have been made since the draft
    payments = rounds.totals(draft.new.quotes)[1]
    balance = balance_of(connection, campaign.id)
    left = _left(market, balance)
    if left is not None:
        if is_one_by_one(draft.new.mechanism) and payments > left:
            raise LedgerRefusal(
                f"the budget is full: {money_text(payments - left, scale, currency)} more would be needed. "
                "Nothing was entered."
            )
        money.fund(connection, campaign.id, left + balance.committed - balance.funded)
    # A budget that is met on average may be exceeded: what is missing is the buyer's debt.
    money.fund(connection, campaign.id, payments - balance_of(connection, campaign.id).available)
    return rounds.enter_round(connection, campaign.id, replace(draft.new, content=content))


def available_of(market: Market, connection: Connection | None, campaign: CampaignEntry | None) -> int | None:
    """Return what earlier rounds leave of the budget, in minor units; None without a budget."""
    if connection is None or campaign is None:
        return budget_in_minor_units(market)
    return _left(market, balance_of(connection, campaign.id))


def _left(market: Market, balance: Balance) -> int | None:
    """Return what of the budget is neither promised nor paid, in minor units; None without a budget.

    Escrow may hold more: what a buyer owed beyond the budget stays there when sellers withdraw.
    """
    budget = budget_in_minor_units(market)
    return None if budget is None else budget - balance.committed


def _with_reasons(left: list[tuple[pl.DataFrame, str]]) -> pl.DataFrame | None:
    sellers = [seller for rows, _ in left for seller in rows.get_column(SELLER).to_list()]
    reasons = [reason for rows, reason in left for _ in range(rows.height)]
    return pl.DataFrame({SELLER: sellers, "reason": reasons}) if sellers else None
