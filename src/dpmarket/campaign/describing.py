"""Turn a file of a campaign into a few lines that say what it holds, without any individual."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmarket.campaign.accounts import accounts, check_ledger
from dpmarket.campaign.ledger import EPSILON, PAYMENT, existing_ledger, rounds_of
from dpmarket.campaign.market_file import read_market
from dpmarket.campaign.model_file import read_model
from dpmarket.errors import FileProblem
from dpmarket.files import numbers_of, read_table, refuse


@dataclass(frozen=True)
class Description:
    """A title, rows for people, and the same as plain data for machines.

    Attributes
    ----------
    title : what is described.
    rows : pairs of a name and a value.
    data : the same and more, ready for JSON; ``kind`` says what it is about.
    """

    title: str
    rows: list[tuple[str, str]]
    data: dict[str, Any]


def describe(path: str | os.PathLike[str]) -> Description:
    """Describe a quotes file (.csv, .parquet), a model (.json), a market file (.toml) or a ledger (.ledger).

    Only totals and means are in a description: no single seller's id, promise, payment or cost.

    Raises
    ------
    FileProblem : another ending, or a file that does not hold what its ending says; a ledger that does not
        add up.
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
    table = read_table(path, [EPSILON, PAYMENT], (), [EPSILON, PAYMENT])
    epsilons, problems = numbers_of(table, EPSILON)
    payments, more = numbers_of(table, PAYMENT)
    refuse(table, path, [*problems, *more])
    bought = epsilons > 0.0
    data: dict[str, Any] = {
        "kind": "quotes",
        "sellers": epsilons.size,
        "bought_from": int(bought.sum()),
        "total_promise": float(epsilons.sum()),
        "total_payment_minor_units": int(payments.sum()),
    }
    rows = [
        ("sellers", f"{epsilons.size:,}"),
        ("bought from", f"{int(bought.sum()):,}"),
        ("total promise", f"{epsilons.sum():.6g}"),
        ("to pay, in minor units", f"{int(payments.sum()):,}"),
    ]
    if bought.any():
        # Not the highest epsilon: it tells what the cheapest seller reported.
        data["mean_epsilon"] = float(epsilons[bought].mean())
        rows.append(("mean epsilon of those", f"{data['mean_epsilon']:.4g}"))
    return Description(f"Quotes in {path}", rows, data)


def _model(path: str | os.PathLike[str]) -> Description:
    model = read_model(path)
    rows = [
        (feature.name, f"{value:.6g}")
        for feature, value in zip(model.features, model.coefficients[:-1], strict=True)
    ]
    rows = [
        ("predicts", f"{model.label_column}: {model.labels[1]!r} or {model.labels[0]!r}"),
        ("records", f"{model.records:,}"),
        ("noise rate", f"{model.noise_rate:.6g}"),
        ("l2", f"{model.l2:.4g}"),
        ("noise in a coefficient, at most", f"{model.noise_standard_error:.4g}"),
        *((f"coefficient of {name}", value) for name, value in rows),
        ("constant", f"{model.coefficients[-1]:.6g}"),
    ]
    return Description(f"Model in {path}", rows, {"kind": "model", **model.to_dict()})


def _market(path: str | os.PathLike[str]) -> Description:
    market = read_market(path)
    data = market.model_dump(exclude_none=True)
    rows = [
        (f"{table}.{key}", str(value))
        for table, content in data.items()
        for key, value in content.items()
        if not (table == "costs" and isinstance(value, dict))
    ]
    return Description(f"Market in {path}", rows, {"kind": "market", **data})


def _ledger(path: str | os.PathLike[str]) -> Description:
    with existing_ledger(path) as ledger:
        check_ledger(ledger)
        rounds = rounds_of(ledger)
        sellers = accounts(ledger) if rounds else None
    totals: dict[str, Any] = {"sellers": 0, "promised": 0.0, "spent": 0.0, "paid_minor_units": 0}
    if sellers is not None:
        totals = {
            "sellers": sellers.height,
            "promised": float(sellers.get_column("promised").sum()),
            "spent": float(sellers.get_column("spent").sum()),
            "paid_minor_units": int(sellers.get_column("paid").sum()),
        }
    rows = [
        ("sellers", f"{totals['sellers']:,}"),
        ("epsilon promised, in all", f"{totals['promised']:.6g}"),
        ("epsilon spent, in all", f"{totals['spent']:.6g}"),
        ("paid, in minor units", f"{totals['paid_minor_units']:,}"),
        *(
            (
                f"round {entered.number}, {entered.quoted_at}",
                f"{entered.sellers:,} sellers, {entered.mechanism}, {entered.state}",
            )
            for entered in rounds
        ),
        ("adds up", "yes"),
    ]
    data = {"kind": "ledger", **totals, "rounds": [vars(entered) for entered in rounds]}
    return Description(f"Ledger in {path}", rows, data)
