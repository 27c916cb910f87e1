"""Turn a file of reported costs into promises and payments, entered in the ledger before they are told."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.campaign.ledger import (
    EPSILON,
    PAYMENT,
    SELLER,
    Round,
    enter_round,
    ledger_path,
    open_ledger,
)
from dpmarket.campaign.market_file import Market, read_market, to_distribution
from dpmarket.errors import FileProblem
from dpmarket.files import (
    ColumnProblem,
    contains_text,
    find,
    is_standard_stream,
    numbers_of,
    parquet_bytes,
    read_table,
    refuse,
    refuse_existing,
    refuse_same,
    repeated,
    table_kind,
    writing_table,
)
from dpmarket.progress import StageProgress

if TYPE_CHECKING:
    from dpmarket.allocation import BuyerObjective
    from dpmarket.mechanisms import Outcome

# The mechanisms, which take a compiler along, load when they decide: most commands decide nothing.

Decide = Callable[[Market, FloatArray], "Outcome"]
"""A way to turn a market and reported costs into promises and payments."""


@dataclass(frozen=True)
class Quoting:
    """What quoting a file came to: the outcome, the round in the ledger, and whether it is a new one.

    Attributes
    ----------
    outcome : promises and payments, in the file's order. Confidential.
    round : as the ledger knows these quotes.
    is_new : false if the same quotes had been given before.
    """

    outcome: Outcome
    round: Round
    is_new: bool


def quote_file(
    market_path: str | os.PathLike[str],
    reports: str | os.PathLike[str],
    output: str | os.PathLike[str],
    decide: Decide,
    again: bool = False,
    overwrite: bool = False,
    progress: StageProgress = lambda what, share: None,
) -> Quoting:
    """Quote every seller of a file of reports, enter the promises in the ledger, and write the quotes.

    The same reports in the same market give the same quotes, which are the same promises: they are entered
    once, however often the command is run (after an interruption, say).

    Parameters
    ----------
    market_path : the market file; the ledger lies beside it.
    reports : .csv or .parquet with the columns ``sellers.id_column`` and ``sellers.cost_column``.
    output : .csv or .parquet for the quotes: id, epsilon, payment in money and in minor units. Confidential,
        because a promise tells what was reported.
    decide : the mechanism: :func:`decide_offline` or :func:`decide_online`.
    again : whether quotes that were given before are promised a second time, on top.
    overwrite : whether an existing output may be replaced.

    Raises
    ------
    FileProblem : a file that cannot be used; ``details`` name lines and columns, never a value.
    InvalidInput, Infeasible : the market says no.
    """
    market = read_market(market_path)
    refuse_same(output, market_path, ledger_path(market_path), reports)
    if not overwrite:
        refuse_existing(output)
    progress("Reading reports", 0.0)
    table = read_table(
        reports, list(_columns(market)), [market.sellers.id_column], [market.sellers.cost_column]
    )
    progress("Deciding promises and payments", 0.15)
    outcome = _decided(market, table, reports, decide)
    scale = market.money.minor_units
    amounts = outcome.in_minor_units(scale).amounts
    quotes = pl.DataFrame(
        {
            market.sellers.id_column: table.get_column(market.sellers.id_column),
            EPSILON: outcome.epsilons,
            "payment": amounts / scale,
            PAYMENT: amounts,
        }
    )
    progress("Entering promises in the ledger", 0.5)
    # Encoding takes longest: if the output is a Parquet file, the ledger keeps the same bytes.
    to_parquet = not is_standard_stream(output) and table_kind(output) == ".parquet"
    parquet = parquet_bytes(quotes) if to_parquet else None
    writing = writing_table(output, quotes, overwrite, parquet)
    with writing, open_ledger(ledger_path(market_path)) as ledger:  # shown when the promises are entered
        entered, is_new = enter_round(
            ledger, quotes, outcome.mechanism, scale, outcome.parameters, again, parquet
        )
    progress("Writing quotes", 1.0)
    return Quoting(outcome, entered, is_new)


def decide_offline(market: Market, costs: FloatArray) -> Outcome:
    """Decide for all sellers at once (the paper's Algorithm 2).

    Parameters
    ----------
    market : a checked market file; with a budget, its payment weight is planned without the reports.
    costs : everybody's report, money per unit of epsilon, shape (m,).

    Raises
    ------
    InvalidInput, Infeasible, NotConverged : what the plan or the mechanism refuses.
    """
    from dpmarket.mechanisms import OfflineMechanism

    return OfflineMechanism(to_distribution(market.costs.distribution), planned_objective(market)).run(costs)


def decide_online(market: Market, costs: FloatArray) -> Outcome:
    """Decide seller by seller, in the file's order, by one curve fixed beforehand (the paper's Algorithm 3).

    What a seller is quoted depends on their own report only, so that a file may hold any part of the sellers
    who are expected, and others may follow in further files.

    Raises
    ------
    FileProblem : the market file does not say how many sellers are expected.
    """
    from dpmarket.mechanisms import OnlineMechanism, population_curve

    if market.sellers.expected is None:
        raise FileProblem(
            "sellers.expected: missing; expected a whole number >= 1, for which online quotes are planned."
        )
    dist = to_distribution(market.costs.distribution)
    curve = population_curve(dist, planned_objective(market), market.sellers.expected)
    return OnlineMechanism(dist, curve).run(costs)


DECISIONS: dict[str, Decide] = {"offline": decide_offline, "online": decide_online}
"""The ways to decide that a ledger's rounds name."""


