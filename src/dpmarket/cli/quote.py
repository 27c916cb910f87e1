"""``dpmarket quote``: a file of reported costs in, a file of promises and payments out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, MarketOption, QuietFlag


def quote(
    reports: Annotated[
        Path, typer.Argument(help="CSV or Parquet file with seller ids and reported costs; - for stdin.")
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
            help="Quote seller by seller, in the file's order, by a curve fixed before any report is read.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="If these very quotes were already trained on: promise and pay them once more, on top.",
        ),
    ] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Quote every seller an epsilon and a payment, so that telling the truth was best for them.

    The promises are entered in the privacy ledger before the quotes are written. Reported costs are
    confidential: they are neither printed nor written. Quotes tell much about them: keep them confidential.
    """
    from dpmarket.campaign import decide_offline, decide_online, quote_file
    from dpmarket.cli.render import Voice

    voice = Voice(as_json, quiet, str(output))
    with voice.progress() as progress:
        decide = decide_online if online else decide_offline
        quoting = quote_file(market, reports, output, decide, again, force, progress)
    entered, outcome = quoting.round, quoting.outcome
    data = {
        **outcome.header(),
        "total_promise": outcome.total_promise,
        "sellers": entered.sellers,
        "total_payment_minor_units": entered.payments,
        "round": entered.number,
        "is_new": quoting.is_new,
        "state": entered.state,
    }
    rows = [
        *outcome.summary(),
        (f"to pay, in 1/{entered.minor_units}", f"{entered.payments:,}"),
        ("round in the ledger", f"{entered.number} ({'new' if quoting.is_new else entered.state})"),
    ]
    note = (
        "The total promise is what these quotes buy. The noise rate is planned for rows no longer than 1: "
        "training divides by its bound on rows, and leaves out who withdraws."
    )
    if str(output) != "-":
        note += f"\nThe quotes are in {output}."
    voice.tell("Quotes: every seller's best report was the truth", rows, data, note)
