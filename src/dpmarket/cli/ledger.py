"""``dpmarket ledger``, ``payouts`` and ``statement``: look after the books, pay sellers, answer them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, LedgerOption, MarketOption, QuietFlag

if TYPE_CHECKING:
    from dpmarket.ledger import StatementLine

app = typer.Typer(help="Check a ledger, or repair one that was restored from a backup.")
LedgerPlace = Annotated[str, typer.Argument(help="The ledger: a .ledger file, or postgresql://...")]


@app.command(epilog="Example: dpmarket ledger check market.ledger")
def check(ledger: LedgerPlace, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Look for damage, edited pages, sums that do not add up, and spending that the ledger does not know."""
    from dpmarket.cli.render import Voice
    from dpmarket.ledger import check_everything, existing_ledger, reading, rounds_of

    with existing_ledger(ledger) as opened, reading(opened) as connection:
        check_everything(connection, opened)
        count = len(rounds_of(connection))
    data = {"ledger": opened.id, "rounds": count, "adds_up": True}
    Voice(as_json, quiet).tell("The ledger adds up", [("rounds", f"{count:,}")], data)


@app.command(epilog="Example: dpmarket ledger repair market.ledger")
def repair(ledger: LedgerPlace, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """After a backup was restored: enter what only the log outside knows, spending as spent and paid.

    A ledger that is lost is made again. If the log is lost, too, open promises are entered as spent.
    """
    from dpmarket.cli.render import Voice
    from dpmarket.ledger import found_again
    from dpmarket.ledger import repair as repaired

    with found_again(ledger) as opened:
        done = repaired(opened)
    rows = [
        ("trainings entered as spent", f"{done.spent:,}"),
        ("rounds that were not known", f"{done.rounds:,}"),
        ("withdrawals that were not known", f"{done.withdrawn:,}"),
        ("trainings entered in the log outside", f"{done.logged:,}"),
    ]
    Voice(as_json, quiet).tell("Repaired", rows, vars(done))


def payouts(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write whom to pay to this .csv or .parquet file; - for stdout."),
    ] = None,
    confirmed: Annotated[
        Path | None,
        typer.Option("--confirmed", help="Enter that payments of this file (column reference) were made."),
    ] = None,
    returned: Annotated[
        Path | None,
        typer.Option("--returned", help="Enter that payments of this file came back: they are owed again."),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option("--repeat", help="Write an earlier payout, by its number, once more.")
    ] = None,
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Write whom to pay how much, net of withdrawals, or enter what became of payments.

    Sellers are owed their payment from the moment at which their promises are spent. Each payment has a
    reference for the transfer, the same whenever it is written.
    """
    from dpmarket.campaign import enter_payout_file, money_text, pay_out
    from dpmarket.cli.render import Voice

    if sum(given is not None for given in (output, confirmed, returned)) != 1:
        raise typer.BadParameter("give one of --output, --confirmed and --returned.")
    voice = Voice(as_json, quiet, str(output))
    if output is None:
        kind = "confirmed" if confirmed is not None else "returned"
        count = enter_payout_file(market, confirmed or returned or Path("-"), kind, ledger=ledger)
        voice.tell("Payments entered", [(f"{kind} now", f"{count:,}")], {kind: count})
        return
    made = pay_out(market, output, overwrite=force, repeat=repeat, ledger=ledger)
    rows = [
        ("payout", f"{made.payout.number}"),
        ("payments", f"{made.payout.lines:,}"),
        ("to pay", money_text(made.payout.amount, made.minor_units, made.currency)),
    ]
    data = {**vars(made.payout), "minor_units": made.minor_units, "currency": made.currency}
    note = None if str(output) == "-" else f"Whom to pay is in {output}. Confirm it when it was paid."
    voice.tell("A payout", rows, data, note)


def bank_file(
    payout: Annotated[Path, typer.Argument(help="A payout file: of 'dpmarket payouts', or of a service.")],
    accounts: Annotated[
        Path,
        typer.Option("--accounts", help="Your own table: columns payee (or id), name, iban."),
    ],
    payer_name: Annotated[str, typer.Option("--payer-name", help="From whose account to pay.")],
    payer_iban: Annotated[str, typer.Option("--payer-iban", help="Its IBAN.")],
    day: Annotated[str, typer.Option("--day", help="When the bank is to pay, such as 2026-03-02.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the XML file here.")],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Turn a payout in euros into a file that banks take: ISO 20022, pain.001, valid by its schema.

    Accounts are joined here, from a table of your own; no ledger and no service ever sees them. References
    are those of the payout.
    """
    from datetime import date

    from dpmarket.campaign import BankAccount, money_text, write_bank_file
    from dpmarket.cli.render import Voice

    try:
        when = date.fromisoformat(day)
    except ValueError:
        raise typer.BadParameter("expected a day such as 2026-03-02.", param_hint="--day") from None
    payer = BankAccount(payer_name, payer_iban)
    count, cents = write_bank_file(payout, accounts, payer, output, day=when, overwrite=force)
    rows = [("payments", f"{count:,}"), ("to pay", money_text(cents, 100, "EUR"))]
    data = {"payments": count, "amount": cents}
    Voice(as_json, quiet, str(output)).tell("A bank file", rows, data, f"Give {output} to your bank.")


def statement(
    seller: Annotated[str, typer.Argument(help="The seller's id.")],
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what the ledger knows about one person: promised, spent and paid, round by round. Confidential."""
    from dpmarket.campaign import money_text, statement_of
    from dpmarket.cli.render import number, print_table
    from dpmarket.files import to_json

    lines = statement_of(market, seller, ledger=ledger)
    if as_json:
        held = [line.held if line.held < float("inf") else None for line in lines]
        rows = [{**vars(line), "held": own} for line, own in zip(lines, held, strict=True)]
        typer.echo(to_json({"seller": seller, "rounds": rows}), nl=False)
        return
    print_table(
        "A statement: confidential",
        ["campaign, round, quoted at", "promised", "spent", "payment", "state"],
        [
            [
                f"{line.campaign or 'this one'}, {line.round}, {line.quoted_at}",
                number(line.promised) + (f", delta {line.delta:g}" if line.delta else ""),
                number(line.spent),
                money_text(line.payment, line.minor_units, line.currency),
                line.state,
            ]
            for line in lines
        ],
        f"Spent in all: epsilon {number(sum(line.spent for line in lines))}{_deltas(lines)}.",
    )


def _deltas(lines: Sequence[StatementLine]) -> str:
    """Say what the deltas of promises add up to, where there are any."""
    from dpmarket.ledger.odometer import total_delta

    total = total_delta(lines)
    return f"; deltas of promises, open ones included, in all: {total:g}" if total else ""
