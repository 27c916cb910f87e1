"""``dpmarket quote``: a file of reported costs in, a file of promises and payments out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, LedgerOption, MarketOption, QuietFlag

if TYPE_CHECKING:
    from dpmarket.campaign import Market, OnTop


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
            help="Quote seller by seller, in the file's order, by a curve fixed before any report is read.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Promise on top: to who has an open promise, or all of quotes that were trained on before.",
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
    from dpmarket.campaign import decide_offline, decide_online, money_text, quote_file, read_market
    from dpmarket.cli.render import Voice

    voice = Voice(as_json, quiet, str(output))
    promised_again: list[OnTop] = []

    def say_first(on_top: OnTop) -> None:
        money = read_market(market).money
        voice.remark(
            f"On top of earlier promises: epsilon {on_top.epsilon:.6g} in sum and "
            f"{money_text(on_top.payment, money.minor_units, money.currency)} to {on_top.sellers:,} sellers."
        )
        promised_again[:] = [on_top]

    with voice.progress() as progress:
        decide = decide_online if online else decide_offline
        quoting = quote_file(
            market, reports, output, decide, again=again, overwrite=force, progress=progress,
            ledger=ledger, not_quoted=not_quoted, before_again=say_first,
        )  # fmt: skip
    entered, outcome = quoting.round, quoting.outcome
    data = {
        **outcome.header(),
        "total_promise": outcome.total_promise,
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
        "on_top": vars(promised_again[0]) if promised_again else None,
    }
    rows = [
        *outcome.summary(),
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
    notes = [_bought(read_market(market))]
    if str(output) != "-":
        notes.append(f"The quotes are in {output}.")
    if quoting.not_quoted is not None:
        notes.append(f"Who was not quoted is listed in {quoting.not_quoted}.")
    voice.tell("Quotes: every seller's best report was the truth", rows, data, "\n".join(notes))


def _bought(market: Market) -> str:
    """Say what becomes of the promises."""
    from dpmarket.campaign.market_file import questions_of

    if questions_of(market):
        return "The total promise is what these quotes buy: the release uses all of it but who withdraws."
    if market.objective.delta is not None:
        return "The noise rate is planned for rows no longer than 1, with Gaussian noise."
    return (
        "The total promise is what these quotes buy. The noise rate is planned for rows no longer than 1: "
        "training divides by its bound on rows, and leaves out who withdraws."
    )


_REASONS = {
    "full": "the budget is full",
    "lifetime": "too little epsilon or delta left",
    "excluded": "must not sell",
}
