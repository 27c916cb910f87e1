"""Turn the files of a campaign into its report."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.audit import Audit
from dpmarket.campaign import (
    Market,
    ModelFile,
    Round,
    existing_ledger,
    ledger_path,
    read_market,
    read_quotes,
)
from dpmarket.campaign.ledger import EPSILON, PAYMENT, SELLER, released_model, weights_of, withdrawn_of
from dpmarket.campaign.model_file import model_from_json
from dpmarket.campaign.quoting import DECISIONS
from dpmarket.campaign.training import known_round
from dpmarket.certificates import verify
from dpmarket.datasets import PublicData
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import (
    find,
    numbers_of,
    positions_in,
    read_bytes,
    read_table,
    refuse,
    refuse_existing,
    refuse_same,
    write_bytes,
)
from dpmarket.mechanisms import Outcome
from dpmarket.report.evidence import Verified, accounting_of, participation_of, truthfulness_of
from dpmarket.report.options import budget_options
from dpmarket.report.page import render_page
from dpmarket.report.rule import market_of
from dpmarket.report.score import score_model
from dpmarket.report.summary import Material, Summary, summarise

Path = str | os.PathLike[str]
_CLOSE = 1e-9  # relative difference of promises that another processor's rounding may cause


def report_campaign(
    market_path: Path,
    reports: Path,
    quotes: Path,
    output: Path,
    test: Path | None = None,
    certificate: Path | None = None,
    title: str = "A market for privacy: what was bought",
    overwrite: bool = False,
    progress: Any = lambda what, share: None,
) -> Summary:
    """Write the report of one file of quotes, and return what it says.

    Parameters
    ----------
    market_path : the market file; the ledger lies beside it.
    reports : the reported costs that were quoted. The quotes are decided once more from them and held against
        the ledger's, so that the page speaks of the rule that was really used.
    quotes : the file that ``quote`` wrote, unchanged.
    output : where the page goes, ``-`` for standard output.
    test : .csv or .parquet with features and labels of public records, for the model's error.
    certificate : the certificate, whose digest the page then names.
    title : the page's heading.
    overwrite : whether an existing output may be replaced.
    progress : called with what is being done and the share of all work that is done.

    Raises
    ------
    FileProblem : a file that cannot be used; ``details`` name lines and columns, never a value.
    LedgerRefusal : no such quotes were given, or the reports in this market lead to other quotes.
    InvalidInput : fewer than ten sellers were bought from.
    """
    given = [path for path in (test, certificate) if path is not None]
    refuse_same(output, market_path, ledger_path(market_path), reports, quotes, *given)
    if not overwrite:
        refuse_existing(output)
    progress("Deciding the quotes once more", 0.0)
    campaign = read_campaign(market_path, reports, quotes)
    progress("Scoring and planning", 0.25)
    score = None
    if test is not None:
        if campaign.model is None:
            raise FileProblem("expected a trained model for the test data: these quotes were not trained on.")
        score = score_model(campaign.model, read_public_data(campaign.model, test))
    digest: str | None = None
    verified: tuple[tuple[str, Audit], ...] = ()
    if certificate is not None:
        digest, verified = _certificate(certificate, campaign.model)
    dist, objective = market_of(campaign.outcome)
    budget = campaign.market.objective.budget
    paid = int(campaign.amounts[~campaign.withdrawn].sum()) / campaign.round.minor_units
    options = budget_options(
        dist, objective, campaign.outcome.epsilons.size, paid if budget is None else budget
    )
    progress("Auditing", 0.6)
    audits = (*audits_of(campaign), *verified)
    progress("Writing the page", 0.9)
    summary = summarise(
        Material(
            title=title,
            outcome=campaign.outcome,
            reported_costs=campaign.costs,
            minor_units=campaign.round.minor_units,
            amounts=campaign.amounts,
            withdrawn=campaign.withdrawn,
            budget=budget,
            options=options,
            model=campaign.model,
            score=score,
            audits=audits,
            digest=digest,
        )
    )
    write_bytes(output, render_page(summary).encode(), overwrite)
    progress("Writing the page", 1.0)
    return summary


@dataclass(frozen=True, eq=False, repr=False)
class Campaign:
    """Everything about one file of quotes; confidential. Arrays are in the order of the quotes.

    Attributes
    ----------
    market, round : the market file, and the round in the ledger.
    outcome : what the mechanism decided, with the ledger's promises.
    costs, amounts, withdrawn : reports, payments in smallest units, and who withdrew.
    model, loss_weights : the released model and everybody's weight in it, or None.
    """

    market: Market
    round: Round
    outcome: Outcome
    costs: FloatArray
    amounts: IntArray
    withdrawn: BoolArray
    model: ModelFile | None
    loss_weights: FloatArray | None


def read_campaign(market_path: Path, reports: Path, quotes: Path) -> Campaign:
    """Read what the files and the ledger know about a file of quotes; see :func:`report_campaign`."""
    market = read_market(market_path)
    quoted = read_quotes(quotes, market.sellers.id_column)
    costs = _costs_of(market, quoted, reports)
    with existing_ledger(ledger_path(market_path)) as ledger:
        entered = known_round(ledger, quoted)
        withdrawn = withdrawn_of(ledger, entered.number, quoted)
        kept = released_model(ledger, entered.number)
        loss_weights = None if kept is None else weights_of(ledger, entered.number)
    decide = DECISIONS[entered.mechanism]
    epsilons, amounts = (np.asarray(quoted.get_column(name).to_numpy()) for name in (EPSILON, PAYMENT))
    outcome = decide(market, costs)
    again = outcome.in_minor_units(entered.minor_units).amounts
    same = (
        np.allclose(outcome.epsilons, epsilons, rtol=_CLOSE, atol=0.0) and np.abs(again - amounts).max() <= 1
    )
    if not same:
        raise LedgerRefusal(
            "these reports in this market lead to other quotes than those given: the reports or the market "
            "file have changed since. Use the files that were quoted."
        )
    return Campaign(
        market=market,
        round=entered,
        outcome=replace(outcome, epsilons=epsilons.copy()),
        costs=costs,
        amounts=amounts,
        withdrawn=withdrawn,
        model=None if kept is None else model_from_json(kept),
        loss_weights=loss_weights,
    )


def audits_of(campaign: Campaign) -> tuple[tuple[str, Audit], ...]:
    """Run the audits that a report shows; each with the question that it answers."""
    epsilons, scale = campaign.outcome.epsilons, campaign.round.minor_units
    audits = [
        truthfulness_of(campaign.outcome),
        participation_of(campaign.costs, epsilons, campaign.amounts, scale),
    ]
    if campaign.model is not None and campaign.loss_weights is not None:
        rng = np.random.default_rng(0)
        audits.append(accounting_of(campaign.model, campaign.loss_weights, epsilons, rng))
    return tuple(audits)


def read_public_data(model: ModelFile, source: Path) -> PublicData:
    """Read records that everybody may see, in the columns that a model names.

    Raises
    ------
    FileProblem : missing columns, cells without a number, labels that are neither of the two.
    """
    names = [feature.name for feature in model.features]
    table = read_table(source, [*names, model.label_column], [model.label_column], names)
    columns, problems = zip(*(numbers_of(table, name) for name in names), strict=True)
    texts = table.get_column(model.label_column)
    negative, positive = ((texts == str(label)).fill_null(False).to_numpy() for label in model.labels)
    wrong = find(model.label_column, "neither of the two labels", ~(negative | positive))
    refuse(table, source, [*(problem for some in problems for problem in some), *wrong])
    labels = np.asarray(model.labels)[positive.astype(np.int64)]
    return PublicData(
        features=np.column_stack(columns),
        labels=labels,
        classes=(model.labels[0], model.labels[1]),
        low=np.array([feature.low for feature in model.features]),
        high=np.array([feature.high for feature in model.features]),
        name=os.path.basename(os.fspath(source)),
        source=os.path.basename(os.fspath(source)),
        feature_names=tuple(names),
    )


def _costs_of(market: Market, quoted: pl.DataFrame, source: Path) -> FloatArray:
    """Return every quoted seller's reported cost."""
    id_column, cost_column = market.sellers.id_column, market.sellers.cost_column
    table = read_table(source, [id_column, cost_column], [id_column], [cost_column])
    costs, problems = numbers_of(table, cost_column)
    problems += find(id_column, "no seller id", (table.get_column(id_column).fill_null("") == "").to_numpy())
    problems += find(cost_column, "a cost below 0", costs < 0.0)
    refuse(table, source, problems)
    rows = positions_in(quoted, SELLER, table, id_column)
    if table.height != quoted.height or (rows < 0).any():
        raise LedgerRefusal(
            f"expected the reports of exactly the sellers who were quoted ({quoted.height}), found "
            f"{int((rows >= 0).sum())} of them in {table.height} rows."
        )
    return costs[rows]


def _certificate(source: Path, model: ModelFile | None) -> tuple[str, tuple[tuple[str, Audit], ...]]:
    """Return the digest of a certificate and its verification, or refuse one of another model."""
    data = read_bytes(source)
    start, end = b'{"body":', b',\n"commitments"'
    try:
        body = data[len(start) : data.index(end)]
        released = json.loads(body)["model"]["coef_grid"]
    except (KeyError, TypeError, ValueError):
        raise FileProblem(f"expected a certificate in {source}, as 'dpmarket certify' writes it.") from None
    if model is None or _whole(released) != _whole(model.coef_grid):
        raise FileProblem(f"the certificate in {source} is about another model than the one of these quotes.")
    question = "Does the certificate hold together?"
    return hashlib.sha256(body).hexdigest(), ((question, Verified(verify(data))),)


def _whole(values: Sequence[int]) -> list[int]:
    return [int(value) for value in values]
