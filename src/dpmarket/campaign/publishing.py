"""Turn a market file into rules to publish before anybody reports, and plan its prices again for who checks.

A digest with its time, published where others keep it, is what a buyer can be held to: prices that were fixed
before the reports make truth everybody's best report.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from dpmarket.campaign.amounts import money_text
from dpmarket.campaign.deciding import online_curve, planned_objective, round_budgets, without_cap
from dpmarket.campaign.market_file import Market, check_market, read_market, to_distribution
from dpmarket.campaign.rules import changed_keys, rules_of
from dpmarket.campaign.with_delta import plan_all_at_once
from dpmarket.certificates import PublishedRules, Verification, publishable_rules, read_rules
from dpmarket.certificates.checking import examined_files
from dpmarket.certificates.verifier.rules import PRICES
from dpmarket.certificates.verifier.verdicts import FAILS, HOLDS, NOT_MADE, Check
from dpmarket.errors import DpmarketError, NotCertifiable

_NEAR = 2  # minor units


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
    """Check a certificate as ``check_certificate`` of the certificates' room does, and plan its prices again.

    What all sellers at once are offered is planned for as many as come. The verifier knows no planning; here
    the published rules are planned anew for the number of sellers, by the program itself.

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
    """Plan the published rules for so many sellers, and compare the prices with the certified ones."""
    planned = f"planned again from the published rules for {sellers:,} sellers, they are"
    try:
        market = check_market(_as_in_a_file(published))
        budgets = round_budgets(market)
        if any(certified in _objectives(market, sellers, money) for money in budgets):
            return Check(PRICES, HOLDS, f"{planned} the same")
        # Where shares are declared, a round gets its own or what earlier ones have left.
        less = None if market.objective.shares is None else _smaller(market, sellers, max(budgets), certified)
    except DpmarketError:
        less = None
    if less is None:
        return Check(PRICES, FAILS, f"{planned} others")
    left = money_text(less, market.money.minor_units, market.money.currency)
    told = f"{planned} those of {left}, less than the share declared: that no more was left is not checked"
    return Check(PRICES, NOT_MADE, told)


def _objectives(market: Market, sellers: int, money: Fraction) -> list[dict[str, Any]]:
    """Return the objectives that the rules allow for so many sellers and so much money."""
    expected, limit = market.sellers.expected, market.objective.max_epsilon
    if market.objective.delta is not None:
        planned = plan_all_at_once(market, min(sellers, expected or sellers), float(money))
        return [planned.objective.to_dict()]
    people = sellers if expected is None else min(sellers, expected)
    found = [planned_objective(market, people, money, sellers)[0]]
    if market.objective.weight_cap is None:  # where too few are within the distribution to keep one
        found += [without_cap(objective, sellers, limit) for objective in found]
    return [objective.to_dict() for objective in found]


def _smaller(market: Market, sellers: int, most: Fraction, certified: Mapping[str, Any]) -> int | None:
    """Return the money below a share, in minor units, for which the certified prices are planned, or None.

    Who has less money to pay weighs payments more: the weight tells how much it was.
    """
    scale = market.money.minor_units
    low, high = 1, int(most * scale)

    @functools.cache
    def planned(units: int) -> list[dict[str, Any]]:
        try:
            return _objectives(market, sellers, Fraction(units, scale))
        except DpmarketError:  # too little to pay anybody
            return [{"payment_weight": math.inf}]

    while low < high:
        middle = (low + high) // 2
        if planned(middle)[0]["payment_weight"] > certified["payment_weight"]:
            low = middle + 1
        else:
            high = middle
    # A weight is found by iteration: its last digits may put a neighbour in its place.
    near = range(max(1, low - _NEAR), low + _NEAR + 1)
    return next((units for units in near if certified in planned(units)), None)


def _as_in_a_file(published: PublishedRules) -> dict[str, Any]:
    """Return published rules as a market file says them: what was left out there is null here."""
    given = {
        table: {key: value for key, value in content.items() if value is not None}
        for table, content in published.market.items()
        if isinstance(content, Mapping)
    }
    return {**given, "costs": {"distribution": published.distribution}}


def _mechanisms(market: Market) -> dict[str, Any]:
    """Return the parameters that the market file alone fixes: a curve, with a number of sellers to expect."""
    from dpmarket.mechanisms import Curve, OnlineMechanism  # takes a compiler along

    if market.sellers.expected is None:
        return {}
    curve, _ = online_curve(market)
    if not isinstance(curve, Curve):
        return {curve.name: curve.run([curve.dist.support[0]]).parameters}
    cheapest = OnlineMechanism(curve.dist, curve).run([curve.dist.support[0]])
    return {"online": dict(cheapest.parameters)}
