"""Quote partitions of reports for a campaign: digests are in the ledger before anything is told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dpmarket.campaign.deciding import (
    Remaining,
    decide_offline,
    decide_online,
    is_one_by_one,
    mechanism_of,
    offline_objective,
    online_curve,
    refuse_full,
    way_to_decide,
    with_ceiling,
)
from dpmarket.campaign.drafting import (
    Draft,
    OnTop,
    enter_draft,
    is_over,
    is_void_round,
    nobody_invited,
    refuse_on_top,
    refuse_without_share,
    remaining_of,
)
from dpmarket.campaign.identity import digest_of_round, round_identity
from dpmarket.campaign.market_file import Market, read_market, to_distribution
from dpmarket.campaign.place import Place, opened, place_of
from dpmarket.campaign.quoting import EVERYBODY_LEFT
from dpmarket.campaign.reports import FULL, lifetime_limit
from dpmarket.campaign.rules import refuse_changed, rules_of
from dpmarket.errors import LedgerRefusal
from dpmarket.files import table_to_bytes, write_table
from dpmarket.ledger import Connection, Ledger, Round, reading, rounds, writing
from dpmarket.ledger.digests import digest_of_sums, keys_for_reports
from dpmarket.ledger.manifests import Manifest
from dpmarket.ledger.odometer import held_by
from dpmarket.ledger.outside import read_log
from dpmarket.ledger.places import begin_log
from dpmarket.ledger.releases import log_head_of
from dpmarket.ledger.restoring import enter_logged_withdrawals
from dpmarket.ledger.rounds import CampaignEntry, NewRound
from dpmarket.mechanisms import Curve, OfflineMechanism, OnlineMechanism
from dpmarket.partitions.drafts import decided, draft_round, refuse_pilot, with_sums
from dpmarket.partitions.invited import (
    REASON,
    Asked,
    Found,
    as_before,
    asked_of,
    looked_up,
    needs_a_look,
    people_of,
    quoted_people,
    scratch_of,
    staying,
)
from dpmarket.partitions.looking import Counts, Looked, looking_at, put_in_place
from dpmarket.partitions.lookup import Quoted
from dpmarket.partitions.one_by_one import write_one_by_one
from dpmarket.partitions.passes import Money
from dpmarket.partitions.promises import keep_withdrawn
from dpmarket.partitions.quoting import PartitionQuotes, sources_of, write_quotes
from dpmarket.partitions.repeating import Taken, repeat_quotes
from dpmarket.progress import StageProgress

NOT_QUOTED = "not-quoted.csv"
Write = Callable[[], PartitionQuotes]
"""Writes quotes when the ledger is no longer looked into."""
_OTHERWISE = "these reports were quoted before, in one file or divided otherwise: quote them as then."


@dataclass(frozen=True)
class CampaignQuotes:
    """What quoting partitions for a campaign came to.

    Attributes
    ----------
    quotes
        The quotes, and where they are.
    round
        As the ledger knows them.
    currency
        Of its amounts.
    is_new
        False if the same quotes had been given before.
    below, above
        How many costs lie below and above the market's distribution.
    left_out
        How many sellers were not quoted, by reason: full, lifetime, excluded. They are listed in the folder,
        in ``not-quoted.csv``.
    """

    quotes: PartitionQuotes
    round: Round
    currency: str
    is_new: bool
    below: int
    above: int
    left_out: dict[str, int]


def quote_campaign(
    market_path: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]] | str,
    out: str | os.PathLike[str],
    *,
    engine: Any = None,
    online: bool = False,
    again: bool = False,
    before_again: Callable[[OnTop], None] = lambda on_top: None,
    ledger: str | None = None,
    progress: StageProgress = lambda what, share: None,
) -> CampaignQuotes:
    """Quote all sellers of many files for a campaign, enter the promises, and write a folder of quotes.

    The same reports, however they are divided, are the same round as in one file. They are entered once,
    however often this is run; after an interruption the folder is written again, and is the same.

    Parameters
    ----------
    market_path
        The market file.
    paths, out, engine, progress
        As for :func:`~dpmarket.partitions.quote_partitions`.
    online
        Whether sellers are quoted one by one, in the order of the files and of their rows, by a curve that is
        fixed before any report. With a budget, who comes when it is full is not quoted. A market that posts
        one price always decides so.
    again
        Whether sellers who have an open promise are promised something on top, and quotes that were spent are
        promised a second time.
    before_again
        Called with what is promised on top before it is entered.
    ledger
        A file or an address, in place of the market file's.

    Raises
    ------
    FileProblem
        Files that cannot be used; ``details`` name file, line and column, never a value.
    LedgerRefusal
        As :func:`~dpmarket.campaign.quote_file`: the rules changed, sellers have open promises, nobody can be
        quoted.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    _refuse_unfit(market)
    way = _way_of(market, online=online)
    sources = sources_of(paths)
    columns = market.sellers.id_column, market.sellers.cost_column
    path, dist = os.fspath(market_path), to_distribution(market.costs.distribution)

    def looking(keys: tuple[int, int, int] | None, *, by_person: bool) -> AbstractContextManager[Looked]:
        return looking_at(
            sources,
            out,
            dist,
            engine=engine,
            columns=columns,
            keys=keys,
            by_person=by_person,
            progress=progress,
        )

    if not place.is_there:
        # Reports that are refused leave no ledger behind.
        by_person = needs_a_look(market, None, None)
        with looking(None, by_person=by_person) as looked:
            _, counts, _ = _invited(market, path, looked, None, None, way, by_person=by_person)
            way.refuse_full(market, remaining_of(market, None, None), counts.sellers)
    with opened(place) as book:
        desk = _Desk(book, place, market, path, Path(out).absolute(), way)
        by_person = desk.refuse_first()
        with looking(keys_for_reports(book.key), by_person=by_person) as looked:
            quotes = desk.quote(looked, again=again)
            desk.list_left_out(looked.work)
            if desk.known is None and desk.on_top is not None:
                before_again(desk.on_top)
            desk.enter(quotes)
            put_in_place(looked.work, looked.target)
    assert desk.entered is not None
    counts = looked.counts
    left_out = {} if desk.left_out is None else dict(Counter(desk.left_out.get_column(REASON).to_list()))
    return CampaignQuotes(
        quotes,
        desk.entered,
        market.money.currency,
        desk.known is None,
        counts.below,
        counts.above,
        left_out,
    )


