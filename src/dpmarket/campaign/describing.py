"""Turn a file of a campaign into a few lines that say what it holds, without any individual."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmarket.campaign.amounts import money_text
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.campaign.statistic_file import StatisticFile
    from dpmarket.ledger import CampaignEntry, Connection, Ledger

# Each kind of file is read by modules of its own, loaded when there is one to describe.


@dataclass(frozen=True)
class Description:
    """A title, rows for people, and the same as plain data for machines.

    Attributes
    ----------
    title
        What is described.
    rows
        Pairs of a name and a value.
    data
        The same and more, ready for JSON; ``kind`` says what it is about.
    note
        What must be said beside it, or nothing.
    """

    title: str
    rows: list[tuple[str, str]]
    data: dict[str, Any]
    note: str = ""


def describe(path: str | os.PathLike[str]) -> Description:
    """Describe quotes (.csv, .parquet), a model or statistics (.json), a market file (.toml) or a .ledger.

    Only totals and means are in a description: no single seller's id, promise, payment or cost.

    Raises
    ------
    FileProblem
        Another ending, or a file that does not hold what its ending says; a ledger that does not add up.
    """
    kinds = {
        ".csv": _quotes,
        ".parquet": _quotes,
        ".json": _model,
        ".toml": _market,
        ".ledger": _ledger,
    }
    ending = Path(path).suffix.lower()
    if ending not in kinds:
        raise FileProblem(f"expected a file ending in {', '.join(kinds)}, got {Path(path).name!r}.")
    return kinds[ending](path)


def _quotes(path: str | os.PathLike[str]) -> Description:
    from dpmarket.campaign.quotes import read_quotes

    quotes = read_quotes(path)
    epsilons, amounts = quotes.epsilons, quotes.amounts
    bought = epsilons > 0.0
    data: dict[str, Any] = {
        "kind": "quotes",
        "sellers": epsilons.size,
        "bought_from": int(bought.sum()),
        "total_promise": float(epsilons.sum()),
        "total_payment_minor_units": int(amounts.sum()),
        "minor_units": quotes.scale,
        "currency": quotes.currency,
        "round": quotes.round,
    }
    total = money_text(int(amounts.sum()), quotes.scale, quotes.currency)
    rows = [
        ("sellers", f"{epsilons.size:,}"),
        ("bought from", f"{int(bought.sum()):,}"),
        ("total promise", f"{epsilons.sum():.6g}"),
        ("payments, before withdrawals", total),
    ]
    if bought.any():
        # Not the highest epsilon: it tells what the cheapest seller reported.
        data["mean_epsilon"] = float(epsilons[bought].mean())
        rows.append(("mean epsilon of those", f"{data['mean_epsilon']:.4g}"))
    return Description(f"Quotes in {path}", rows, data)


def _model(path: str | os.PathLike[str]) -> Description:
    from dpmarket.campaign.model_file import read_model
    from dpmarket.campaign.statistic_file import is_statistic_data
    from dpmarket.files import read_json

    if is_statistic_data(read_json(path)):
        return _statistics(path)
    model = read_model(path)
    second_first = list(map(repr, model.labels if model.has_many_labels else reversed(model.labels)))
    rows = [
        ("predicts", f"{model.label_column}: {', '.join(second_first[:-1])} or {second_first[-1]}"),
        ("records", f"{model.records:,}"),
        *((name, f"{value:.6g}") for name, value in model.noise().items()),
    ]
    if model.delta:
        rows.insert(2, ("delta beside each epsilon", f"{model.delta:g}"))
    for label, values in model.by_label():
        of = f" for {label!r}" if model.has_many_labels else ""
        names = [f"coefficient of {feature.name}{of}" for feature in model.features]
        numbers = [f"{value:.6g}" for value in values.tolist()]
        rows += zip([*names, f"constant{of}"], numbers, strict=True)
    return Description(f"Model in {path}", rows, {"kind": "model", **model.to_dict()})


def _statistics(path: str | os.PathLike[str]) -> Description:
    from dpmarket.campaign.statistic_file import read_statistics

    found = read_statistics(path)
    data = {"kind": "statistics", **found.to_dict()}
    caution = next(iter(found.releases().values())).caution
    return Description(f"Statistics in {path}", statistic_rows(found), data, caution)


def statistic_rows(found: StatisticFile) -> list[tuple[str, str]]:
    """Return released statistics as rows for people: values with their intervals, and what they rest on."""
    rows = []
    for name, release in found.releases().items():
        several = f"{name}, " if len(found.statistics) > 1 else ""
        rows += [(f"{several}{words}", told) for words, told in release.summary()]
    return [*rows, ("records", f"{found.records:,}")]


def _market(path: str | os.PathLike[str]) -> Description:
    from dpmarket.campaign.market_file import questions_of, read_market
    from dpmarket.ledger.engine import without_password

    market = read_market(path)
    data = market.model_dump(exclude_none=True)
    if "url" in data.get("ledger", {}):
        from dpmarket.ledger.engine import without_password

        data["ledger"]["url"] = without_password(data["ledger"]["url"])
    rows = [
        (f"{table}.{key}", str(value))
        for table, content in data.items()
        for key, value in content.items()
        if not (table == "costs" and isinstance(value, dict))
        and not (questions_of(market) and table == "training" and key != "outside_bounds")  # of models
    ]
    return Description(f"Market in {path}", rows, {"kind": "market", **data})


def _ledger(path: str | os.PathLike[str]) -> Description:
    from dpmarket.ledger import accounts, check_ledger, existing_ledger, reading, rounds
    from dpmarket.ledger.engine import command_for

    with existing_ledger(path) as ledger, reading(ledger) as connection:
        check_ledger(connection)
        agrees = _agrees(connection, ledger)
        found = [_campaign(connection, campaign) for campaign in rounds.campaigns_of(connection)]
        entered = rounds.rounds_of(connection)
        everybody = accounts(connection) if entered else None
    totals: dict[str, Any] = {"sellers": 0, "promised": 0.0, "spent": 0.0}
    if everybody is not None:
        totals = {
            "sellers": everybody.height,
            "promised": float(everybody.get_column("promised").sum()),
            "spent": float(everybody.get_column("spent").sum()),
        }
    rows = [
        ("sellers", f"{totals['sellers']:,}"),
        ("epsilon promised, in all", f"{totals['promised']:.6g}"),
        ("epsilon spent, in all", f"{totals['spent']:.6g}"),
        *(row for campaign_rows, _ in found for row in campaign_rows),
        ("adds up", "yes"),
        ("agrees with the log outside", "yes" if agrees else f"no: see {command_for('check', path)}"),
    ]
    data = {
        "kind": "ledger",
        "ledger": ledger.id,
        **totals,
        "agrees_with_log": agrees,
        "campaigns": [data for _, data in found],
    }
    return Description(f"Ledger in {path}", rows, data)


def _agrees(connection: Connection, ledger: Ledger) -> bool:
    """Whether a ledger knows all that was logged outside of it; an older copy may be shown, too."""
    from dpmarket.ledger.restoring import log_problems

    try:
        return not log_problems(connection, ledger)
    except FileProblem:  # the log itself cannot be read
        return False


def _campaign(
    connection: Connection, campaign: CampaignEntry
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return a campaign's rows and data: its money, and its rounds with who withdrew."""
    from dpmarket.ledger import balance_of, rounds

    balance = balance_of(connection, campaign.id)
    named = f" of {campaign.name!r}" if campaign.name else ""
    rows = [
        (f"{words}{named}", money_text(amount, campaign.minor_units, campaign.currency))
        for words, amount in (
            ("funded", balance.funded),
            ("held for open promises", balance.held),
            ("owed to sellers", balance.owed),
            ("in payouts, not confirmed", balance.on_its_way),
            ("paid out", balance.paid_out),
        )
    ]
    listed = []
    for found in rounds.rounds_of(connection, campaign.id):
        withdrawn = rounds.count_withdrawn(connection, found.number)
        left = f", {withdrawn:,} withdrew" if withdrawn else ""
        words = f"{found.sellers:,} sellers{left}, {found.mechanism}, {found.state}"
        words += f", delta {found.delta:g}" if found.delta else ""
        rows.append((f"round {found.number}, {found.quoted_at}", words))
        listed.append({**vars(found), "withdrawn": withdrawn})
    data = {
        "name": campaign.name,
        "minor_units": campaign.minor_units,
        "currency": campaign.currency,
        "balance_minor_units": vars(balance),
        "rounds": listed,
    }
    return rows, data
