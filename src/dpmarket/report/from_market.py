"""The report of a campaign, from files or live, where nobody's cost is stored: it is read off the rule."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.certificate import LEFT, decided_by, describe_release
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_reports import read_reports
from dpmarket.campaign.opening import pools_of, rules_of
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.people import EPSILON_UNITS, person_digests
from dpmarket.campaign.place import place_of, refuse_changed
from dpmarket.campaign.quoting import reports_digest_of
from dpmarket.campaign.rules import pricing
from dpmarket.campaign.rules.released import ModelFile, Released, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import document_of
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.certificates import verify
from dpmarket.certificates.canonical import canonical
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import read_bytes, refuse_existing, refuse_same, write_bytes
from dpmarket.mechanisms.forecasts import BUDGETS
from dpmarket.mechanisms.plan import SMALL_MARKET
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.progress import StageProgress, silent
from dpmarket.report.audits import audits_of
from dpmarket.report.forecast import forecast_rules
from dpmarket.report.page import render_page
from dpmarket.report.score import score_file
from dpmarket.report.summary import SEALED, AuditNote, Material, Summary, noted, summarise

Path = str | os.PathLike[str]
_COSTS = 20_001  # at which the rule is tried


def report_file(
    rules_path: Path, output: Path, *, reports: Path | None = None, test: Path | None = None,
    groups: str | None = None, certificate: Path | None = None, public: Path | None = None,
    title: str | None = None, overwrite: bool = False, progress: StageProgress = silent,
    database: str | None = None,
) -> Summary:  # fmt: skip
    """Write the report of a campaign from files to ``output``, and return what it says.

    ``reports`` are the reported costs that were quoted, None: read off the rule. ``test`` are public records
    for the model's error, ``groups`` a column of them, such as a region, for whose values it is then
    reported. ``public`` is a public table, never private records, on which other budgets are simulated.
    """
    place = place_of(rules_path, database)
    given = [path for path in (test, certificate, reports, public) if path is not None]
    refuse_same(output, *place.files, *given)
    if not overwrite:
        refuse_existing(output)
    if groups is not None and test is None:
        raise FileProblem("expected public test data beside the column of its groups: name it with --test.")
    progress("Reading the campaign", 0.0)
    with place.campaign() as (market, found):
        refuse_changed(found, place.rules)
        costs = None
        if reports is not None:
            table = read_reports(place.rules, place.path, reports).table
            key, own = market.key, table.drop("written")
            if found.mechanism == pricing.OFFLINE and reports_digest_of(key, own) != found.reports_digest:
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
            public=public,
            progress=progress,
        )
    write_bytes(output, render_page(summary).encode(), overwrite=overwrite)
    progress("Writing the page", 1.0)
    return summary


def summarise_campaign(
    market: Market, campaign: int, *, title: str | None = None, costs: Mapping[bytes, float] | None = None,
    test: Path | None = None, groups: str | None = None, certificate: bytes | None = None,
    public: Path | None = None, progress: StageProgress = silent,
) -> Summary:  # fmt: skip
    """Return a campaign's report; ``costs`` are by digests of ids, None: read off the rule."""
    with market.look() as c:
        found = campaign_of(c, campaign)
    rules = rules_of(found)
    material = read_material(market, found, rules, costs)
    progress("Scoring and planning", 0.25)
    if test is not None:
        if not isinstance(material.released, ModelFile):
            raise FileProblem("expected a trained model for the test data: this campaign has none.")
        material = replace(material, score=score_file(material.released, test, groups))
    audits = audits_of(material)
    if certificate is not None:
        digest, verification = certified(certificate, material.released)
        material, audits = replace(material, digest=digest), [*audits, verification]
    if public is not None:
        expected = material.budget or float(material.outcome.payments.sum())
        forecast = forecast_rules(
            rules,
            public,
            budgets=[expected * factor for factor in BUDGETS],
            sellers=[len(material.outcome.epsilons)],
            progress=lambda what, share: progress(what, 0.3 + 0.6 * share),
        )
        material = replace(material, forecast=forecast)
    progress("Writing the page", 0.9)
    title = title or f"{found.name}: what was bought"
    return summarise(replace(planned(material, rules), title=title, audits=tuple(audits)))


