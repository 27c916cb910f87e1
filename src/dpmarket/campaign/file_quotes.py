"""Quotes for a file of reports: read, decide, enter and write them; again: the same quotes.

A dry run goes the same way and enters nothing. What is written is on the disk before the quotes are entered,
and appears when they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign import campaigns, money, schema
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import decide_of, rules_text
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_reports import ReportsFile, read_reports
from dpmarket.campaign.money import count
from dpmarket.campaign.opening import decide_for, draft_of, opening_of
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.place import Place, Source, campaign_named, changed_rules, place_of, refuse_changed
from dpmarket.campaign.quoting import Preview, Reports, enter_quotes, preview_reports, quotes_of
from dpmarket.campaign.rules.decision import budget_in_minor_units, refuse_too_many
from dpmarket.campaign.rules.pricing import OFFLINE, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.transaction import Campaign, Tx, campaign_of, lock_campaign, step
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import (
    is_standard_stream,
    table_kind,
    writing_table,
)
from dpmarket.progress import StageProgress, silent

FULL, LIFETIME, EXCLUDED = "full", "lifetime", "excluded"
"""Why somebody was not quoted: no room in the budget, no epsilon left, on the list of who must not sell."""
_own = schema.participation.c
_ATTEMPTS = 5


@dataclass(frozen=True, eq=False)
class Quoting:
    """What quoting a file, or many files, came to. Confidential.

    Attributes
    ----------
    rules, state
        Of the campaign; a dry run of one that does not exist yet has no state.
    is_new
        False if everybody had been quoted before.
    sellers, bought_from, total_epsilon, total_payment
        Of everybody together, the payment in minor units.
    left_out, not_quoted
        How many people were not quoted, by reason, and the file that lists them, if there are any.
    below, above
        How many costs lie below and above the distribution.
    files
        How many files of quotes there are.
    epsilons, amounts
        Quotes of people in one file, payments in minor units.
    """

    rules: Rules
    state: str | None
    is_new: bool
    sellers: int
    bought_from: int
    total_epsilon: float
    total_payment: int
    left_out: dict[str, int]
    below: int
    above: int
    files: int = 1
    not_quoted: str | None = None
    epsilons: FloatArray | None = None
    amounts: IntArray | None = None


def quote_file(
    rules: Source | Place,
    reports: Source,
    output: Source | None,
    *,
    overwrite: bool = False,
    confirmed: bool = False,
    progress: StageProgress = silent,
    not_quoted: Source | None = None,
) -> Quoting:
    """Quote every seller of a file of reports, enter the quotes, and write them; again: the same quotes.

    Parameters
    ----------
    rules
        The rules file, whose rules are fixed with the first quote; or its place, with another database.
    reports
        .csv or .parquet with the columns ``sellers.id_column`` and ``sellers.cost_column``.
    output
        .csv or .parquet for the quotes: id, epsilon, payment in money and in minor units, currency.
        Confidential, because an epsilon tells what was reported. None: a dry run, which enters nothing.
    overwrite, confirmed
        Whether existing outputs may be replaced, and whether to go on although what is bought will probably
        be no better than a guess.
    not_quoted
        Where people who were not quoted are listed, with the reason; None: beside the output.
    """
    place = place_of(rules)
    if output is not None:
        not_quoted = _checked_outputs(place, reports, output, not_quoted, overwrite=overwrite)
    progress("Reading reports", 0.0)
    found = read_reports(place.rules, place.path, reports)
    task = _Task(place.rules, found, output, not_quoted, overwrite)
    first = partial(refuse_first, place.rules, found.table.height, found.lowest, confirmed=confirmed)
    progress("Deciding epsilons and payments", 0.2)
    if not place.is_there:
        first()
        if output is None:
            return task.foreseen()
    with place.open(make=output is not None) as market:
        for attempt in range(_ATTEMPTS):
            try:
                campaign = opened(market, place.rules, first, dry=output is None)
                if campaign is None:
                    return task.foreseen()
                table = found.table.drop("written")
                preview = preview_reports(market, campaign.id, table, decide_of(market, campaign))
                if preview is not None:
                    _refuse_nobody(market, campaign, task, preview)
                progress("Entering quotes", 0.6)
                return task.enter(market, campaign, preview)
            except MarketRefusal as refusal:
                if refusal.kind not in ("state", "funds") or attempt == _ATTEMPTS - 1:
                    raise  # else somebody else quoted meanwhile
    raise AssertionError("unreachable")


def commit_file(rules: Source | Place) -> tuple[str, str]:
    """Fix a campaign's rules before anybody reports; return their text to publish, and the time.

    The text is the same whenever it is asked for. Rules that were fixed and changed since, before anybody was
    quoted, are fixed anew, with a new time.
    """
    place = place_of(rules)
    opening_of(place.rules)  # refuses rules by which nothing can be bought
    with place.open(make=True) as market:
        found, is_empty = _campaign(market, place.rules)
        if found is None or (
            is_empty and found.state in ("draft", "open") and changed_rules(found, place.rules)
        ):
            identity = int(market.transact(lambda tx: _drafted(tx, place.rules, found)))
            with market.look() as c:
                found = campaign_of(c, identity)
        refuse_changed(found, place.rules)
        return rules_text(market.key, found), found.made_at


def few(there: int, minimum: int) -> MarketRefusal:
    """Return the refusal of a campaign with too few people, by counts that no report changes."""
    return MarketRefusal(
        "few",
        f"{there:,} people are in the campaign, and sellers.minimum asks for {minimum:,}: few people cannot "
        "hide among each other. Ask more people. Nothing was entered.",
    )


def refuse_first(rules: Rules, people: int, cheapest: float, *, confirmed: bool) -> None:
    """Refuse first reports before anything is made: what is refused leaves no database behind."""
    opening = opening_of(rules)
    if opening.warning is not None and not confirmed:
        raise MarketRefusal("confirm", f"{opening.warning} To buy all the same, say --yes.")
    if rules.campaign.mechanism == OFFLINE and people < rules.sellers.minimum:
        raise few(people, rules.sellers.minimum)
    if cheapest > terms_of(rules).reserve_price:
        raise Infeasible(
            "None of these reports buys anything: all of them lie above the reserve price. Nothing was "
            "entered."
        )


def _refuse_nobody(market: Market, campaign: Campaign, task: _Task, preview: Preview) -> None:
    """Refuse a file of people none of whom can be quoted, and more people than a delta allows."""
    new = preview.quotes.filter(pl.col("epsilon").is_not_null()).height
    with market.look() as c:
        there = count(c, sa.and_(_own.campaign == campaign.id, _own.epsilon.is_not(None)))
    refuse_too_many(task.rules, there + new)
    people = task.reports.table.height
    if new or preview.quotes.height + preview.full < people:
        return
    if preview.full:
        largest = (campaign.largest or 0) / campaign.minor_units
        raise MarketRefusal(
            "funds",
            f"The budget is full: what is left of it is below {largest:.6g}, the schedule's largest payment. "
            f"None of the {people} sellers can be quoted.",
        )
    raise MarketRefusal(
        "limit",
        f"Nobody in the file can be quoted: {len(task.reports.excluded)} must not sell, and the others have "
        "less left of their lifetime's epsilon or delta than this campaign could ask for.",
    )


def _checked_outputs(
    place: Place, reports: Source, quotes: Source, not_quoted: Source | None, *, overwrite: bool
) -> Source | None:
    """Refuse outputs that cannot be written; return where people who were not quoted are listed."""
    if not_quoted is None and not is_standard_stream(quotes):
        path = Path(quotes)
        not_quoted = path.with_name(f"{path.stem}-not-quoted{path.suffix}")
    place.refuse_output(quotes, reports, overwrite=overwrite)
    if not_quoted is not None:
        place.refuse_output(not_quoted, reports, quotes, overwrite=True)
    for target in (quotes, not_quoted):
        if target is not None and not is_standard_stream(target):
            table_kind(target)
    return not_quoted


def _campaign(market: Market, rules: Rules) -> tuple[Campaign | None, bool]:
    """Return the campaign of these rules, if there is one, and whether nobody was ever in it."""
    with market.look() as c:
        found = campaign_named(c, rules.campaign.name)
        return found, found is None or not count(c, _own.campaign == found.id)


def opened(
    market: Market, rules: Rules, refuse_first: Callable[[], None], *, dry: bool = False,
    channel: str = "file",
) -> Campaign | None:  # fmt: skip
    """Return the campaign of these rules, opened if it is new; None in a dry run of a new one."""
    found, is_empty = _campaign(market, rules)
    if found is not None and (found.state == "draft" or not is_empty):
        refuse_changed(found, rules)
        if found.state != "draft":
            return found
    elif found is not None and found.state != "open":
        return found
    if dry:
        return None
    refuse_first()
    if (
        found is not None
        and (found.state, found.channel) == ("open", channel)
        and not changed_rules(found, rules)
    ):
        return found
    opening, budget = opening_of(rules), budget_in_minor_units(rules)

    def enter(tx: Tx) -> int:
        identity = found.id if found is not None and found.state == "draft" else _drafted(tx, rules, found)
        step(tx, identity, ("draft",), channel=channel)
        if rules.campaign.mechanism != OFFLINE and budget is not None:
            campaigns.fund(tx, OWNER, identity, budget)
        campaigns.open_(tx, OWNER, identity, opening, confirmed=True)
        return identity

    try:
        identity = market.transact(enter)
    except MarketRefusal:
        if found is None and _campaign(market, rules)[0] is not None:
            raise MarketRefusal("state", "Somebody opened this campaign meanwhile; try again.") from None
        raise
    with market.look() as c:
        return campaign_of(c, int(identity))


def _drafted(tx: Tx, rules: Rules, old: Campaign | None) -> int:
    """Draft a campaign of these rules, in place of one in which nobody was quoted; return its id."""
    if old is not None:
        locked = lock_campaign(tx, old.id)
        if locked.state not in ("draft", "open") or count(tx.c, _own.campaign == old.id):
            raise MarketRefusal("state", "Somebody was quoted in this campaign meanwhile; try again.")
        for table in (schema.event, schema.transfer, schema.account):
            tx.c.execute(table.delete().where(table.c.campaign == old.id))
        tx.c.execute(schema.campaign.delete().where(schema.campaign.c.id == old.id))
    limited = rules.campaign.mechanism != OFFLINE and rules.objective.budget is not None
    return campaigns.draft(tx, OWNER, draft_of(rules, channel="file", self_funded=not limited))


@dataclass(frozen=True, eq=False)
class _Task:
    """Checked reports, and where their quotes and the list of people who were not quoted go."""

    rules: Rules
    reports: ReportsFile
    quotes: Source | None
    not_quoted: Source | None
    overwrite: bool

    def foreseen(self) -> Quoting:
        """Return what would be entered into a campaign that does not exist yet."""
        table = self.reports.table
        ids, costs = table.get_column("id").to_list(), table.get_column("cost").to_numpy()
        pools = [money.ESCROW] * len(ids)
        if self.reports.groups is not None:
            pools = [money.pool_of(name) for name in self.reports.groups]
        decision = decide_for(self.rules)(Reports([], costs, pools, ids))
        epsilons = np.asarray(decision.epsilons, dtype=float)
        payments = decision.whole(self.rules.money.minor_units)
        known = pl.DataFrame({"id": ids, "epsilon": epsilons, "payment": payments, "state": "accepted"})
        return self.result(*self.sheets(known), None, is_new=True)

    def enter(self, market: Market, campaign: Campaign, preview: Preview | None) -> Quoting:
        """Enter what was previewed while its files are being written; return what it came to."""
        with market.look() as c:
            known = quotes_of(c, campaign.id)
        is_new = preview is not None
        if preview is not None:
            known = pl.concat([known, _as_quotes(preview)])
        quotes, left_out = self.sheets(known)
        if self.quotes is None:
            return self.result(quotes, left_out, campaign.state, is_new=is_new)
        if left_out.height and self.not_quoted is None:
            raise FileProblem(
                f"{left_out.height} sellers are not quoted, and there is no file to list them in: name one "
                "with --not-quoted."
            )
        if not quotes.height and not is_new:
            raise MarketRefusal("state", "Everybody in this file has withdrawn: begin another campaign.")
        with contextlib.ExitStack() as stack:
            for target, table in ((self.quotes, quotes), (self.not_quoted, left_out)):
                if target is not None and (table.height or target is self.quotes):
                    stack.enter_context(writing_table(target, table, overwrite=self.overwrite))
            if preview is not None:
                market.run(enter_quotes, OWNER, campaign.id, preview.quotes, preview.offer, preview.reports)
        with market.look() as c:
            return self.result(quotes, left_out, campaign_of(c, campaign.id).state, is_new=is_new)

    def sheets(self, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return quotes in the order and spelling of the file, and who was not quoted, with the reason."""
        rows = self.reports.table.join(known, on="id", how="left", maintain_order="left")
        column, state = self.rules.sellers.id_column, pl.col("state")
        written = pl.col("written").alias(column)
        quoted = rows.filter(pl.col("epsilon").is_not_null(), ~state.is_in(["withdrawn", "lapsed"]))
        quotes = quoted.select(
            written,
            "epsilon",
            payment=in_money(quoted.get_column("payment"), self.rules.money.minor_units),
            payment_minor_units="payment",
            currency=pl.lit(self.rules.money.currency),
        )
        why = pl.when(state.is_null()).then(pl.lit(FULL)).otherwise(pl.lit(LIFETIME))
        others = rows.filter(state.is_null() | (state == "excluded")).select(written, reason=why)
        excluded = pl.Series(column, self.reports.excluded, dtype=pl.String).to_frame()
        return quotes, pl.concat([excluded.with_columns(reason=pl.lit(EXCLUDED)), others])

    def result(
        self, quotes: pl.DataFrame, left_out: pl.DataFrame, state: str | None, *, is_new: bool
    ) -> Quoting:
        """Return what quoting came to."""
        epsilons, amounts = (
            quotes.get_column(name).to_numpy() for name in ("epsilon", "payment_minor_units")
        )
        reasons: dict[Any, int] = dict(left_out.group_by("reason", maintain_order=True).len().rows())
        return Quoting(
            self.rules, state, is_new, epsilons.size, int((epsilons > 0.0).sum()), float(epsilons.sum()),
            int(amounts.sum()), reasons, self.reports.below, self.reports.above,
            not_quoted=str(self.not_quoted) if reasons and self.not_quoted is not None else None,
            epsilons=epsilons, amounts=amounts,
        )  # fmt: skip


def _as_quotes(preview: Preview) -> pl.DataFrame:
    left = pl.when(pl.col("reason") == "withdrawn").then(pl.lit("withdrawn")).otherwise(pl.lit("excluded"))
    state = pl.when(pl.col("epsilon").is_not_null()).then(pl.lit("accepted")).otherwise(left)
    return preview.quotes.select(id="name", epsilon="epsilon", payment="payment", state=state)