def planned_objective(market: Market) -> BuyerObjective:
    """Return the buyer's objective; with a budget, its payment weight is planned without any report.

    The plan is a function of the market file alone: quoting twice plans the same.
    """
    from dpmarket.allocation import BuyerObjective

    wanted = market.objective
    objective = BuyerObjective(
        wanted.concentration,
        wanted.noise,
        1.0 if wanted.payment_weight is None else wanted.payment_weight,
        wanted.weight_cap,
        wanted.max_mean_epsilon,
    )
    if wanted.budget is None or market.sellers.expected is None:
        return objective
    from dpmarket.planning import plan_payment_weight

    dist = to_distribution(market.costs.distribution)
    plan = plan_payment_weight(dist, objective, market.sellers.expected, wanted.budget, wanted.confidence)
    return plan.objective


def read_quotes(source: str | os.PathLike[str], id_column: str) -> pl.DataFrame:
    """Read a quotes file as the ledger knows it: columns seller, epsilon, payment_minor_units.

    Raises
    ------
    FileProblem : cells that are no numbers, epsilons that are negative, payments that are not whole.
    """
    table = read_table(source, [id_column, EPSILON, PAYMENT], [id_column], [EPSILON, PAYMENT])
    epsilons, problems = numbers_of(table, EPSILON)
    payments, more = numbers_of(table, PAYMENT)
    whole = np.isnan(payments) | ((payments == np.rint(payments)) & (payments >= 0.0) & (payments < 2.0**53))
    problems += more
    problems += find(EPSILON, "an epsilon below 0", epsilons < 0.0)
    problems += find(PAYMENT, "no whole number of minor units", ~whole)
    problems += id_problems(table, id_column)
    refuse(table, source, problems)
    columns = {
        SELLER: table.get_column(id_column),
        EPSILON: epsilons,
        PAYMENT: payments.astype(np.int64),
    }
    return pl.DataFrame(columns)


def id_problems(table: pl.DataFrame, id_column: str) -> list[ColumnProblem]:
    """Find rows without a seller's id, ids that stood in an earlier row already, and ids with a NUL.

    Arrays of texts drop NUL characters at the end, so that two sellers would look like one.
    """
    ids = table.get_column(id_column)
    empty: BoolArray = (ids.fill_null("") == "").to_numpy()  # white space is an id
    return [
        *find(id_column, "no seller id", empty),
        *find(id_column, "a seller id that an earlier row has already", repeated(table, id_column) & ~empty),
        *find(id_column, "an id with a NUL character", contains_text(table, id_column, "\0")),
    ]


def _columns(market: Market) -> tuple[str, str]:
    return market.sellers.id_column, market.sellers.cost_column


def _decided(market: Market, table: pl.DataFrame, source: str | os.PathLike[str], decide: Decide) -> Outcome:
    """Check the reports and decide. No decision depends on the ids: they are looked at meanwhile."""
    id_column, cost_column = _columns(market)
    costs, problems = numbers_of(table, cost_column)
    problems += find(cost_column, "a cost below 0", costs < 0.0)
    with ThreadPoolExecutor(1) as thread:
        ids = thread.submit(id_problems, table, id_column)
        if problems:
            refuse(table, source, problems + ids.result())
        try:
            return decide(market, costs)
        finally:
            refuse(table, source, ids.result())
