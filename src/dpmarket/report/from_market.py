"""The report of a campaign, from files or live: one reader of what the market stores.

Online, nobody's cost is stored. The page then groups people by the highest cost at which the rule makes the
offer that they took, which the offer itself tells; single offers are on no page.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.audit import Audit
from dpmarket.campaign.acts import Campaign, campaign_of
from dpmarket.campaign.certificate import LEFT
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_campaign import refuse_changed
from dpmarket.campaign.file_reports import read_reports
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.people import EPSILON_UNITS, person_digests
from dpmarket.campaign.place import existing_campaign, place_of
from dpmarket.campaign.quoting import decided_of, reports_digest_of
from dpmarket.campaign.rules.pricing import (
    OFFLINE,
    online_schedule,
    outcome_of,
    plan_for,
    prospect_for,
    schedule_of,
)
from dpmarket.campaign.rules.released import ModelFile, Released, StatisticsFile, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import market_key, released
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import parse_json, read_bytes, refuse_existing, refuse_same, write_bytes
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.plan import SMALL_MARKET, Prospect
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.progress import StageProgress
from dpmarket.report.evidence import SEALED, Verified, accounting_of, participation_of, truthfulness_of
from dpmarket.report.numbers import spending_of
from dpmarket.report.options import Option, budget_options, crowd_options
from dpmarket.report.page import render_page
from dpmarket.report.score import NumberScore, Score, score_file
from dpmarket.report.summary import Material, Summary, summarise

Path = str | os.PathLike[str]
_COSTS = 20_001  # at which the rule is tried


@dataclass(frozen=True, eq=False, repr=False)
class Purchase:
    """Everything about one campaign; confidential. Arrays are in the order of digests.

    Attributes
    ----------
    rules, found
        The campaign's rules, and its row.
    outcome, public
        What was decided, and all that decided it as plain data.
    costs, is_reported
        Costs, and whether they are what people reported; else they are read off the rule.
    amounts, withdrawn, declined
        Payments in smallest units, sellers who left before the release, and how many of these declined.
    made, weights
        What was released and everybody's weight in it, or None.
    """

    rules: Rules
    found: Campaign
    outcome: Outcome
    public: Mapping[str, Any]
    costs: FloatArray
    is_reported: bool
    amounts: IntArray
    withdrawn: BoolArray
    declined: int
    made: Released | None
    weights: FloatArray | None

    @property
    def model(self) -> ModelFile | None:
        """The released model, or None."""
        return self.made if isinstance(self.made, ModelFile) else None

    @property
    def statistics(self) -> StatisticsFile | None:
        """The released statistics, or None."""
        return self.made if isinstance(self.made, StatisticsFile) else None


def report_file(
    rules_path: Path,
    output: Path,
    *,
    reports: Path | None = None,
    test: Path | None = None,
    groups: str | None = None,
    certificate: Path | None = None,
    title: str | None = None,
    overwrite: bool = False,
    progress: StageProgress = lambda what, share: None,
    database: str | None = None,
) -> Summary:
    """Write the report of a campaign from files, and return what it says.

    Parameters
    ----------
    rules_path
        The rules file.
    output
        Where the page goes, ``-`` for standard output.
    reports
        The reported costs that were quoted, known by their keyed digest: the page then groups sellers by what
        they really reported. None: by the costs at which the rule makes their offers.
    test
        .csv or .parquet with features and labels of public records, for the model's error.
    groups
        A column of the test data, such as a region: the error is then told for each of its values.
    certificate
        The certificate, whose digest the page then names.
    title
        The page's heading; None: the campaign's name.
    overwrite
        Whether an existing output may be replaced.
    database
        A file or an address, in place of the rules' ``campaign.database``.

    Raises
    ------
    FileProblem
        A file that cannot be used; ``details`` name lines and columns, never a value.
    MarketRefusal
        Nobody was quoted, or these reports or rules are not those of the campaign.
    InvalidInput
        Fewer than ten sellers were bought from.
    """
    place = place_of(rules_path, database)
    given = [path for path in (test, certificate, reports) if path is not None]
    refuse_same(output, *place.files, *given)
    if not overwrite:
        refuse_existing(output)
    if groups is not None and test is None:
        raise FileProblem("expected public test data beside the column of its groups: name it with --test.")
    progress("Reading the campaign", 0.0)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        refuse_changed(found, place.rules)
        costs = None
        if reports is not None:
            table = read_reports(place.rules, place.path, reports).table
            key = market_key(market)
            if found.mechanism == OFFLINE and reports_digest_of(key, table) != found.reports_digest:
                raise MarketRefusal("invalid", "These are not the reports that this campaign was quoted for.")
            digests = person_digests(key, table.get_column("id").to_list())
            costs = dict(zip(digests, table.get_column("cost").to_list(), strict=True))
        summary = summarise_campaign(
            market,
            found.id,
            title=title,
            costs=costs,
            test=test,
            groups=groups,
            certificate=None if certificate is None else read_bytes(certificate),
            progress=progress,
        )
    write_bytes(output, render_page(summary).encode(), overwrite=overwrite)
    progress("Writing the page", 1.0)
    return summary


def summarise_campaign(
    market: Market,
    campaign: int,
    *,
    title: str | None = None,
    costs: Mapping[bytes, float] | None = None,
    test: Path | None = None,
    groups: str | None = None,
    certificate: bytes | None = None,
    progress: StageProgress = lambda what, share: None,
) -> Summary:
    """Return what the report of a campaign says.

    Parameters
    ----------
    costs
        Reported costs by digests of ids, where the caller may know them; None: read off the rule.
    title, test, groups
        As for :func:`report_file`.
    certificate
        The certificate's bytes.

    Raises
    ------
    InvalidInput
        Fewer than ten sellers were bought from.
    """
    found = read_purchase(market, campaign, costs)
    progress("Scoring and planning", 0.25)
    score = None
    if test is not None:
        if found.model is None:
            raise FileProblem("expected a trained model for the test data: this campaign has none.")
        score = score_file(found.model, test, groups)
    digest: str | None = None
    verified: tuple[tuple[str, Audit], ...] = ()
    if certificate is not None:
        digest, verified = certified(certificate, found.made)
    progress("Auditing", 0.6)
    audits = (*audits_of(found), *verified)
    progress("Writing the page", 0.9)
    heading = title or f"{found.found.name}: what was bought"
    return summarise(material_of(found, heading, audits=audits, score=score, digest=digest))


def read_purchase(market: Market, campaign: int, costs: Mapping[bytes, float] | None = None) -> Purchase:
    """Read what the market stores about a campaign's sellers, its decision and its release."""
    with market.look() as c:
        found = campaign_of(c, campaign)
        table = decided_of(c, campaign)
    if table.height == 0:
        raise MarketRefusal("state", "Nobody was quoted in this campaign.")
    digests, states = table.get_column("digest").to_list(), table.get_column("state")
    rules = rules_of(found)
    offline = found.mechanism == OFFLINE
    public = json.loads(found.offer or "{}") if offline else online_schedule(rules)[1]
    promised, amounts = (table.get_column(name).to_numpy() for name in ("epsilon", "payment"))
    document = released(market, campaign)
    known = costs is not None and all(digest in costs for digest in digests)
    if costs is not None and known:
        own = np.array([costs[digest] for digest in digests])
    else:
        own = costs_behind(schedule_of(public, promised.size), promised)
    return Purchase(
        rules=rules,
        found=found,
        outcome=outcome_of(public, promised, amounts / found.minor_units),
        public=public,
        costs=own,
        is_reported=known,
        amounts=amounts,
        withdrawn=states.is_in(LEFT).to_numpy(),
        declined=int(states.is_in(["declined", "expired"]).sum()),
        made=None if document is None else released_from_bytes(document),
        weights=None if document is None else table.get_column("weight").fill_null(0.0).to_numpy(),
    )


