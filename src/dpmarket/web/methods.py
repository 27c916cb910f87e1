"""What a worker does with a campaign by its rules: mechanism, records, release, certificate."""

from __future__ import annotations

from dpmarket.campaign.rules.encoding import decode_records
from dpmarket.core.acts import Campaign
from dpmarket.core.database import Market
from dpmarket.core.mail import handlers
from dpmarket.core.opening import decide_for, rules_of
from dpmarket.core.quoting import Decide
from dpmarket.core.release import release_for
from dpmarket.core.training import RecordSource, Release, SealedRecords
from dpmarket.core.worker import Methods
from dpmarket.web.settings import Settings
from dpmarket.web.smtp import sender_of


def methods_of(settings: Settings) -> Methods:
    """Return what a worker of a service does with campaigns and further jobs."""
    return Methods(_decide, _records, _release, handlers(sender_of(settings)))


def _decide(found: Campaign) -> Decide:
    return decide_for(rules_of(found))


def _records(market: Market, found: Campaign) -> RecordSource:
    rules = rules_of(found)
    return SealedRecords(market, found.id, lambda contents: decode_records(rules, contents))


def _release(found: Campaign) -> Release:
    return release_for(rules_of(found))

