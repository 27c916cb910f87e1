"""Turn a released campaign of a live desk into its report, once, from what the ledger keeps.

Online, nobody's cost is kept. The page groups people by the highest cost at which the rule makes the offer
that they took, which the offer itself tells; single offers are on no page.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign.released import released_from_json
from dpmarket.campaign.terms import is_one_by_one, outcome_of_rules
from dpmarket.errors import Infeasible, InvalidInput, LedgerRefusal, NotConverged
from dpmarket.ledger import reading
from dpmarket.ledger.releases import released_model
from dpmarket.ledger.rounds import SELLER, decision_of, quotes_of, round_of, weights_of
from dpmarket.market import Desk, acting
from dpmarket.market.campaigns import campaign_of
from dpmarket.market.clearing import costs_of
from dpmarket.market.opening import market_of
from dpmarket.market.reports import campaigns_without_report, keep_report, quoted
from dpmarket.market.training import certificate_of
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.report.from_campaign import Campaign, audits_of, certified, material_of
from dpmarket.report.page import render_page
from dpmarket.report.summary import Summary, summarise

AMOUNT = "payment_minor_units"
_COSTS = 20_001  # at which the rule is tried


def make_reports(desk: Desk, now: datetime) -> int:
    """Make and keep the report of every certified campaign that has none; return how many.

    Of a campaign with too few people for a report it is kept that there is none.
    """
    with reading(desk.ledger) as connection:
        waiting = campaigns_without_report(connection)
    for campaign in waiting:
        body = None
        with contextlib.suppress(InvalidInput, Infeasible, NotConverged, LedgerRefusal):
            body = render_page(summarise_live(desk, campaign)).encode()
        with acting(desk) as connection:
            keep_report(connection, campaign, body, now)
    return len(waiting)


def summarise_live(desk: Desk, campaign: str) -> Summary:
    """Return what the report of a released and certified campaign says.

    Raises
    ------
    InvalidInput
        Fewer than ten sellers were bought from.
    MarketRefusal, LedgerRefusal
        There is no such campaign, or it was not released.
    """
    with reading(desk.ledger) as connection:
        found = campaign_of(connection, campaign)
        if found.round is None:
            raise LedgerRefusal("expected a campaign whose model was released.")
        entered = round_of(connection, found.round)
        in_round = quotes_of(connection, found.round)
        table = quoted(connection, campaign)
        kept, certificate = released_model(connection, found.round), certificate_of(connection, found.round)
        if kept is None or certificate is None:
            raise LedgerRefusal("expected a campaign whose model was released and certified.")
        weights = weights_of(connection, found.round)
        rules = decision_of(connection, found.round)
    market = market_of(found.market)
    if is_one_by_one(rules["mechanism"]):  # sellers who did not sell have no part in what was bought
        table, costs = table.filter("used"), None
    else:
        reported = costs_of(desk, campaign)
        table = reported.select("participation").join(
            table, on="participation", how="left", maintain_order="left"
        )
        table = table.with_columns(
            pl.col("used").fill_null(value=False), pl.col("epsilon", AMOUNT).fill_null(0)
        )
        costs = np.asarray(reported.get_column("cost").to_numpy(), dtype=np.float64)
    epsilons, amounts = (np.asarray(table.get_column(name).to_numpy()) for name in ("epsilon", AMOUNT))
    outcome = outcome_of_rules(rules, epsilons, amounts / entered.minor_units)
    weights_by = dict(zip(in_round.get_column(SELLER).to_list(), weights.tolist(), strict=True))
    withdrawn = ~table.get_column("used").to_numpy()
    read = Campaign(
        market=market,
        round=entered,
        outcome=outcome,
        rules=rules,
        costs=costs_behind(PriceSchedule.from_dict(rules["schedule"]), epsilons) if costs is None else costs,
        amounts=amounts,
        withdrawn=withdrawn,
        released=released_from_json(kept),
        loss_weights=np.array([weights_by.get(who, 0.0) for who in table.get_column(SELLER).to_list()]),
    )
    digest, verified = certified(certificate, "the certificate", read.released)
    return summarise(material_of(read, found.title, audits=(*audits_of(read), *verified), digest=digest))


def costs_behind(schedule: PriceSchedule, epsilons: FloatArray) -> FloatArray:
    """Return the highest cost, up to a fine grid, at which the schedule makes each seller's offer."""
    grid = np.linspace(float(schedule.costs[0]), schedule.reserve_price, _COSTS)
    offered = schedule.quote(grid)[0]
    # Epsilons fall with the cost: of how many costs is the offer at least as large?
    at_least = np.searchsorted(-offered, -epsilons * (1.0 - 1e-9), side="right")
    return np.asarray(grid[np.clip(at_least - 1, 0, grid.size - 1)])