@dataclass(frozen=True, eq=False)
class _Way:
    """How a market decides: for all at once, or one by one by a curve, with what a budget was planned to."""

    name: str
    mechanism: OnlineMechanism | None = None
    plan: Mapping[str, Any] | None = None

    def ceiling(self, market: Market) -> float:
        """Return what nobody can be asked to exceed; refuses as ``with_ceiling`` does."""
        if self.mechanism is None:
            return with_ceiling(market, decide_offline)[0]
        return self.mechanism.curve.largest_epsilon

    def refuse_full(self, market: Market, remaining: Remaining, sellers: int) -> None:
        """Refuse sellers none of whom a budget has room for; only one by one is it hard."""
        if self.mechanism is not None:
            refuse_full(market, self.mechanism.curve, remaining, sellers)


def _way_of(market: Market, *, online: bool) -> _Way:
    decide = way_to_decide(market, decide_online if online else decide_offline)
    if decide is not decide_online:
        return _Way(mechanism_of(decide))
    curve, plan = online_curve(market)
    assert isinstance(curve, Curve)  # without a delta
    return _Way(mechanism_of(decide), OnlineMechanism(curve.dist, curve), plan)


def _invited(
    market: Market,
    market_path: str,
    looked: Looked,
    connection: Connection | None,
    campaign: CampaignEntry | None,
    way: _Way,
    *,
    by_person: bool,
) -> tuple[Looked, Counts, Found | None]:
    """Return the partitions of who may be quoted, by the state of the ledger; None: there is none yet.

    Raises
    ------
    LedgerRefusal
        Nobody may, or the market says no number that nobody can be asked to exceed.
    """
    if not by_person:
        return looked, looked.counts, None
    ceiling = 0.0
    if lifetime_limit(market, connection) is not None:
        ceiling = way.ceiling(market)
    asked = asked_of(market, market_path, connection, campaign, ceiling)
    found = looked_up(looked.runner, people_of(looked), asked, connection, scratch_of(looked))
    if found.excluded + found.over == looked.counts.sellers:
        raise nobody_invited(found.excluded, found.over)
    staying_ones, counts = staying(looked, found)
    return staying_ones, counts, found


