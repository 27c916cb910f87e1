"""Rules to announce before anybody reports: the tables that a certificate will have to state.

Sellers agree to a digest of their text. Published where others store it with its time, it is what a buyer can
be held to: prices that were fixed before the reports make a truthful report everybody's best one.
"""

from typing import Any

from dpmarket.campaign.rules.columns import norm_of, stated_loss
from dpmarket.campaign.rules.decision import is_cross_priced
from dpmarket.campaign.rules.pricing import CROSS_PRICED, OFFLINE, online_schedules, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.certificates.description import announce_rules, describe_market
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS

_PLANNED = ("payment_weight", "gamma")  # for as many reports as there will be
_PRIVATE: Any = {
    "campaign": {"database"},
    "sellers": {"id_column", "cost_column", "group_column", "excluded"},
    "panel": True,  # its addresses hold completion codes
}


def announced_text(rules: Rules, committed_at: str, nonce: str) -> str:
    """Return the text of announced rules; ``nonce`` is the SHA-256 of the one of the sellers' digest."""
    data = rules.model_dump(mode="json", exclude_none=True, exclude=_PRIVATE)
    money = {"currency": rules.money.currency, "minor_units": rules.money.minor_units}
    return announce_rules(
        _tables(rules, nonce), _release(rules), money, committed_at=committed_at, rules=data
    )


def _tables(rules: Rules, nonce: str) -> dict[str, Any]:
    """Return what is fixed of a market before anybody reports."""
    if rules.campaign.mechanism != OFFLINE:
        decided = describe_market(online_schedules(rules)[1])
        return {key: value for key, value in decided.items() if key != "split"}
    terms = terms_of(rules)
    described = describe_market(terms.public(OFFLINE, terms.objective))
    tables = {key: described[key] for key in ("groups", "coverage", "epsilon_cost", "delta")}
    objective = {key: value for key, value in terms.objective.to_dict().items() if key not in _PLANNED}
    if rules.objective.budget is None:
        return tables | {"mechanism": OFFLINE, "objective": terms.objective.to_dict()}
    if not is_cross_priced(rules, LEAST_SELLERS):
        return tables | {"mechanism": OFFLINE, "objective": objective}
    by_parts = {"mechanism": CROSS_PRICED, "budget": rules.objective.budget, "split": {"nonce": nonce}}
    exact = {"mechanism": OFFLINE, "budget": None, "split": None}
    chosen = {key: {"by_sellers": [[0, exact[key]], [LEAST_SELLERS, by_parts[key]]]} for key in exact}
    return tables | {"objective": objective} | chosen


def _release(rules: Rules) -> dict[str, Any]:
    """Return what is fixed of a release before records are read."""
    rows = rules.sellers.rows_per_person
    if rules.statistics:
        stated = {name: {"question": one.statistic(rows).to_dict()} for name, one in rules.statistics.items()}
        return {"family": "statistics", "rows_per_person": rows, "statistics": stated}
    model = {"classes": None if rules.label is None else list(rules.label.values)}
    share = rules.training.intervals
    more: dict[str, Any] = {} if share is None else {"intervals": {"share": share}}
    loss = stated_loss(rules)
    if rules.objective.delta is not None:
        noise = {"delta": rules.objective.delta}
        return {"family": "descent", "loss": loss, "model": model, "terms": noise, **more}
    terms = {"loss": loss, "norm": norm_of(rules).to_dict(), "private": "records", "rows_per_person": rows}
    return {"family": "norm", "model": model, "terms": terms, **more}
