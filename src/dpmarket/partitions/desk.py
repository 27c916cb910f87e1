"""Quote partitions of reports for a campaign: digests are in the ledger before anything is told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.allocation import max_epsilon
from dpmarket.campaign.deciding import decide_offline, decide_online, offline_objective, way_to_decide
from dpmarket.campaign.drafting import Draft, enter_draft, remaining_of
from dpmarket.campaign.identity import digest_of_round, round_identity
from dpmarket.campaign.market_file import Market, read_market, to_distribution
from dpmarket.campaign.pilots import pilot_of
from dpmarket.campaign.place import Place, opened, place_of
from dpmarket.campaign.reports import lifetime_limit
from dpmarket.campaign.rules import refuse_changed, rules_of
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import read_table
from dpmarket.ledger import Connection, Ledger, Round, reading, rounds, writing
from dpmarket.ledger.digests import digest_of_sums, keys_for_reports
from dpmarket.ledger.manifests import Manifest, lists_with
from dpmarket.ledger.outside import read_log
from dpmarket.ledger.places import begin_log
from dpmarket.ledger.releases import log_head_of
from dpmarket.ledger.restoring import enter_logged_withdrawals
from dpmarket.ledger.rounds import EPSILON, PAYMENT, SELLER, CampaignEntry, NewRound
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.partitions.looking import Counts, check_partitions, partition_paths
from dpmarket.partitions.passes import Money
from dpmarket.partitions.quoting import PartitionQuotes, quote_all
from dpmarket.progress import StageProgress


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
    """

    quotes: PartitionQuotes
    round: Round
    currency: str
    is_new: bool
    below: int
    above: int