class _Desk:
    """One campaign's side of quoting: chooses the mechanism after counting, and enters before telling."""

    def __init__(
        self, ledger: Ledger, place: Place, market: Market, market_path: str, out: Path, way: _Way
    ) -> None:
        self._ledger = ledger
        self._place = place
        self._market = market
        self._market_path = market_path
        self._out = out
        self._way = way
        self._by_person = False
        self._draft: NewRound | None = None
        self._revision = 0
        self.left_out: pl.DataFrame | None = None
        self.on_top: OnTop | None = None
        self.known: Round | None = None
        self.entered: Round | None = None

    def refuse_first(self) -> bool:
        """Refuse what needs no look at reports; return whether people will have to be looked up."""
        with reading(self._ledger) as connection:
            campaign = rounds.campaign_named(connection, self._place.campaign)
            refuse_changed(None if campaign is None else campaign.rules, self._market)
            self._by_person = needs_a_look(self._market, connection, campaign)
            self._revision = rounds.revision_of(connection)
        return self._by_person

    def quote(self, looked: Looked, *, again: bool) -> PartitionQuotes:
        """Write the quotes of reports: new ones, those that were given before, or, if asked for, once more.

        Raises
        ------
        LedgerRefusal
            Nobody can be quoted, or, without ``again``, somebody has an open promise.
        """
        market, key = self._market, self._ledger.key
        refuse_pilot(self._market_path, market, looked)
        reported = digest_of_sums(key, looked.counts.sellers, looked.counts.sums)
        digest = digest_of_round(key, self._place.campaign, market, self._way.name, reported)
        with reading(self._ledger) as connection:
            self._refuse_others(connection)
            found = rounds.rounds_with_digest(connection, digest)
            if not found:
                write = self._anew(connection, looked, digest)
            elif again and is_over(connection, found[-1]):
                write = self._once_more(connection, looked, found[-1])
            else:
                write = self._as_before(connection, looked, found)
        quotes = write()
        self.on_top = OnTop(*quotes.on_top) if quotes.on_top[0] else None
        if self.known is None:
            refuse_on_top(self._as_draft(quotes), market, again=again)
        return quotes

    def _refuse_others(self, connection: Connection) -> None:
        """Refuse a ledger that changed since it was decided whether to look people up, and by which rules."""
        if rounds.revision_of(connection) != self._revision:
            raise LedgerRefusal("others have been quoting meanwhile: nothing was entered; try again.")

    def _anew(self, connection: Connection, looked: Looked, digest: str) -> Write:
        """Decide about reports that nobody was quoted by."""
        market, campaign = self._market, rounds.campaign_named(connection, self._place.campaign)
        invited, counts, found = _invited(
            market, self._market_path, looked, connection, campaign, self._way, by_person=self._by_person
        )
        self.left_out = None if found is None else found.left_out
        remaining = remaining_of(market, connection, campaign)
        identity = round_identity(self._ledger.key, digest, 0)
        if self._way.mechanism is not None:
            online = self._way.mechanism
            self._way.refuse_full(market, remaining, counts.sellers)
            self._draft = draft_round(market, online, digest, identity, self._way.plan)
            return partial(self._one_by_one, invited, online, self._money(identity), remaining.available)
        within = counts.sellers - counts.above
        objective, plan = offline_objective(market, counts.sellers, within, remaining)
        mechanism = OfflineMechanism(to_distribution(market.costs.distribution), objective)
        self._draft = draft_round(
            market, mechanism, digest, identity, None if plan is None else plan.to_dict()
        )
        return partial(write_quotes, invited, mechanism, self._money(identity))

    def _as_before(self, connection: Connection, looked: Looked, found: Sequence[Round]) -> Write:
        """Take the quotes that these reports were given before, as they were decided then."""
        known = found[-1]
        if rounds.count_withdrawn(connection, known.number) == known.sellers:
            raise LedgerRefusal(EVERYBODY_LEFT)
        self.known, self.left_out = known, rounds.left_out_of(connection, known.number)
        asked, money = as_before(self.left_out), self._money(known.identity)
        if known.repetition:
            return self._repeated(connection, looked, found[-2], asked, money)
        if self.left_out is not None:
            work = scratch_of(looked)
            looked, _ = staying(looked, looked_up(looked.runner, people_of(looked), asked, connection, work))
        mechanism = decided(connection, known)
        if isinstance(mechanism, OnlineMechanism):
            # Who came when the budget was full is among those who were left out.
            return partial(self._one_by_one, looked, mechanism, money, None)
        return partial(write_quotes, looked, mechanism, money)

    def _one_by_one(
        self, looked: Looked, mechanism: OnlineMechanism, money: Money, available: int | None
    ) -> PartitionQuotes:
        """Write quotes by a curve, and add those to who is left out for whom the budget was full."""
        quotes, full = write_one_by_one(looked, mechanism, money, available)
        if full is not None:
            more = full.with_columns(pl.lit(FULL).alias(REASON))
            self.left_out = more if self.left_out is None else pl.concat([self.left_out, more])
        return quotes

    def _once_more(self, connection: Connection, looked: Looked, known: Round) -> Write:
        """Take quotes that were spent, or that everybody left, once more."""
        market = self._market
        if not is_void_round(connection, known) and not is_one_by_one(known.mechanism):
            refuse_without_share(market, connection, known)
        repetition = known.repetition + 1
        identity = round_identity(self._ledger.key, known.digest, repetition)
        parameters, plan, header = rounds.decision_of(connection, known.number)
        draft = draft_round(market, decided(connection, known), known.digest, identity, plan)
        self._draft = replace(
            draft, repetition=repetition, ceiling=known.ceiling, parameters=parameters, header=header
        )
        campaign = rounds.campaign_of(connection, known.campaign)
        asked = asked_of(market, self._market_path, connection, campaign, held_by(known))
        return self._repeated(connection, looked, known, asked, self._money(identity))

    def _repeated(
        self, connection: Connection, looked: Looked, before: Round, asked: Asked, money: Money
    ) -> Write:
        """Take the quotes of a round, which is over, for another one."""
        manifest = rounds.manifest_of(connection, before.number)
        if manifest is None:
            raise LedgerRefusal(_OTHERWISE)
        work, withdrawn = scratch_of(looked), None
        if before.state != "open":
            withdrawn = str(work / "withdrawn")
            keep_withdrawn(Path(withdrawn), rounds.who_withdrew(connection, before.number))
        count = len(manifest.names)
        people = quoted_people(
            looked.runner,
            [Quoted(manifest, k, withdrawn, count, str(work / f"quoted-{k}.arrow")) for k in range(count)],
        )
        found = looked_up(looked.runner, people, asked, connection, work)
        self.left_out = found.left_out
        marks = [found.marks(k) for k in range(count)]
        return partial(
            repeat_quotes, looked, Taken(manifest, marks, withdrawn), decided(connection, before), money
        )

    def _money(self, identity: str) -> Money:
        return Money(self._market.money.minor_units, self._market.money.currency, identity)

    def list_left_out(self, work: Path) -> None:
        """Write who was not quoted, and why, beside the quotes."""
        if self.left_out is not None:
            write_table(work / NOT_QUOTED, self.left_out)

    def enter(self, quotes: PartitionQuotes) -> None:
        """Enter the round before the folder appears, or see that it is the one that was entered.

        Raises
        ------
        LedgerRefusal
            Others changed the ledger since the mechanism was chosen, or the quotes are not the same.
        """
        manifest = Manifest(str(self._out), quotes.names, quotes.rows, quotes.digests)
        if self.known is not None:
            with reading(self._ledger) as connection:
                before = rounds.manifest_of(connection, self.known.number)
            if before is None or before.digests != manifest.digests:
                raise LedgerRefusal(_OTHERWISE)
            self.entered = self.known
            return
        with writing(self._ledger) as connection:
            self._refuse_others(connection)
            self.entered = enter_draft(
                connection,
                self._place.campaign,
                rules_of(self._market),
                self._market,
                self._as_draft(quotes),
                manifest.to_bytes(),
            )
            if log_head_of(connection) is None:
                begin_log(connection, self._ledger)
            enter_logged_withdrawals(connection, read_log())

    def _as_draft(self, quotes: PartitionQuotes) -> Draft:
        assert self._draft is not None
        new = with_sums(self._draft, quotes)
        if self.left_out is not None:
            new = replace(new, left_out=table_to_bytes(self.left_out))
        return Draft(new, self.left_out, self.on_top, self._revision)


def _refuse_unfit(market: Market) -> None:
    if market.objective.delta is not None:
        raise LedgerRefusal(
            "promises with a delta (objective.delta) are decided from one file of reports only: quote these "
            "as one."
        )
