"""Turn reports, rules and a mechanism into a round's identity, by the ledger's own key."""

from __future__ import annotations

from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.campaign.reports import Reports
from dpmarket.campaign.frozen_rules import rules_of
from dpmarket.campaign.terms import OFFLINE, ONLINE, is_one_by_one
from dpmarket.ledger.digests import reports_digest
from dpmarket.ledger.keyed import canonical, keyed
from dpmarket.ledger.rounds import SELLER, Round


def round_digest(key: bytes, campaign: str, market: Market, mechanism: str, reports: Reports) -> str:
    """Return what rounds of these reports under these rules have in common, in whatever order they come.

    Parameters
    ----------
    key
        The ledger's key: a digest without one would confirm guessed costs.
    campaign
        Its name.
    market
        Its rules.
    mechanism
        ``offline`` or ``online``.
    reports
        Who reported what.
    """
    reported = reports_digest(key, reports.sellers, SELLER, reports.costs)
    rules = rules_of(market)
    # The distribution itself: another spelling of it is no other rule.
    rules["costs"] = rules["costs"] | {"distribution": to_distribution(market.costs.distribution).to_dict()}
    return keyed(key, campaign, canonical(rules), mechanism, reported)


def round_identity(key: bytes, digest: str, repetition: int) -> str:
    """Return what the quotes file of a round is known by."""
    return keyed(key, digest, str(repetition))[:32]


def was_reported(key: bytes, campaign: str, market: Market, entered: Round, reports: Reports) -> bool:
    """Tell whether these are the reports that a round was decided from."""
    way = ONLINE if is_one_by_one(entered.mechanism) else OFFLINE
    return round_digest(key, campaign, market, way, reports) == entered.digest