def quote_campaign(
    market_path: str | os.PathLike[str],
    paths: Sequence[str | os.PathLike[str]] | str,
    out: str | os.PathLike[str],
    *,
    engine: Any = None,
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
    ledger
        A file or an address, in place of the market file's.

    Raises
    ------
    FileProblem
        Files that cannot be used; ``details`` name file, line and column, never a value.
    LedgerRefusal
        The rules changed, promises are open, or a limit per person is set: what single people gave before is
        looked up for one file of reports only.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    _refuse_unfit(market)
    sources = partition_paths(paths) if isinstance(paths, str) else [Path(path) for path in paths]
    dist = to_distribution(market.costs.distribution)
    columns = market.sellers.id_column, market.sellers.cost_column
    if not place.is_there:
        # Reports that are refused leave no ledger behind.
        check_partitions(sources, out, dist, engine=engine, columns=columns)
    with opened(place) as book:
        desk = _Desk(book, place, market, os.fspath(market_path), Path(out).absolute())
        desk.refuse_first()
        quotes = quote_all(
            sources,
            out,
            dist,
            desk.choose,
            engine=engine,
            columns=columns,
            keys=keys_for_reports(book.key),
            before=desk.enter,
            progress=progress,
        )
    assert desk.entered is not None
    assert desk.counts is not None
    counts = desk.counts
    return CampaignQuotes(
        quotes, desk.entered, market.money.currency, desk.known is None, counts.below, counts.above
    )


class _Desk:
    """One campaign's side of quoting: chooses the mechanism after counting, and enters before telling."""

    def __init__(self, ledger: Ledger, place: Place, market: Market, market_path: str, out: Path) -> None:
        self._ledger = ledger
        self._place = place
        self._market = market
        self._market_path = market_path
        self._out = out
        self._draft: NewRound | None = None
        self._revision = 0
        self.counts: Counts | None = None
        self.known: Round | None = None
        self.entered: Round | None = None

    def refuse_first(self) -> None:
        """Refuse what needs no look at reports."""
        with reading(self._ledger) as connection:
            campaign = rounds.campaign_named(connection, self._place.campaign)
            refuse_changed(None if campaign is None else campaign.rules, self._market)
            if self._market.objective.delta is not None:
                raise LedgerRefusal(
                    "promises with a delta (objective.delta) are decided from one file of reports only: "
                    "quote these as one."
                )
            if lifetime_limit(self._market, connection) is not None:
                raise LedgerRefusal(
                    "a limit on a lifetime's epsilon (sellers.lifetime_epsilon, of this campaign or of "
                    "another one in the ledger) can be kept for one file of reports only: quote these as one."
                )

    def choose(self, counts: Counts) -> tuple[OfflineMechanism, Money]:
        """Return the mechanism for as many reports: as decided before, if they were."""
        self.counts = counts
        market, key = self._market, self._ledger.key
        _refuse_pilot(self._market_path, market, counts)
        reported = digest_of_sums(key, counts.sellers, counts.sums)
        digest = digest_of_round(key, self._place.campaign, market, "offline", reported)
        with reading(self._ledger) as connection:
            campaign = rounds.campaign_named(connection, self._place.campaign)
            found = rounds.rounds_with_digest(connection, digest)
            self._revision = rounds.revision_of(connection)
            if found:
                self.known = found[-1]
                mechanism = _decided(connection, found[-1])
                identity = found[-1].identity
            else:
                _refuse_open(connection, campaign)
                within = counts.sellers - counts.above
                remaining = remaining_of(market, connection, campaign)
                objective, plan = offline_objective(market, counts.sellers, within, remaining)
                mechanism = OfflineMechanism(to_distribution(market.costs.distribution), objective)
                identity = round_identity(key, digest, 0)
                self._draft = _draft(
                    market, mechanism, digest, identity, None if plan is None else plan.to_dict()
                )
        return mechanism, Money(market.money.minor_units, market.money.currency, identity)

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
                raise LedgerRefusal(
                    "these reports were quoted before, in one file or divided otherwise: quote them as then."
                )
            self.entered = self.known
            return
        assert self._draft is not None
        new = _with_sums(self._draft, quotes)
        with writing(self._ledger) as connection:
            if rounds.revision_of(connection) != self._revision:
                raise LedgerRefusal("others have been quoting meanwhile: nothing was entered; try again.")
            self.entered = enter_draft(
                connection,
                self._place.campaign,
                rules_of(self._market),
                self._market,
                Draft(new, None, None, self._revision),
                manifest.to_bytes(),
            )
            if log_head_of(connection) is None:
                begin_log(connection, self._ledger)
            enter_logged_withdrawals(connection, read_log())


def _refuse_unfit(market: Market) -> None:
    if way_to_decide(market, decide_offline) is decide_online:
        raise FileProblem(
            "expected a market that decides about all sellers at once: with one posted price every file can "
            "be quoted by itself."
        )
    if market.sellers.excluded is not None:
        raise LedgerRefusal(
            "sellers.excluded: a list of who must not sell is kept for one file of reports only; leave them "
            "out of the reports, or quote these as one file."
        )


def _refuse_open(connection: Connection, campaign: CampaignEntry | None) -> None:
    """Refuse while the campaign has open promises: whether to the same people is not looked up."""
    if campaign is None:
        return
    if any(found.state == "open" for found in rounds.rounds_of(connection, campaign.id)):
        raise LedgerRefusal(
            "this campaign has open promises, perhaps to the same people: train on these quotes first, or "
            "let everybody in them withdraw."
        )


def _refuse_pilot(market_path: str, market: Market, counts: Counts) -> None:
    """Refuse reports of people to whom the cost distribution was fitted, where that can be known by ids."""
    pilot, column = pilot_of(market_path)
    ids = market.sellers.id_column
    if pilot is None:
        return
    people = read_table(pilot, [column, ids], [ids], [column], if_there=[ids])
    if ids in people.columns and lists_with(counts.lists, people.get_column(ids).drop_nulls().to_list()):
        raise FileProblem(
            "some of these sellers are people of the pilot that the cost distribution was fitted to. Fit it "
            "to people who will not sell: otherwise lying pays."
        )


def _decided(connection: Connection, found: Round) -> OfflineMechanism:
    parameters, _, _ = rounds.decision_of(connection, found.number)
    return OfflineMechanism.from_dict({"mechanism": "offline", **parameters})


def _draft(
    market: Market, mechanism: OfflineMechanism, digest: str, identity: str, plan: dict[str, Any] | None
) -> NewRound:
    parameters = mechanism.to_dict()
    del parameters["mechanism"]
    return NewRound(
        quotes=pl.DataFrame(),
        content=b"",
        identity=identity,
        digest=digest,
        repetition=0,
        mechanism="offline",
        minor_units=market.money.minor_units,
        ceiling=max_epsilon(mechanism.objective),
        parameters=parameters,
        plan=plan,
        header=None,
    )


def _with_sums(new: NewRound, quotes: PartitionQuotes) -> NewRound:
    """Return the round with its sums, and the outcome's header; costs of few could be told from no value."""
    none = np.zeros(0)
    outcome = Outcome(
        mechanism="offline",
        seller_ids=np.zeros(0, dtype=np.int64),
        epsilons=none,
        payments=none.copy(),
        payment_errors=none.copy(),
        planned_weights=none.copy(),
        planned_noise_rate=quotes.total_promise,
        parameters=new.parameters,
    )
    sums = pl.DataFrame({SELLER: ["all"], EPSILON: [quotes.promised], PAYMENT: [quotes.minor_units]})
    return NewRound(**{**vars(new), "quotes": sums, "sellers": quotes.sellers, "header": outcome.header()})
