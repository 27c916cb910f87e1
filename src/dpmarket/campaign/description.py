"""What a file or a market holds, in a few lines without any individual."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.database import is_address, open_market
from dpmarket.campaign.money import free_by_pool
from dpmarket.campaign.people import EPSILON_UNITS
from dpmarket.campaign.place import state_folder
from dpmarket.campaign.rules.meaning import money_text
from dpmarket.campaign.rules.released import StatisticsFile, read_released
from dpmarket.campaign.transaction import Campaign
from dpmarket.campaign.views import show_money, show_sums
from dpmarket.errors import FileProblem


@dataclass(frozen=True)
class Description:
    """A title, rows of a name and a value for people, the same and more for machines, and a caution."""

    title: str
    rows: list[tuple[str, str]]
    data: dict[str, Any]
    note: str = ""


def describe(path: str | os.PathLike[str]) -> Description:
    """Describe a model or statistics (.json), or a market (.db, or an address), by totals only."""
    ending = Path(path).suffix.lower()
    if is_address(path) or ending == ".db":
        return _market(path)
    if ending != ".json":
        raise FileProblem(f"expected a file ending in .json or .db, got {Path(path).name!r}.")
    return _released(path)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _released(path: str | os.PathLike[str]) -> Description:
    found = read_released(path)
    if isinstance(found, StatisticsFile):
        caution = next(iter(found.releases().values())).caution
        data = {"kind": "statistics", **found.to_dict()}
        return Description(f"Statistics in {path}", statistic_rows(found), data, caution)
    predicted = ", ".join(map(repr, found.labels)) or "a number"
    rows = [
        ("predicts", f"{found.predicts.column}: {predicted}"),
        ("records", f"{found.records:,}"),
        *((name, _number(float(value))) for name, value in found.noise().items()),
    ]
    if found.delta:
        rows.insert(2, ("delta beside each epsilon", f"{found.delta:g}"))
    outputs = found.labels if len(found.labels) > 2 else [found.labels[1] if found.labels else ""]
    if found.is_network:
        outputs, loss = [], found.description["loss"]
        rows += [("model", loss["model"]), ("SHA-256 of its code", loss["code"])]
        rows.append(("trained weights", f"{len(found.description['coefficients'][0]):,}"))
    labels = [f" for {label!r}" if len(outputs) > 1 else "" for label in outputs]
    for of, values in zip(labels, found.coefficients if outputs else (), strict=True):
        names = [*(f"coefficient of {feature}{of}" for feature in found.features), f"constant{of}"]
        rows += zip(names, [_number(value) for value in values.tolist()], strict=True)
    if "intervals" in found.description:
        ends = found.estimator.coef_interval()
        for of, lows, highs in zip(labels, *map(np.atleast_2d, (ends.low, ends.high)), strict=True):
            pairs = zip(found.features, lows.tolist(), highs.tolist(), strict=True)
            rows += [(f"90% interval of {name}{of}", f"{low:.4g} to {high:.4g}") for name, low, high in pairs]
    return Description(f"Model in {path}", rows, {"kind": "model", **found.to_dict()})


def statistic_rows(found: StatisticsFile) -> list[tuple[str, str]]:
    """Return released statistics as rows for people: values with their intervals, and what they rest on."""
    rows = []
    for name, release in found.releases().items():
        several = f"{name}, " if len(found.statistics) > 1 else ""
        rows += [(f"{several}{words}", value) for words, value in release.summary()]
    return [*rows, ("records", f"{found.records:,}")]


def _market(path: str | os.PathLike[str]) -> Description:
    """Describe a market: its people's epsilon in all, and each campaign with its money and counts."""
    person, of = schema.person.c, schema.campaign.c
    query = sa.select(
        sa.func.count(person.id), sa.func.sum(person.epsilon_held), sa.func.sum(person.epsilon_spent)
    )
    listed = sa.select(schema.campaign).where(of.channel != "account").order_by(of.made_at)
    with open_market(path, state_folder()) as market:
        with market.look() as c:
            people, *epsilons = c.execute(query).one()
            found = [_campaign(c, one) for one in c.execute(listed).all()]
        try:
            market.verify()
            agrees = True
        except FileProblem:
            agrees = False
    held, spent = (int(units or 0) / EPSILON_UNITS for units in epsilons)
    totals = {"people": people, "epsilon_held": held, "epsilon_spent": spent}
    words = ("people", "epsilon held by open campaigns", "epsilon spent")
    rows = [
        *((text, _number(value)) for text, value in zip(words, totals.values(), strict=True)),
        *(row for own, _ in found for row in own),
        ("agrees with its log", "yes" if agrees else "no: see 'dpmarket check'"),
    ]
    data = {"kind": "market", "market": market.id, **totals, "agrees_with_log": agrees}
    return Description(
        f"Market in {market.place}", rows, data | {"campaigns": [content for _, content in found]}
    )


def _campaign(c: sa.Connection, found: Campaign) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return a campaign's rows and data: its state, its money, and how many sellers are in which state."""
    sums, money = show_sums(c, OWNER, found.id), show_money(c, OWNER, found.id)
    held = c.scalar(
        sa.select(sa.func.sum(schema.account.c.held)).where(schema.account.c.campaign == found.id)
    )
    counts = ", ".join(f"{number:,} {state.replace('_', ' ')}" for state, number in sums.counts.items())
    rows = [(f"campaign {found.name!r}", f"{found.mechanism}, {found.channel}, {found.state}")]
    if counts:
        rows.append((f"sellers of {found.name!r}", counts))
    amounts: dict[str, Any] = {"funded": money.funded, "held": int(held or 0), "owed": money.owed}
    amounts |= {"on_its_way": money.sent, "paid_out": money.confirmed}  # an owner sees all of them
    amounts["available"] = sum(free_by_pool(c, found.id).values())
    words = ("funded", "held for sellers", "owed to sellers", "in payouts, not confirmed", "paid out", "left")
    for text, amount in zip(words, amounts.values(), strict=True):
        rows.append((f"{text}, {found.name!r}", money_text(amount, found.minor_units, found.currency)))
    shown = ("name", "channel", "mechanism", "state", "reason", "minor_units", "currency")
    data = {name: getattr(found, name) for name in shown} | {"sellers": sums.counts}
    return rows, data | {"balance_minor_units": amounts}
