"""Turn a file of reported costs into promises and payments, entered in the ledger before they are told."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dpmarket.campaign.decision import Decide, name_of, way_to_decide
from dpmarket.campaign.drafting import Draft, choose, draft_of, enter_draft, new_salt, salt_of
from dpmarket.campaign.identity import round_digest
from dpmarket.campaign.market_file import Market, read_market
from dpmarket.campaign.pilots import refuse_own_reports
from dpmarket.campaign.place import opened, place_of
from dpmarket.campaign.quotes import Quotes
from dpmarket.campaign.reports import outside_distribution, reading_reports
from dpmarket.campaign.frozen_rules import refuse_changed, rules_of
from dpmarket.campaign.stored import outcome_of
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import (
    is_standard_stream,
    parquet_bytes,
    refuse_existing,
    refuse_same,
    refuse_unwritable,
    table_kind,
    table_to_bytes,
    writing_table,
)
from dpmarket.ledger import Ledger, Round, reading, rounds, writing
from dpmarket.ledger.outside import read_log
from dpmarket.ledger.places import begin_log
from dpmarket.ledger.releases import log_head_of
from dpmarket.ledger.restoring import enter_logged_withdrawals, logged_leaving
from dpmarket.ledger.rounds import SELLER
from dpmarket.progress import StageProgress

if TYPE_CHECKING:
    from dpmarket.mechanisms.outcome import Outcome

_WEAK = 3.0  # exp(3) / (1 + exp(3)) is 95%
EVERYBODY_LEFT = "everybody who was quoted by these reports has withdrawn: begin another campaign."
_ATTEMPTS = 50  # to enter a round before others change what it was decided by


@dataclass(frozen=True)
class Quoting:
    """What quoting a file came to.

    Attributes
    ----------
    outcome
        Promises and payments, in the order of the quotes, without who withdrew. Confidential.
    round
        As the ledger knows these quotes.
    rules
        All that decided, as plain data: the public tables, and a schedule or a salt.
    payments
        What is paid for them in all, in minor units, net of who withdrew.
    currency
        Of its amounts; empty if the market file names none.
    is_new
        False if the same quotes had been given before.
    left_out
        How many sellers were not quoted, by reason: full, lifetime, excluded.
    not_quoted
        The file that lists them; None if there are none.
    below, above
        How many costs lie below and above the market's distribution.
    weakly_protected, weak_epsilon
        How many sellers are promised more than this epsilon, with which an even guess about somebody can
        become 95% sure.
    """

    outcome: Outcome
    round: Round
    rules: Mapping[str, Any]
    payments: int
    currency: str
    is_new: bool
    left_out: dict[str, int]
    not_quoted: str | None
    below: int
    above: int
    weakly_protected: int
    weak_epsilon: float = _WEAK


@dataclass(frozen=True)
class _Outputs:
    """Where quotes go, and the list of who was not quoted."""

    quotes: str | os.PathLike[str]
    not_quoted: str | os.PathLike[str] | None
    overwrite: bool

    def refuse_no_list(self, left_out: pl.DataFrame | None) -> None:
        """Refuse quotes for the standard output where somebody must be listed and there is no file for it."""
        if left_out is not None and self.not_quoted is None:
            raise FileProblem(
                f"{left_out.height} sellers are not quoted, and there is no file to list them in: name one "
                "with --not-quoted."
            )

    @contextlib.contextmanager
    def writing(
        self, quotes: pl.DataFrame, left_out: pl.DataFrame | None, parquet: bytes | None = None
    ) -> Iterator[Callable[[], None]]:
        """Write both files while a block runs; they appear when it has succeeded. See ``writing_table``."""
        with contextlib.ExitStack() as stack:
            finished = [
                stack.enter_context(writing_table(target, table, overwrite=self.overwrite, parquet=content))
                for target, table, content in (
                    (self.not_quoted, left_out, None),
                    (self.quotes, quotes, parquet),
                )
                if target is not None and table is not None
            ]

            def wait() -> None:
                for one in finished:
                    one()

            yield wait


def quote_file(
    market_path: str | os.PathLike[str],
    reports: str | os.PathLike[str],
    output: str | os.PathLike[str],
    decide: Decide,
    *,
    overwrite: bool = False,
    progress: StageProgress = lambda what, share: None,
    ledger: str | None = None,
    not_quoted: str | os.PathLike[str] | None = None,
) -> Quoting:
    """Quote every seller of a file of reports, enter the promises in the ledger, and write the quotes.

    The same reports in the same market, in whatever order, are the same round: they are entered once,
    however often the command is run (after an interruption, say), and the quotes are those that were given.

    Parameters
    ----------
    market_path
        The market file; its rules are fixed with the first quote.
    reports
        .csv or .parquet with the columns ``sellers.id_column`` and ``sellers.cost_column``.
    output
        .csv or .parquet for the quotes: id, epsilon, payment in money and in minor units; the first row also
        says currency, minor units and round. Confidential, because a promise tells what was reported.
    decide
        The mechanism: :func:`~dpmarket.campaign.decision.decide_offline` or
        :func:`~dpmarket.campaign.decision.decide_online`.
    overwrite
        Whether existing outputs may be replaced.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.
    not_quoted
        Where sellers who were not quoted are listed, with the reason; None: beside the output, with
        ``-not-quoted`` after its name. Written only if there are any.

    Raises
    ------
    FileProblem
        A file that cannot be used; ``details`` name lines and columns, never a value.
    LedgerRefusal
        The rules changed, sellers have open promises, or the budget is full.
    InvalidInput, Infeasible
        The market says no.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    outputs = _Outputs(output, _beside(output) if not_quoted is None else not_quoted, overwrite)
    refuse_same(output, market_path, *place.files, reports)
    refuse_unwritable(output)
    if outputs.not_quoted is not None:
        refuse_same(outputs.not_quoted, market_path, *place.files, reports, output)
        refuse_unwritable(outputs.not_quoted)
        table_kind(outputs.not_quoted)
    if not overwrite:
        refuse_existing(output)
    decide = way_to_decide(market, decide)
    progress("Reading reports", 0.0)
    folder = os.fspath(market_path)
    with reading_reports(market, reports) as found:
        refuse_own_reports(market_path, market, found, reports)
        below, above = outside_distribution(market, found.costs)
        progress("Deciding promises and payments", 0.15)
        # Without a ledger decide first: what the market refuses leaves none behind.
        choice = (
            None if place.is_there else choose(market, folder, found, decide, None, None, salt=new_salt())
        )
    with opened(place) as opened_ledger:
        rules = rules_of(market)
        digest = round_digest(opened_ledger.key, place.campaign, market, name_of(decide), found)
        for _ in range(_ATTEMPTS):
            with reading(opened_ledger) as connection:
                campaign = rounds.campaign_named(connection, place.campaign)
                if campaign is not None:
                    refuse_changed(campaign.rules, market)
                known = rounds.rounds_with_digest(connection, digest)
                if known:
                    entered, left = known[-1], rounds.left_out_of(connection, known[-1].number)
                    kept = rounds.kept_quotes(connection, entered.number)
                    _tell_again(market, entered, kept, left, outputs)
                    outcome = outcome_of(connection, entered, kept)
                    decided = rounds.decision_of(connection, entered.number), outcome
                    return _result(
                        market, entered, decided, kept, left, outputs, is_new=False, outside=(below, above)
                    )
                if choice is None:
                    salt = salt_of(opened_ledger.key, place.campaign, found.sellers.to_series())
                    choice = choose(market, folder, found, decide, connection, campaign, salt=salt)
                draft = draft_of(market, choice, opened_ledger.key, digest, connection, campaign)
            outputs.refuse_no_list(draft.left_out)
            progress("Entering promises in the ledger", 0.5)
            told = _told(opened_ledger, draft)
            outcome = choice.decision.outcome
            new = _enter_and_tell(
                opened_ledger, place.campaign, rules, market, draft, kept=told, outputs=outputs
            )
            if new is not None:
                progress("Writing quotes", 1.0)
                if told.height < draft.new.quotes.height:
                    with reading(opened_ledger) as connection:
                        outcome = outcome_of(connection, new, told)
                decided = dict(draft.new.parameters), outcome
                return _result(
                    market, new, decided, told, draft.left_out, outputs, is_new=True, outside=(below, above)
                )
            choice = None
    raise LedgerRefusal("others have been quoting all the time: nothing was entered; try again.")


