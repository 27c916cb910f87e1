"""Rules to publish before anybody reports, and the same prices planned again for an auditor.

A digest with its time, published where others keep it, is what a buyer can be held to: prices that were fixed
before the reports make truth everybody's best report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dpmarket.campaign.market_file import Market, check_market, read_market, to_distribution
from dpmarket.campaign.frozen_rules import changed_keys, rules_of
from dpmarket.campaign.terms import (
    CROSS_PRICED,
    OFFLINE,
    POSTED,
    cross_priced_rules,
    objective_for,
    online_schedule,
    terms_of,
)
from dpmarket.certificates import PublishedRules, Verification, publishable_rules, read_rules
from dpmarket.certificates.checking import examined_files
from dpmarket.certificates.verifier.rules import PRICES
from dpmarket.certificates.verifier.verdicts import FAILS, HOLDS, NOT_MADE, Check
from dpmarket.errors import DpmarketError, NotCertifiable


def commit_market(market_path: str | os.PathLike[str]) -> PublishedRules:
    """Return a market's rules as a file to publish, with the present time.

    Parameters
    ----------
    market_path
        The market file.

    Returns
    -------
    PublishedRules
        Its ``data`` are the file; ``digest`` and ``committed_at`` are what to publish at the least.

    Raises
    ------
    FileProblem
        If the market file cannot be used.
    """
    market = read_market(market_path)
    distribution = to_distribution(market.costs.distribution).to_dict()
    return publishable_rules(distribution, rules_of(market), _mechanisms(market), datetime.now(UTC))


def refuse_other_rules(published: PublishedRules, stored: Mapping[str, Any] | None) -> None:
    """Refuse to certify quotes that were not made by the published rules.

    Raises
    ------
    NotCertifiable
        If the rules that were fixed with the first quote are not known, or others.
    """
    if stored is None:
        raise NotCertifiable("expected quotes whose rules the ledger knows.")
    changed = changed_keys(published.market, stored)
    if changed:
        raise NotCertifiable(f"expected the rules that were published, but {changed[0][0]} is another.")


def check_published(
    certificate: str | os.PathLike[str], commitment: str | os.PathLike[str] | None = None, **options: Any
) -> Verification:
    """Check a certificate as ``check_certificate`` does, and plan its prices again.

    The exact mechanism's payment weight for a budget is planned for as many sellers as report. The verifier
    knows no planning; here the published rules are planned anew for the number of sellers.

    Parameters
    ----------
    certificate
        The certificate.
    commitment
        The rules as they were published before anybody reported; None: nothing is planned.
    **options
        What else :func:`~dpmarket.certificates.check_certificate` takes.

    Returns
    -------
    Verification

    Raises
    ------
    InvalidInput, FileProblem
        As :func:`~dpmarket.certificates.check_certificate` raises them.
    """
    result, body = examined_files(certificate, commitment=commitment, **options)
    waiting = any(check.name == PRICES and check.verdict == NOT_MADE for check in result.checks)
    if commitment is None or body is None or not waiting:
        return result
    again = _planned_again(read_rules(commitment), body.totals.sellers, body.market["objective"])
    return Verification(tuple(again if check.name == PRICES else check for check in result.checks))


def _planned_again(published: PublishedRules, sellers: int, certified: Mapping[str, Any]) -> Check:
    """Plan the published rules for so many sellers, and compare the objective with the certified one."""
    planned = f"planned again from the published rules for {sellers:,} sellers, they are"
    try:
        market = check_market(_as_in_a_file(published))
        objective = objective_for(market, sellers)
    except DpmarketError:
        return Check(PRICES, FAILS, f"{planned} others")
    same = objective.to_dict() == dict(certified)
    return Check(PRICES, HOLDS if same else FAILS, f"{planned} {'the same' if same else 'others'}")


def _as_in_a_file(published: PublishedRules) -> dict[str, Any]:
    """Return published rules as a market file says them: what was left out there is null here."""
    given = {
        table: {key: value for key, value in content.items() if value is not None}
        for table, content in published.market.items()
        if isinstance(content, Mapping)
    }
    return {**given, "costs": {**given.get("costs", {}), "distribution": published.distribution}}


def _mechanisms(market: Market) -> dict[str, Any]:
    """Return all that decides, by mechanism, as far as the rules alone fix it; a salt is drawn later."""
    terms, wanted = terms_of(market), market.objective
    found = {}
    if market.sellers.expected is not None:
        rules = online_schedule(market)[1]
        found[rules["mechanism"]] = rules
    if wanted.budget is None:
        found[OFFLINE] = terms.rules(OFFLINE, terms.objective)
    elif wanted.mechanism != POSTED:
        found[CROSS_PRICED] = cross_priced_rules(market)
    return found