def read_material(
    market: Market, found: Campaign, rules: Rules, costs: Mapping[bytes, float] | None = None
) -> Material:
    """Read what the market stores about a campaign's sellers, its decision and its release."""
    with market.look() as c:
        table = people_of(c, found).drop_nulls("epsilon")
    if table.height == 0:
        raise MarketRefusal("state", "Nobody was quoted in this campaign.")
    digests, states = table.get_column("digest").to_list(), table.get_column("state")
    public = decided_by(found)
    pools = pools_of(rules)
    members = np.array([pools.index(pool) for pool in table.get_column("pool")], dtype=np.int64)
    epsilons, amounts = (table.get_column(name).to_numpy() for name in ("epsilon", "payment"))
    document = document_of(market, found.id)
    known = costs is not None and all(digest in costs for digest in digests)
    if costs is not None and known:
        own = np.array([costs[digest] for digest in digests])
    else:
        own = np.zeros(epsilons.size)
        for g, schedule in enumerate(pricing.schedules_of(public, epsilons.size)):
            own[members == g] = costs_behind(schedule, epsilons[members == g])
    return Material(
        title=found.name,
        outcome=pricing.outcome_of(public, epsilons, amounts / found.minor_units),
        rules=public,
        ceiling=found.ceiling / EPSILON_UNITS,
        reported_costs=own,
        amounts=amounts,
        minor_units=found.minor_units,
        withdrawn=states.is_in(LEFT).to_numpy(),
        members=members,
        weights=table.get_column("weight").fill_null(0.0).to_numpy(),
        currency=rules.money.currency,
        budget=rules.objective.budget,
        budget_words="" if rules.objective.budget is None else pricing.budget_words(rules),
        declined=int(states.is_in(["declined", "expired"]).sum()),
        is_reported=known,
        released=None if document is None else released_from_bytes(document),
    )


def costs_behind(schedule: PriceSchedule, epsilons: FloatArray) -> FloatArray:
    """Return the highest cost, up to a fine grid, at which the schedule makes each seller's offer."""
    grid = np.linspace(float(schedule.costs[0]), schedule.reserve_price, _COSTS)
    offered = schedule.quote(grid)[0]
    # Epsilons fall with the cost: of how many costs is the offer at least as large?
    at_least = np.searchsorted(-offered, -epsilons * (1.0 - 1e-9), side="right")
    return np.asarray(grid[np.clip(at_least - 1, 0, grid.size - 1)])


def planned(material: Material, rules: Rules) -> Material:
    """Return the material with the plan for its budget, or for what was paid."""
    people, budget = len(material.outcome.epsilons), material.budget
    if budget is None:
        budget = int(material.amounts[~material.withdrawn].sum()) / material.minor_units
    plan = None
    if budget > 0.0 and people >= SMALL_MARKET:  # a plan for fewer simulates markets, for too long
        with contextlib.suppress(Infeasible):
            plan = pricing.plan_for(rules, people, budget)
    return replace(material, plan=plan)


def certified(data: bytes, made: Released | None) -> tuple[str, AuditNote]:
    """Return the digest of a certificate and its verification, or refuse one of another release."""
    try:
        body = data[len(b'{"body":') : data.index(b',\n"commitments"')]
        stated = canonical(json.loads(body, parse_int=float)["release"])  # all numbers are doubles
    except (KeyError, RecursionError, TypeError, ValueError):
        raise FileProblem("expected a certificate, as 'dpmarket certify' writes it.") from None
    if made is None or stated != canonical(describe_release(made)):
        raise FileProblem("the certificate is about another release than this campaign's.")
    found = verify(data)
    rows = [(check.name, check.verdict) for check in found.checks if check.verdict != "skipped"]
    return hashlib.sha256(body).hexdigest(), noted(SEALED, found.passed, rows)
