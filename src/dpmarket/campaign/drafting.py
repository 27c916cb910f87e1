"""Turn reports and the state of a ledger into a round that can be entered, or into a refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import polars as pl

from dpmarket.campaign.amounts import money_text
from dpmarket.campaign.deciding import (
    Decide,
    Decision,
    Remaining,
    budget_in_minor_units,
    is_one_by_one,
    round_budgets,
    with_ceiling,
)
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
from dpmarket.campaign.rules import refuse_changed
from dpmarket.campaign.with_delta import delta_of, refuse_too_many
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Balance, Connection, Round, balance_of, money, rounds
from dpmarket.ledger.odometer import held_by, open_promises
from dpmarket.ledger.rounds import EPSILON, PAYMENT, SELLER, CampaignEntry, NewRound

NOBODY_AGAIN = (
    "everybody who was quoted has withdrawn, must not sell, or has too little left of a lifetime's epsilon "
    "or delta: there is nobody to promise anything."
)


@dataclass(frozen=True)
class OnTop:
    """What quoting again promises to sellers on top of what they were promised before.

    Attributes
    ----------
    sellers
        How many.
    epsilon
        What all of them are promised on top, in sum.
    payment
        In minor units.
    """

    sellers: int
    epsilon: float
    payment: int


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
    on_top
        What it promises on top of earlier promises; None if nothing.
    revision
        The state of the ledger by which it was drafted.
    """

    new: NewRound
    left_out: pl.DataFrame | None
    on_top: OnTop | None
    revision: int


def choose(
    market: Market,
    market_path: str,
    reports: Reports,
    decide: Decide,
    connection: Connection | None,
    campaign: CampaignEntry | None,
) -> Choice:
    """Decide about a file of reports by the state of the ledger; None: there is no ledger yet.

    Who is left out because of their id, or of what they gave already, is left out before any cost is looked
    at.

    Raises
    ------
    LedgerRefusal
        Nobody can be quoted.
    """
    limit = lifetime_limit(market, connection)
    ceiling = None
    if limit is not None:
        ceiling, decide = with_ceiling(market, decide)
    excluded, over = not_invited(market, market_path, reports.sellers, connection, limit, ceiling)
    over = np.union1d(over, beyond_delta(market, reports.sellers, connection, campaign, excluded))
    out = np.concatenate([excluded, over])
    invited = reports
    if out.size:
        invited = reports.only(np.setdiff1d(np.arange(reports.costs.size), out))
    if invited.costs.size == 0:
        raise nobody_invited(excluded.size, over.size)
    decision = decide(market, invited.costs, remaining_of(market, connection, campaign))
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


def refuse_on_top(draft: Draft, market: Market, *, again: bool) -> None:
    """Refuse to promise anything on top of open promises, unless that was asked for."""
    if draft.on_top is None or again:
        return
    amount = money_text(draft.on_top.payment, market.money.minor_units, market.money.currency)
    raise LedgerRefusal(
        f"{draft.on_top.sellers} of {draft.new.quotes.height} sellers have an open promise in this campaign. "
        f"Leave them out of the file, or use --again to promise them epsilon {draft.on_top.epsilon:.6g} in "
        f"sum and {amount} on top."
    )


def draft_of(
    market: Market,
    choice: Choice,
    key: bytes,
    digest: str,
    connection: Connection,
    campaign: CampaignEntry | None,
) -> Draft:
    """Return the round that a choice is, and what it promises on top of open promises."""
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
        mechanism=decision.outcome.mechanism,
        minor_units=market.money.minor_units,
        ceiling=decision.ceiling,
        parameters=decision.outcome.parameters,
        plan=decision.plan,
        header=decision.outcome.header(),
        delta=delta_of(market),
    )
    on_top = None
    if campaign is not None:
        before = sum(found.sellers for found in rounds.rounds_of(connection, campaign.id))
        refuse_too_many(market, before + quotes.height)
        waiting = open_promises(connection, campaign.id, quotes)
        if waiting.height:
            on_top = OnTop(waiting.height, *rounds.totals(waiting))
    return Draft(new, choice.left_out, on_top, choice.revision)