def costs_behind(schedule: PriceSchedule, epsilons: FloatArray) -> FloatArray:
    """Return the highest cost, up to a fine grid, at which the schedule makes each seller's offer."""
    grid = np.linspace(float(schedule.costs[0]), schedule.reserve_price, _COSTS)
    offered = schedule.quote(grid)[0]
    # Epsilons fall with the cost: of how many costs is the offer at least as large?
    at_least = np.searchsorted(-offered, -epsilons * (1.0 - 1e-9), side="right")
    return np.asarray(grid[np.clip(at_least - 1, 0, grid.size - 1)])


def material_of(
    found: Purchase,
    title: str,
    *,
    audits: tuple[tuple[str, Audit], ...],
    score: Score | NumberScore | None = None,
    digest: str | None = None,
) -> Material:
    """Return what a report about a campaign is made of; other budgets are planned here."""
    budget = found.rules.objective.budget
    paid = int(found.amounts[~found.withdrawn].sum()) / found.found.minor_units
    money = paid if budget is None else budget
    planned: Prospect | None = None
    alternatives: tuple[Prospect, ...] = ()
    people = found.outcome.epsilons.size
    if money > 0.0 and people >= SMALL_MARKET:  # a plan for fewer simulates markets, for too long
        with contextlib.suppress(Infeasible):
            plan = plan_for(found.rules, people, money)
            planned, alternatives = plan.prospect, plan.alternatives
    return Material(
        title=title,
        outcome=found.outcome,
        rules=found.public,
        campaign=found.rules,
        reported_costs=found.costs,
        minor_units=found.found.minor_units,
        currency=found.rules.money.currency,
        ceiling=found.found.ceiling / EPSILON_UNITS,
        amounts=found.amounts,
        withdrawn=found.withdrawn,
        declined=found.declined,
        budget=budget,
        options=options_of(found, money),
        planned=planned,
        alternatives=alternatives,
        model=found.model,
        statistics=found.statistics,
        score=score,
        audits=audits,
        digest=digest,
    )


