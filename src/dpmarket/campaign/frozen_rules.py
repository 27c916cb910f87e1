"""Turn a market file into the rules that are fixed with the first quote, and tell which of them changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.errors import LedgerRefusal

_FREE = {"training", "ledger"}
_FREE_KEYS = {"sellers.id_column", "sellers.cost_column", "sellers.excluded"}


def rules_of(market: Market) -> dict[str, Any]:
    """Return what sellers sold by, as plain data: all of the market file but how files are read and trained.

    How a model is trained is decided when it is trained, and the names of columns are no rules.
    """
    data = market.model_dump(mode="json")
    if market.sellers.rows_per_person == 1:
        del data["sellers"]["rows_per_person"]  # as in ledgers from before there was such a key
    for table, name in (("objective", "delta"), ("sellers", "lifetime_delta")):
        if data[table][name] is None:
            del data[table][name]  # likewise
    for table in ("features", "label", "statistic", "statistics"):
        if not data[table]:
            del data[table]
    return {
        table: {key: value for key, value in content.items() if f"{table}.{key}" not in _FREE_KEYS}
        for table, content in data.items()
        if table not in _FREE
    }


def refuse_changed(stored: Mapping[str, Any] | None, market: Market) -> None:
    """Refuse a market file whose rules are not those that were fixed with the first quote.

    Raises
    ------
    LedgerRefusal
        Names the first key that changed; or there are no rules yet, in a draft of the live service.
    """
    if stored is None:
        raise LedgerRefusal(
            "this campaign is a draft of the live service, whose rules may change: name another campaign."
        )
    changed = changed_keys(stored, rules_of(market))
    if changed:
        path, before, now = changed[0]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise LedgerRefusal(
            f"the market file has changed since sellers were quoted: {path} was {before!r} and is now "
            f"{now!r}{more}. Put it back; for other rules, begin another campaign."
        )


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the keys whose values differ: path, value before, value now."""
    changed = []
    for table in dict.fromkeys((*before, *now)):
        old, new = before.get(table, {}), now.get(table, {})
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key) and not _same(f"{table}.{key}", old.get(key), new.get(key)):
                changed += _differences(f"{table}.{key}", old.get(key), new.get(key))
    return changed


def _differences(path: str, old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    """Go into tables, such as a feature's bounds, to the keys themselves."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and path.startswith("features."):
        keys = dict.fromkeys((*old, *new))
        return [(f"{path}.{key}", old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]
    if path == "costs.distribution":
        old, new = (value if isinstance(value, str) else "a table" for value in (old, new))
    return [(path, old, new)]


def _same(path: str, old: Any, new: Any) -> bool:
    """Whether two spellings are the same cost distribution."""
    if path != "costs.distribution" or old is None or new is None:
        return False
    return bool(to_distribution(old).to_dict() == to_distribution(new).to_dict())
