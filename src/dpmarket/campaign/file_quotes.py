"""Quotes for a file of reports: read, decide, enter and write them; again: the same quotes.

What is written is on the disk before the quotes are entered, and appears when they were.
"""

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign import campaigns, schema
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import decide_of, rules_text
from dpmarket.campaign.file_reports import ReportsFile, read_reports
from dpmarket.campaign.money import count
from dpmarket.campaign.opening import decide_for, draft_of, opening_of
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.place import Place, Source, campaign_named, changed_rules, place_of, refuse_changed
from dpmarket.campaign.quoting import import_reports, quotes_in
from dpmarket.campaign.rules.decision import budget_in_minor_units, refuse_too_many
from dpmarket.campaign.rules.pricing import OFFLINE, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.transaction import Campaign, Tx, lock_campaign, step
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import is_standard_stream, table_kind, writing_table
from dpmarket.progress import StageProgress, silent

FULL, LIFETIME, EXCLUDED = "full", "lifetime", "excluded"  # why somebody was not quoted
_own = schema.participation.c


@dataclass(frozen=True, eq=False)
class Quoting:
    """What quoting a file, or many files, came to. Confidential; payments in minor units."""

    rules: Rules
    state: str  # of the campaign
    is_new: bool  # False if everybody had been quoted before
    sellers: int
    bought_from: int
    total_epsilon: float
    total_payment: int
    left_out: dict[str, int]  # how many people were not quoted, by reason
    below: int  # the distribution lie so many costs
    above: int
    files: int = 1
    not_quoted: str | None = None  # the file that lists people who were not quoted
    epsilons: FloatArray | None = None  # of one file
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

    The rules are fixed with the first quote. ``output`` is confidential, because an epsilon tells what was
    reported; None: a dry run, which enters nothing. ``overwrite``: existing outputs may be replaced;
    ``confirmed``: go on although what is bought will probably be no better than a guess. ``not_quoted`` lists
    people who were not quoted, with the reason; None: beside the output.
    """
    place = place_of(rules)
    if output is not None:
        not_quoted = _checked_outputs(place, reports, output, not_quoted, overwrite=overwrite)
    progress("Reading reports", 0.0)
    found = read_reports(place.rules, place.path, reports)
    task = _Task(place.rules, found, output, not_quoted, overwrite)
    first = partial(refuse_first, place.rules, found.table.height, found.lowest, confirmed=confirmed)
    if not place.is_there:
        first()
    progress("Deciding epsilons and payments", 0.2)
    with contextlib.ExitStack() as stack:
        if not place.is_there and output is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            place = replace(place, url=folder / "dry.db", state=folder)
        market = stack.enter_context(place.open(make=output is not None or not place.is_there))
        written = stack.enter_context(contextlib.ExitStack())  # appears after the quotes were entered
        done: Quoting = market.transact(partial(task.enter, first=first, written=written))
        return done


def commit_file(rules: Source | Place) -> tuple[str, str]:
    """Fix a campaign's rules before anybody reports, or before anybody was quoted; return text and time."""
    place = place_of(rules)
    opening_of(place.rules)  # refuses rules by which nothing can be bought

    def commit(tx: Tx) -> Campaign:
        found = campaign_named(tx.c, place.rules.campaign.name)
        found = None if found is None else lock_campaign(tx, found.id)
        if found is None or (_is_unused(tx, found) and changed_rules(found, place.rules)):
            found = _drafted(tx, place.rules, found)
        refuse_changed(found, place.rules)
        return found

    with place.open(make=True) as market:
        found = market.transact(commit)
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


def _is_unused(tx: Tx, found: Campaign) -> bool:
    """Whether nobody was ever quoted in a campaign, so that it can make room for other rules."""
    nobody = found.reports_digest is None and not count(tx.c, _own.campaign == found.id)
    return nobody and found.state in ("draft", "open")