def options_of(found: Purchase, budget: float) -> tuple[Option, ...]:
    """Return what other budgets, more and fewer people and fewer features could be expected to do."""
    rules, people = found.rules, found.outcome.epsilons.size
    return (
        *budget_options(partial(prospect_for, rules, people), budget),
        *crowd_options(rules, people, budget, prospect_for),
    )


def audits_of(found: Purchase) -> tuple[tuple[str, Audit], ...]:
    """Run the audits that a report shows; each with the question that it answers."""
    epsilons, scale = found.outcome.epsilons, found.found.minor_units
    audits = [truthfulness_of(found.public, epsilons.size)]
    if found.is_reported:
        audits.append(participation_of(found.public, found.costs, epsilons, found.amounts, scale))
    if found.model is not None and found.weights is not None:
        rng = np.random.default_rng(0)
        audits.append(accounting_of(found.model, found.weights, epsilons, rng))
    if found.statistics is not None and found.weights is not None:
        audits.append(spending_of(found.statistics, found.weights, epsilons))
    return tuple(audits)


def certified(data: bytes, made: Released | None) -> tuple[str, tuple[tuple[str, Audit], ...]]:
    """Return the digest of a certificate and its verification, or refuse one of another release."""
    start, end = b'{"body":', b',\n"commitments"'
    try:
        body = data[len(start) : data.index(end)]
        cells = _cells(parse_json(body)["release"])
    except (KeyError, TypeError, ValueError):
        raise FileProblem("expected a certificate, as 'dpmarket certify' writes it.") from None
    if made is None or cells != _cells(_as_certified(made)):
        raise FileProblem("the certificate is about another release than this campaign's.")
    return hashlib.sha256(body).hexdigest(), ((SEALED, Verified(verify(data))),)


def _cells(release: Mapping[str, Any]) -> Any:
    """Return the numbers of a release, as a certificate states them."""
    if "statistics" in release:
        return {name: list(map(str, one["numerators"])) for name, one in release["statistics"].items()}
    if "coefficients" in release:
        return release["coefficients"]
    return [list(map(str, row)) for row in release["cells"]]


def _as_certified(made: Released) -> Mapping[str, Any]:
    if isinstance(made, ModelFile):
        return made.description
    return {"statistics": {name: one.release for name, one in made.statistics.items()}}
