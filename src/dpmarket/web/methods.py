"""What a worker does with a campaign by its rules: mechanism, release, certificate, report, forecast."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from dpmarket.campaign import hooks
from dpmarket.campaign.acts import WORKER
from dpmarket.campaign.certificate import (
    certify_live,
    decide_of,
    document_of,
    enter_report,
    reported_costs,
)
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import FORECAST, Job
from dpmarket.campaign.mail import handlers
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.encoding import decode_records
from dpmarket.campaign.training import RecordSource, Release, SealedRecords
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.campaign.worker import Methods
from dpmarket.certificates import Certificate, sign
from dpmarket.errors import DpmarketError, Infeasible, InvalidInput, NotCertifiable, NotConverged
from dpmarket.web.folder import SIGNING_KEY
from dpmarket.web.settings import Settings
from dpmarket.web.smtp import sender_of
from dpmarket.web.webhooks import send_hooks

_MOST_LINES = 10


def methods_of(settings: Settings) -> Methods:
    """Return what a worker of a service does with campaigns and further jobs."""
    key = settings.folder / SIGNING_KEY

    def signed(certificate: Certificate) -> bytes:
        return sign(certificate, key)

    def certify(market: Market, job: Job) -> None:
        if document_of(market, job.subject, "released") is not None:  # one that failed has none
            certify_live(market, job.subject, signed if key.exists() else None)

    def hook(market: Market, job: Job) -> None:
        send_hooks(market, job, settings)

    def forecast(market: Market, job: Job) -> bytes:
        return _forecast(market, job, settings)

    own = {"certify": certify, "report": _report, FORECAST: forecast, hooks.KIND: hook}
    others = {**own, **handlers(sender_of(settings))}

    def release(found: Campaign) -> Release:
        rules = rules_of(found)
        settings.refuse_unlisted(rules.training.model)
        return release_for(rules)

    return Methods(decide_of, _records, release, others)


def _records(market: Market, found: Campaign) -> RecordSource:
    rules = rules_of(found)
    return SealedRecords(market, found.id, lambda contents: decode_records(rules, contents))


def _report(market: Market, job: Job) -> None:
    """Make a campaign's report; of fewer than ten people there is none."""
    from dpmarket.report.from_market import summarise_campaign  # takes seconds to load
    from dpmarket.report.page import render_page

    costs = reported_costs(market, job.subject)
    certificate = document_of(market, job.subject, "certificate")
    try:
        page = render_page(summarise_campaign(market, job.subject, costs=costs, certificate=certificate))
    except (InvalidInput, Infeasible, NotConverged, NotCertifiable):
        page = ""
    market.run(enter_report, WORKER, job.subject, page.encode())


def _forecast(market: Market, job: Job, settings: Settings) -> bytes:
    """Simulate a draft's campaign on the public table that its buyer sent; return what a page shows."""
    from dpmarket.mechanisms.forecasts import PERSONAL
    from dpmarket.report.forecast import forecast_rules  # takes seconds to load

    with market.look() as c:
        found = campaign_of(c, job.subject)
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder, "sample.csv")
        sample.write_bytes(job.body or b"")
        said: dict[str, object]
        try:
            rules = rules_of(found)
            settings.refuse_unlisted(rules.training.model)
            made = forecast_rules(rules, sample)
        except DpmarketError as problem:
            lines = [str(problem), *getattr(problem, "details", ())][:_MOST_LINES]
            said = {"problems": [line.replace(f"{folder}/", "") for line in lines]}
        else:
            own = [vars(one) for one in made.predictions if one.rule == PERSONAL]
            said = made.to_dict() | {"predictions": own}
    return json.dumps({"rules": found.rules_digest, **said}).encode()
