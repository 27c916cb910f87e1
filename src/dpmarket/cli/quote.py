"""``dpmarket quote``: a file of reported costs in, a file of promises and payments out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, LedgerOption, MarketOption, QuietFlag

if TYPE_CHECKING:
    from dpmarket.mechanisms.outcome import Outcome

_ENOUGH = 10  # sellers whose median tells little about each


def quote(
    reports: Annotated[
        Path,
        typer.Argument(help="CSV or Parquet file with seller ids and reported costs; - for stdin."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write the quotes to this .csv or .parquet file; - for stdout."),
    ],
    market: MarketOption = Path("market.toml"),
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Quote seller by seller, in the file's order, by a schedule fixed before reports are read.",
        ),
    ] = False,
    not_quoted: Annotated[
        Path | None,
        typer.Option(
            "--not-quoted",
            help="List who was not quoted, and why, in this file; left out: beside the quotes.",
        ),
    ] = None,
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Quote every seller an epsilon and a payment, so that telling the truth was best for them.

    The promises are entered in the ledger before the quotes are written. Reported costs are
    confidential: they are neither printed nor written. Quotes tell much about them: keep them confidential.
    """
    from dpmarket.campaign import decide_offline, decide_online, money_text, quote_file
    from dpmarket.cli.render import Voice

    voice = Voice(as_json, quiet, str(output))
    with voice.progress() as progress:
        decide = decide_online if online else decide_offline
        quoting = quote_file(
            market, reports, output, decide,
            overwrite=force, progress=progress, ledger=ledger, not_quoted=not_quoted,
        )  # fmt: skip
    entered, outcome = quoting.round, quoting.outcome
    data = {
        "mechanism": entered.mechanism,
        "rules": quoting.rules,
        "total_promise": outcome.total_epsilon,
        "sampling_error": outcome.sampling_error,
        "noise_error": outcome.noise_error,
        "sellers": outcome.epsilons.size,
        "total_payment_minor_units": quoting.payments,
        "minor_units": entered.minor_units,
        "currency": quoting.currency,
        "round": entered.number,
        "identity": entered.identity,
        "is_new": quoting.is_new,
        "state": entered.state,
        "delta": entered.delta,
        "not_quoted": quoting.left_out,
        "costs_outside_distribution": {"below": quoting.below, "above": quoting.above},
    }
    rows = [
        ("mechanism", entered.mechanism),
        *_summary(outcome),
        ("to pay, rounded up", money_text(quoting.payments, entered.minor_units, quoting.currency)),
        ("costs below and above the distribution", f"{quoting.below:,} and {quoting.above:,}"),
        *((f"not quoted: {_REASONS[name]}", f"{count:,}") for name, count in quoting.left_out.items()),
        ("round in the ledger", f"{entered.number} ({'new' if quoting.is_new else entered.state})"),
    ]
    if entered.delta:
        rows.append(("delta beside each epsilon", f"{entered.delta:g}"))
    if quoting.weakly_protected:
        voice.remark(
            f"These promises protect little: {quoting.weakly_protected:,} sellers are promised an epsilon "
            f"above {quoting.weak_epsilon:g}, with which an even guess about them can become 95% sure."
        )
    notes = []
    if str(output) != "-":
        notes.append(f"The quotes are in {output}.")
    if quoting.not_quoted is not None:
        notes.append(f"Who was not quoted is listed in {quoting.not_quoted}.")
    voice.tell("Quotes: every seller's best report was the truth", rows, data, "\n".join(notes))


def _summary(outcome: Outcome) -> list[tuple[str, str]]:
    """Return an outcome as rows that show no individual: no extreme, and no median of few."""
    import numpy as np

    bought = outcome.epsilons > 0.0
    count = int(bought.sum())
    rows = [
        ("sellers", f"{bought.size:,}"),
        ("bought from", f"{count:,} ({count / bought.size:.1%})"),
        ("total epsilon", f"{outcome.total_epsilon:,.6g}"),
    ]
    if count >= _ENOUGH:
        rows += [
            ("median epsilon of those", f"{np.median(outcome.epsilons[bought]):.4g}"),
            ("median payment of those", f"{np.median(outcome.payments[bought]):.4g}"),
        ]
    if count:
        rows.append(("expected error, from noise", f"{outcome.noise_error:.4g}"))
        rows.append(("expected error, from sampling", f"{outcome.sampling_error:.4g}"))
    return rows


_REASONS = {
    "full": "the budget is full",
    "lifetime": "too little epsilon or delta left",
    "excluded": "must not sell",
}
