"""Turn the files of a campaign into its report."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.audit import Audit
from dpmarket.campaign import (
    Market,
    ModelFile,
    StatisticFile,
    place_of,
    read_market,
    read_quotes,
    stored_outcome,
)
from dpmarket.campaign.identity import was_reported
from dpmarket.campaign.place import opened_existing
from dpmarket.campaign.records import label_numbers
from dpmarket.campaign.released import Released, released_from_json
from dpmarket.campaign.reports import read_reports
from dpmarket.campaign.frozen_rules import refuse_changed
from dpmarket.campaign.terms import plan_for, prospect_for
from dpmarket.campaign.training import known_round
from dpmarket.certificates import verify
from dpmarket.datasets import PublicData
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal
from dpmarket.files import (
    numbers_of,
    parse_json,
    positions_in,
    read_bytes,
    read_table,
    refuse,
    refuse_existing,
    refuse_same,
    write_bytes,
)
from dpmarket.ledger import Round, reading
from dpmarket.ledger.releases import released_model
from dpmarket.ledger.rounds import (
    SELLER,
    amounts_of,
    campaign_of,
    decision_of,
    quotes_of,
    weights_of,
    withdrawn_of,
)
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.plan import SMALL_MARKET, Prospect
from dpmarket.report.evidence import SEALED, Verified, accounting_of, participation_of, truthfulness_of
from dpmarket.report.numbers import spending_of
from dpmarket.report.options import Option, budget_options, crowd_options
from dpmarket.report.page import render_page
from dpmarket.report.score import Groups, Score, score_model
from dpmarket.report.summary import Material, Summary, summarise

Path = str | os.PathLike[str]


def report_campaign(
    market_path: Path,
    reports: Path,
    quotes: Path,
    output: Path,
    *,
    test: Path | None = None,
    groups: str | None = None,
    certificate: Path | None = None,
    title: str = "A market for privacy: what was bought",
    overwrite: bool = False,
    progress: Any = lambda what, share: None,
    ledger: str | None = None,
) -> Summary:
    """Write the report of one file of quotes, and return what it says.

    Parameters
    ----------
    market_path
        The market file; the ledger lies beside it.
    reports
        The reported costs that were quoted. They are known by the ledger's keyed digest, so that the page
        speaks of what was really reported; what was decided is the ledger's.
    quotes
        The file that ``quote`` wrote, unchanged.
    output
        Where the page goes, ``-`` for standard output.
    test
        .csv or .parquet with features and labels of public records, for the model's error.
    groups
        A column of the test data, such as a region: the model's error is then told for each of its values.
    certificate
        The certificate, whose digest the page then names.
    title
        The page's heading.
    overwrite
        Whether an existing output may be replaced.
    progress
        Called with what is being done and the share of all work that is done.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.

    Raises
    ------
    FileProblem
        A file that cannot be used; ``details`` name lines and columns, never a value.
    LedgerRefusal
        No such quotes were given, or these reports or this market are not those of the quotes.
    InvalidInput
        Fewer than ten sellers were bought from.
    """
    given = [path for path in (test, certificate) if path is not None]
    place = place_of(market_path, read_market(market_path), ledger)
    refuse_same(output, market_path, *place.files, reports, quotes, *given)
    if not overwrite:
        refuse_existing(output)
    progress("Reading the campaign", 0.0)
    found = read_campaign(market_path, reports, quotes, ledger)
    progress("Scoring and planning", 0.25)
    score = None
    if test is not None:
        if found.model is None:
            raise FileProblem("expected a trained model for the test data: these quotes were not trained on.")
        score = score_model(found.model, *read_public_data(found.model, test, groups))
    elif groups is not None:
        raise FileProblem("expected public test data beside the column of its groups: give --test, too.")
    digest: str | None = None
    verified: tuple[tuple[str, Audit], ...] = ()
    if certificate is not None:
        digest, verified = certified(read_bytes(certificate), certificate, found.released)
    progress("Auditing", 0.6)
    audits = (*audits_of(found), *verified)
    progress("Writing the page", 0.9)
    summary = summarise(material_of(found, title, audits=audits, score=score, digest=digest))
    write_bytes(output, render_page(summary).encode(), overwrite=overwrite)
    progress("Writing the page", 1.0)
    return summary


@dataclass(frozen=True, eq=False, repr=False)
class Campaign:
    """Everything about one file of quotes; confidential. Arrays are in the order of the quotes.

    Attributes
    ----------
    market, round
        The market file, and the round in the ledger.
    outcome, rules
        What the mechanism decided, with the ledger's promises, and all that decided it.
    costs, amounts, withdrawn
        Reports, payments in smallest units, and who withdrew.
    released, loss_weights
        The released model or statistics, and everybody's weight in it, or None.
    """

    market: Market
    round: Round
    outcome: Outcome
    rules: Mapping[str, Any]
    costs: FloatArray
    amounts: IntArray
    withdrawn: BoolArray
    released: Released | None
    loss_weights: FloatArray | None

    @property
    def model(self) -> ModelFile | None:
        """The released model, or None."""
        return self.released if isinstance(self.released, ModelFile) else None

    @property
    def statistics(self) -> StatisticFile | None:
        """The released statistics, or None."""
        return self.released if isinstance(self.released, StatisticFile) else None


def material_of(
    campaign: Campaign,
    title: str,
    *,
    audits: tuple[tuple[str, Audit], ...],
    score: Score | None = None,
    comparison: Mapping[str, Any] | None = None,
    digest: str | None = None,
) -> Material:
    """Return what a report about a campaign is made of; other budgets are planned here."""
    budget = campaign.market.objective.budget
    paid = int(campaign.amounts[~campaign.withdrawn].sum()) / campaign.round.minor_units
    money = paid if budget is None else budget
    planned: Prospect | None = None
    alternatives: tuple[Prospect, ...] = ()
    people = campaign.outcome.epsilons.size
    if money > 0.0 and people >= SMALL_MARKET:  # a plan for fewer simulates markets, for too long
        with contextlib.suppress(Infeasible):
            plan = plan_for(campaign.market, people, money)
            planned, alternatives = plan.prospect, plan.alternatives
    return Material(
        title=title,
        outcome=campaign.outcome,
        rules=campaign.rules,
        reported_costs=campaign.costs,
        minor_units=campaign.round.minor_units,
        currency=campaign.market.money.currency,
        ceiling=campaign.round.ceiling,
        amounts=campaign.amounts,
        withdrawn=campaign.withdrawn,
        budget=budget,
        options=options_of(campaign, money),
        planned=planned,
        alternatives=alternatives,
        model=campaign.model,
        statistics=campaign.statistics,
        score=score,
        comparison=comparison,
        audits=audits,
        digest=digest,
    )


def read_campaign(market_path: Path, reports: Path, quotes: Path, ledger: str | None = None) -> Campaign:
    """Read what the files and the ledger know about a file of quotes; see :func:`report_campaign`."""
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    quoted = read_quotes(quotes, market.sellers.id_column)
    reported = read_reports(market, reports)
    with opened_existing(place) as opened, reading(opened) as connection:
        entered = known_round(connection, quoted)
        refuse_changed(campaign_of(connection, entered.campaign).rules, market)
        if not was_reported(opened.key, place.campaign, market, entered, reported):
            raise LedgerRefusal(
                "these reports are not those that the quotes were decided from: use the file that was quoted."
            )
        table = quotes_of(connection, entered.number)  # a file written later lacks who withdrew
        withdrawn = withdrawn_of(connection, entered.number, table)
        kept = released_model(connection, entered.number)
        loss_weights = None if kept is None else weights_of(connection, entered.number)
        outcome = stored_outcome(connection, entered)
        rules = decision_of(connection, entered.number)
    rows = positions_in(table, SELLER, reported.sellers, SELLER)
    return Campaign(
        market=market,
        round=entered,
        outcome=outcome,
        rules=rules,
        costs=reported.costs[rows],
        amounts=amounts_of(table)[1],
        withdrawn=withdrawn,
        released=None if kept is None else released_from_json(kept),
        loss_weights=loss_weights,
    )


def options_of(campaign: Campaign, budget: float) -> tuple[Option, ...]:
    """Return what other budgets, more and fewer people and fewer features could be expected to do."""
    market, people = campaign.market, campaign.outcome.epsilons.size
    return (
        *budget_options(partial(prospect_for, market, people), budget),
        *crowd_options(market, people, budget, prospect_for),
    )


def audits_of(campaign: Campaign) -> tuple[tuple[str, Audit], ...]:
    """Run the audits that a report shows; each with the question that it answers."""
    epsilons, scale = campaign.outcome.epsilons, campaign.round.minor_units
    audits = [
        truthfulness_of(campaign.rules, epsilons.size),
        participation_of(campaign.rules, campaign.costs, epsilons, campaign.amounts, scale),
    ]
    if campaign.model is not None and campaign.loss_weights is not None:
        rng = np.random.default_rng(0)
        audits.append(accounting_of(campaign.model, campaign.loss_weights, epsilons, rng))
    if campaign.statistics is not None and campaign.loss_weights is not None:
        audits.append(spending_of(campaign.statistics, campaign.loss_weights, epsilons))
    return tuple(audits)


def read_public_data(
    model: ModelFile, source: Path, groups: str | None = None
) -> tuple[PublicData, Groups | None]:
    """Read records that everybody may see, in the columns that a model names, and the groups they belong to.

    Raises
    ------
    FileProblem
        Missing columns, cells without a number, labels that the model does not know.
    """
    names = [feature.name for feature in model.features]
    texts_of = [model.label_column, *([] if groups is None else [groups])]
    table = read_table(source, list(dict.fromkeys([*names, *texts_of])), texts_of, names)
    columns, problems = zip(*(numbers_of(table, name) for name in names), strict=True)
    places, wrong = label_numbers(
        [str(label) for label in model.labels], table, model.label_column, np.arange(table.height)
    )
    refuse(table, source, [*(problem for some in problems for problem in some), *wrong])
    data = PublicData(
        features=np.column_stack(columns),
        labels=np.asarray(model.labels)[places],
        classes=tuple(model.labels),
        low=np.array([feature.low for feature in model.features]),
        high=np.array([feature.high for feature in model.features]),
        name=os.path.basename(os.fspath(source)),
        source=os.path.basename(os.fspath(source)),
        feature_names=tuple(names),
    )
    if groups is None:
        return data, None
    return data, Groups(groups, table.get_column(groups).cast(pl.String).fill_null("(none)").to_list())


def certified(
    data: bytes, source: Path, released: Released | None
) -> tuple[str, tuple[tuple[str, Audit], ...]]:
    """Return the digest of a certificate and its verification, or refuse one of another release."""
    start, end = b'{"body":', b',\n"commitments"'
    try:
        body = data[len(start) : data.index(end)]
        found = parse_json(body)
        cells = _cells(found["release"])
    except (KeyError, TypeError, ValueError):
        raise FileProblem(f"expected a certificate in {source}, as 'dpmarket certify' writes it.") from None
    if released is None or cells != _cells(_as_certified(released)):
        raise FileProblem(
            f"the certificate in {source} is about another release than the one of these quotes."
        )
    return hashlib.sha256(body).hexdigest(), ((SEALED, Verified(verify(data))),)


def _cells(release: Mapping[str, Any]) -> Any:
    """Return the numbers of a release, as a certificate states them."""
    if "statistics" in release:
        return {name: list(map(str, one["numerators"])) for name, one in release["statistics"].items()}
    return (
        release["coefficients"]
        if "coefficients" in release
        else [list(map(str, row)) for row in release["cells"]]
    )


def _as_certified(released: Released) -> Mapping[str, Any]:
    if isinstance(released, ModelFile):
        return released.description
    return {"statistics": {name: one.release for name, one in released.statistics.items()}}