def _told(ledger: Ledger, draft: Draft) -> pl.DataFrame:
    """Return a draft's quotes without those of sellers who left it already.

    A backup from before a round has forgotten who left it; the same reports are the same round, and the log
    outside remembers.

    Raises
    ------
    LedgerRefusal
        Everybody left.
    """
    quotes, gone = draft.new.quotes, logged_leaving(ledger.id, draft.new.identity)
    told = quotes.filter(~pl.col(SELLER).is_in(gone)) if gone else quotes
    if not told.height:
        raise LedgerRefusal(EVERYBODY_LEFT)
    return told


def _enter_and_tell(
    ledger: Ledger,
    name: str,
    rules: dict[str, object],
    market: Market,
    draft: Draft,
    *,
    kept: pl.DataFrame,
    outputs: _Outputs,
) -> Round | None:
    """Enter a draft while its file is being written; None if the ledger has changed since it was drafted.

    ``kept`` are the quotes that are written, from :func:`_told`.
    """
    quotes = Quotes(kept, draft.new.minor_units, market.money.currency, draft.new.identity)
    told = quotes.as_written(market.sellers.id_column)
    # Encoding takes longest: if the output is a Parquet file, the ledger keeps the same bytes.
    to_parquet = not is_standard_stream(outputs.quotes) and table_kind(outputs.quotes) == ".parquet"
    parquet = parquet_bytes(told) if to_parquet else None
    if draft.left_out is not None:
        draft = replace(draft, new=replace(draft.new, left_out=table_to_bytes(draft.left_out)))
    missing = draft.new.quotes.height - kept.height
    content = table_to_bytes(draft.new.quotes) if parquet is None or missing else parquet
    try:
        # All of it is written before the round is entered, and told when it was entered.
        with (
            outputs.writing(told, draft.left_out, parquet) as finished,
            writing(ledger) as connection,
        ):
            if rounds.revision_of(connection) != draft.revision:
                raise _Changed
            entered = enter_draft(connection, name, rules, market, draft, content)
            finished()
            if log_head_of(connection) is None:
                begin_log(connection, ledger)
            if enter_logged_withdrawals(connection, read_log()) != missing:
                raise _Changed
    except _Changed:
        return None
    return entered