def open_campaign(tx: Tx, rules: Rules, refuse_first: Callable[[], None], channel: str = "file") -> Campaign:
    """Return the campaign of these rules, opened if it is new."""
    found = campaign_named(tx.c, rules.campaign.name)
    if found is not None:
        found = lock_campaign(tx, found.id)
        if not _is_unused(tx, found):
            refuse_changed(found, rules)
            return found
        if found.state == "draft":
            refuse_changed(found, rules)
        elif found.channel == channel and not changed_rules(found, rules):
            return found
    refuse_first()
    opening, budget = opening_of(rules), budget_in_minor_units(rules)
    drafted = found if found is not None and found.state == "draft" else _drafted(tx, rules, found)
    step(tx, drafted.id, ("draft",), channel=channel)
    if rules.campaign.mechanism != OFFLINE and budget is not None:
        campaigns.fund(tx, OWNER, drafted.id, budget)
    campaigns.open_(tx, OWNER, drafted.id, opening, confirmed=True)
    return tx.campaign(drafted.id)


def _drafted(tx: Tx, rules: Rules, old: Campaign | None) -> Campaign:
    """Draft a campaign of these rules, in place of one in which nobody was quoted."""
    if old is not None:
        for table in (schema.event, schema.transfer, schema.account):
            tx.delete(table, table.c.campaign == old.id)
        tx.delete(schema.campaign, schema.campaign.c.id == old.id)
    limited = rules.campaign.mechanism != OFFLINE and rules.objective.budget is not None
    plan = draft_of(rules, channel="file", self_funded=not limited)
    return tx.campaign(campaigns.draft(tx, OWNER, plan))


@dataclass(frozen=True, eq=False)
class _Task:
    """Checked reports, and where their quotes and the list of people who were not quoted go."""

    rules: Rules
    reports: ReportsFile
    quotes: Source | None
    not_quoted: Source | None
    overwrite: bool

    def enter(self, tx: Tx, first: Callable[[], None], written: contextlib.ExitStack) -> Quoting:
        """Enter quotes, and have their files written when that is done; return what it came to."""
        with tx.c.begin_nested() as savepoint:
            campaign = open_campaign(tx, self.rules, first)
            known = quotes_in(people_of(tx.c, campaign))
            # The salt of a dry run is nobody's: the real one cannot be searched for reports that it favours.
            decide = decide_for(self.rules) if self.quotes is None else decide_of(tx.market_key, campaign)
            new = import_reports(tx, OWNER, campaign.id, self.reports.table.drop("written"), decide)
            quoted = sa.and_(_own.campaign == campaign.id, _own.epsilon.is_not(None))
            refuse_too_many(self.rules, count(tx.c, quoted))
            quotes, left_out = self.sheets(pl.concat([known, new]))
            if not quotes.height:
                raise self._nobody(campaign, left_out)
            state = tx.campaign(campaign.id).state
            if self.quotes is None:
                savepoint.rollback()  # a dry run
            else:
                self._write(written, quotes, left_out)
        return self.result(quotes, left_out, state, is_new=new.height > 0)

    def _write(self, written: contextlib.ExitStack, quotes: pl.DataFrame, left_out: pl.DataFrame) -> None:
        if left_out.height and self.not_quoted is None:
            raise FileProblem(
                f"{left_out.height} sellers are not quoted, and there is no file to list them in: name one "
                "with --not-quoted."
            )
        for target, table in ((self.quotes, quotes), (self.not_quoted, left_out)):
            if target is not None and table.height:
                written.enter_context(writing_table(target, table, overwrite=self.overwrite))

    def _nobody(self, campaign: Campaign, left_out: pl.DataFrame) -> MarketRefusal:
        """Return the refusal of a file of people none of whom has a quote."""
        reasons = left_out.get_column("reason")
        if FULL in reasons:
            largest = (campaign.largest or 0) / campaign.minor_units
            return MarketRefusal(
                "funds",
                f"The budget is full: what is left of it is below {largest:.6g}, the schedule's largest "
                f"payment. None of the {self.reports.table.height} sellers can be quoted.",
            )
        if LIFETIME in reasons:
            return MarketRefusal(
                "limit",
                f"Nobody in the file can be quoted: {len(self.reports.excluded)} must not sell, and the "
                "others have less left of their lifetime's epsilon or delta than this campaign could ask "
                "for.",
            )
        return MarketRefusal("state", "Everybody in this file has withdrawn: begin another campaign.")

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

    def result(self, quotes: pl.DataFrame, left_out: pl.DataFrame, state: str, *, is_new: bool) -> Quoting:
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
