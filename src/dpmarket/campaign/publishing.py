"""Rules to announce before anybody reports: the tables that a certificate will have to state.

Sellers agree to a digest of their text. Published where others store it with its time, it is what a buyer can
be held to: prices that were fixed before the reports make truth everybody's best report.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpmarket.campaign.features import loss_of_market, norm_of_market
from dpmarket.campaign.market_file import Market, questions_of, read_market
from dpmarket.campaign.rules import changed_keys, rules_of
from dpmarket.campaign.terms import POSTED, online_schedule, terms_of
from dpmarket.certificates import announce_rules, describe_market, rules_digest
from dpmarket.errors import FileProblem, NotCertifiable
from dpmarket.files import parse_json, read_bytes

_LARGEST = 8 << 20


@dataclass(frozen=True)
class AnnouncedRules:
    """The text of announced rules, and when it was made."""

    text: str
    committed_at: str

    @property
    def digest(self) -> str:
        """What sellers agree to: the SHA-256 of the text."""
        return rules_digest(self.text)


def commit_market(market_path: str | os.PathLike[str], *, online: bool = False) -> AnnouncedRules:
    """Return a market's rules as a file to publish, with the present time.

    Parameters
    ----------
    market_path
        The market file.
    online
        Whether sellers will be quoted one by one: then the prices themselves are announced.

    Raises
    ------
    FileProblem
        If the market file cannot be used.
    """
    return announced_rules(read_market(market_path), datetime.now(UTC), online=online)


def announced_rules(
    market: Market, at: datetime, *, online: bool, nonce: str | None = None
) -> AnnouncedRules:
    """Return the rules of a market: everything that a certificate will state, as far as it is fixed now.

    Parameters
    ----------
    market
        The rules file.
    at
        Now, with the distance from UTC.
    online
        Whether sellers are quoted one by one, by a schedule that is announced here.
    nonce
        SHA-256 of the nonce of the reports' digest, in hexadecimal digits, where parts may be cross-priced.
    """
    terms, time = terms_of(market), at.isoformat(timespec="seconds")
    if online or market.objective.mechanism == POSTED:
        decided = describe_market(online_schedule(market)[1])
        tables = {key: value for key, value in decided.items() if key != "split"}
    else:
        objective = {key: value for key, value in terms.objective.to_dict().items() if key not in _PLANNED}
        described = describe_market(terms.rules("offline", terms.objective))
        tables = {key: described[key] for key in ("groups", "epsilon_cost", "delta")}
        tables |= {"objective": objective} | ({} if nonce is None else {"split": {"nonce": nonce}})
    return AnnouncedRules(
        announce_rules(
            tables,
            _release(market),
            market.money.model_dump(mode="json"),
            committed_at=time,
            rules=rules_of(market),
        ),
        time,
    )


_PLANNED = ("payment_weight", "gamma")  # for as many reports as there will be


def _release(market: Market) -> dict[str, Any]:
    """Return what is fixed of a release before records are read."""
    asked, rows = questions_of(market), market.sellers.rows_per_person
    if asked:
        stated = {name: {"question": one.statistic(rows).to_dict()} for name, one in asked.items()}
        return {"family": "statistics", "rows_per_person": rows, "statistics": stated}
    assert market.label is not None
    model, loss = {"classes": list(market.label.values)}, loss_of_market(market).to_dict()
    if market.objective.delta is not None:
        return {"family": "descent", "loss": loss, "model": model, "terms": {"delta": market.objective.delta}}
    norm = norm_of_market(market).to_dict()
    terms = {"loss": loss, "norm": norm, "private": "records", "rows_per_person": rows}
    return {"family": "norm", "model": model, "terms": terms}


def read_rules(source: str | os.PathLike[str]) -> AnnouncedRules:
    """Read a file of rules that ``dpmarket commit`` wrote.

    Raises
    ------
    FileProblem
        If there is no such file, or it holds no rules.
    """
    data = read_bytes(source, _LARGEST)
    try:
        text = data.decode().removesuffix("\n")
        return AnnouncedRules(text, str(parse_json(data)["committed_at"]))
    except (KeyError, TypeError, ValueError):
        raise FileProblem(f"expected rules in {source}, as 'dpmarket commit' writes them.") from None


def refuse_other_rules(announced: AnnouncedRules, stored: Mapping[str, Any] | None) -> None:
    """Refuse to certify quotes that were not made by the announced rules.

    Raises
    ------
    NotCertifiable
        If the rules that were fixed with the first quote are not known, or others.
    """
    if stored is None:
        raise NotCertifiable("expected quotes whose rules the ledger knows.")
    changed = changed_keys(parse_json(announced.text.encode()).get("rules", {}), stored)
    if changed:
        raise NotCertifiable(f"expected the rules that were published, but {changed[0][0]} is another.")