def _tell_again(
    market: Market, entered: Round, kept: pl.DataFrame, left_out: pl.DataFrame | None, outputs: _Outputs
) -> None:
    """Write the quotes that these reports were given before, without who withdrew since."""
    if kept.height == 0:
        raise LedgerRefusal(EVERYBODY_LEFT)
    outputs.refuse_no_list(left_out)
    quotes = Quotes(kept, entered.minor_units, market.money.currency, entered.identity)
    with outputs.writing(quotes.as_written(market.sellers.id_column), left_out):
        pass


def _result(
    market: Market,
    entered: Round,
    decided: tuple[dict[str, Any], Outcome],
    quotes: pl.DataFrame,
    left_out: pl.DataFrame | None,
    outputs: _Outputs,
    *,
    is_new: bool,
    outside: tuple[int, int],
) -> Quoting:
    rules, outcome = decided
    reasons: dict[str, int] = {}
    if left_out is not None:
        reasons = dict(Counter(left_out.get_column("reason").to_list()))
    listed = None if left_out is None else str(outputs.not_quoted)
    weak = int((outcome.epsilons > _WEAK).sum())
    return Quoting(
        outcome=outcome,
        round=entered,
        rules=rules,
        payments=rounds.totals(quotes)[1],
        currency=market.money.currency,
        is_new=is_new,
        left_out=reasons,
        not_quoted=listed,
        below=outside[0],
        above=outside[1],
        weakly_protected=weak,
    )


def _beside(output: str | os.PathLike[str]) -> Path | None:
    """Return where sellers who are not quoted are listed, None for the standard output."""
    if is_standard_stream(output):
        return None
    path = Path(output)
    return path.with_name(f"{path.stem}-not-quoted{path.suffix}")


class _Changed(Exception):
    """Somebody else promised or spent something between deciding and entering."""