def draft_again(key: bytes, known: Round, connection: Connection, market: Market, market_path: str) -> Draft:
    """Return the round that promises quotes once more, as they were decided, on top of what was spent.

    Who withdrew, must not sell, or has too little left of a lifetime's epsilon, is not asked again. Only if
    all of them withdrew before anything was spent, all of them are: only other open promises count then.

    Raises
    ------
    LedgerRefusal
        Nobody is left, or no share of the budget was declared for it.
    """
    quotes = rounds.kept_quotes(connection, known.number)
    is_void = is_void_round(connection, known)
    if is_void:
        quotes = rounds.quotes_of(connection, known.number)
    elif not is_one_by_one(known.mechanism):
        refuse_without_share(market, connection, known)
    limit = lifetime_limit(market, connection)
    excluded, over = not_invited(market, market_path, quotes, connection, limit, held_by(known))
    campaign = rounds.campaign_of(connection, known.campaign)
    over = np.union1d(over, beyond_delta(market, quotes, connection, campaign, excluded))
    left = [(quotes[excluded.tolist()], EXCLUDED), (quotes[over.tolist()], LIFETIME)]
    if excluded.size or over.size:
        rows = np.setdiff1d(np.arange(quotes.height), np.concatenate([excluded, over]))
        quotes = quotes[rows.tolist()]
    if quotes.height == 0:
        raise LedgerRefusal(NOBODY_AGAIN)
    parameters, plan, header = rounds.decision_of(connection, known.number)
    new = NewRound(
        quotes=quotes,
        content=b"",
        identity=round_identity(key, known.digest, known.repetition + 1),
        digest=known.digest,
        repetition=known.repetition + 1,
        mechanism=known.mechanism,
        minor_units=known.minor_units,
        ceiling=known.ceiling,
        parameters=parameters,
        plan=plan,
        header=header,
        delta=known.delta,
    )
    promised = quotes.filter(rounds.amounts_of(quotes)[0] > 0.0)
    if is_void:  # on top of other promises of theirs only
        promised = open_promises(connection, known.campaign, promised)
    on_top = None if promised.height == 0 else OnTop(promised.height, *rounds.totals(promised))
    return Draft(new, _with_reasons(left), on_top, rounds.revision_of(connection))


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


def remaining_of(market: Market, connection: Connection | None, campaign: CampaignEntry | None) -> Remaining:
    """Return what earlier rounds leave; without a ledger or a campaign there are none."""
    if connection is None or campaign is None:
        return Remaining(available=budget_in_minor_units(market))
    taken = _shares_taken(connection, campaign.id)
    online = [found for found in rounds.rounds_of(connection, campaign.id) if is_one_by_one(found.mechanism)]
    left = _left(market, balance_of(connection, campaign.id))
    return Remaining(len(set(taken.values())), left, len(online))


def is_over(connection: Connection, entered: Round) -> bool:
    """Whether nothing of a round can be used any more: it is spent, or all of its sellers have left."""
    return entered.state != "open" or rounds.count_withdrawn(connection, entered.number) == entered.sellers


def is_void_round(connection: Connection, found: Round) -> bool:
    """Whether everybody left a round before anything of it was spent: its money is free again."""
    return found.state == "open" and rounds.count_withdrawn(connection, found.number) == found.sellers


def _shares_taken(connection: Connection, campaign: str) -> dict[int, int]:
    """Return which of the declared shares each offline round of a campaign has taken, by its number.

    Every round takes the next one. Quotes that everybody left and that are promised once more keep theirs.
    """
    taken: dict[int, int] = {}
    newest: dict[str, Round] = {}
    for found in rounds.rounds_of(connection, campaign):
        if is_one_by_one(found.mechanism):
            continue
        before = newest.get(found.digest)
        is_same = before is not None and is_void_round(connection, before)
        taken[found.number] = taken[before.number] if before and is_same else len(set(taken.values()))
        newest[found.digest] = found
    return taken


def refuse_without_share(market: Market, connection: Connection, known: Round) -> None:
    """Refuse to promise offline quotes once more where no share of the budget was declared for it.

    They cost what they cost the first time: on average the share for which they were planned. The answer
    follows from declared shares and from what was promised online: these sellers' reports have no part in it.
    """
    if market.objective.budget is None:
        return
    budgets, taken = round_budgets(market), _shares_taken(connection, known.campaign)
    needed, following = budgets[min(taken[known.number], len(budgets) - 1)], len(set(taken.values()))
    online = sum(
        money.held_for(connection, found.number)
        for found in rounds.rounds_of(connection, known.campaign)
        if is_one_by_one(found.mechanism)
    )
    promised = sum(budgets[:following], Fraction(online, market.money.minor_units))
    if following >= len(budgets) or budgets[following] < needed:
        raise LedgerRefusal(
            "the budget is used: quotes that were spent are promised again from a share of the budget that "
            "was declared for one more round beforehand, as large as the first (objective.shares)."
        )
    if promised + budgets[following] > Fraction(market.objective.budget):
        raise LedgerRefusal(
            "the budget is used: what was promised online leaves too little of it to promise these quotes "
            "once more."
        )


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
