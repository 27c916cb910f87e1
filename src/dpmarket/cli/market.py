"""Commands about a whole market: ``show``, ``statement``, ``payouts``, ``check``, ``repair``, backups."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import OfCampaign, OfMarket, Spoken, WrittenOfCampaign, together

if TYPE_CHECKING:
    from dpmarket.campaign.file_payouts import Bank


@together
def show(
    given: Spoken,
    file: Annotated[
        Path, typer.Argument(help="Quotes, a model, statistics, rules or a market (.db), by its ending.")
    ],
) -> None:
    """Show what a file or a market holds; nothing about single people."""
    from dpmarket.campaign.description import describe

    found = describe(file)
    given.voice().tell(found.title, found.rows, found.data, found.note or None)


@together
def statement(given: OfCampaign, seller: Annotated[str, typer.Argument(help="The seller's id.")]) -> None:
    """Say what the database knows about one person: epsilon, payment and state, by campaign. Confidential."""
    from dpmarket.campaign.file_campaign import statement_of
    from dpmarket.campaign.rules.amounts import money_text
    from dpmarket.cli.render import number, print_table
    from dpmarket.files import to_json

    lines = statement_of(given.rules, seller, database=given.database)
    if given.as_json:
        typer.echo(to_json({"seller": seller, "campaigns": [vars(line) for line in lines]}), nl=False)
        return
    deltas = sum(line.delta for line in lines)
    beside = f"; deltas, of open campaigns included: {deltas:g}" if deltas else ""
    print_table(
        "A statement: confidential",
        ["campaign, quoted at", "epsilon", "spent", "payment", "state"],
        [
            [
                f"{line.campaign}, {line.quoted_at}",
                number(line.epsilon) + (f", delta {line.delta:g}" if line.delta else ""),
                number(line.spent),
                money_text(line.payment, line.minor_units, line.currency),
                line.state.replace("_", " "),
            ]
            for line in lines
        ],
        f"Spent in all: epsilon {number(sum(line.spent for line in lines))}{beside}.",
    )


@together
def payouts(
    given: WrittenOfCampaign,
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
    bank: Annotated[
        Path | None,
        typer.Option(
            "--bank",
            help="Write a bank file (ISO 20022, pain.001), with this table of accounts: id, name, iban.",
        ),
    ] = None,
    payer_name: Annotated[str, typer.Option("--payer-name", help="With --bank: the payer.")] = "",
    payer_iban: Annotated[str, typer.Option("--payer-iban", help="With --bank: the payer's IBAN.")] = "",
    day: Annotated[str, typer.Option("--day", help="With --bank: when to pay, such as 2026-03-02.")] = "",
) -> None:
    """Write whom to pay how much, net of withdrawals, or enter what became of payments.

    Sellers are owed their payment from the moment at which their epsilons are spent. Each payment has a
    reference for the transfer, the same whenever it is written. Bank accounts are stored nowhere.
    """
    from dpmarket.campaign.file_payouts import enter_payout_file, write_payout
    from dpmarket.campaign.rules.amounts import money_text

    if sum(given is not None for given in (output, confirmed, returned)) != 1:
        raise typer.BadParameter("give one of --output, --confirmed and --returned.")
    voice = given.voice(output)
    if output is None:
        kind = "confirmed" if confirmed is not None else "returned"
        source = confirmed or returned or Path("-")
        count = enter_payout_file(given.rules, source, kind, database=given.database)
        voice.tell("Payments entered", [(f"{kind} now", f"{count:,}")], {kind: count})
        return
    how = None if bank is None else _bank(bank, payer_name, payer_iban, day)
    made = write_payout(
        given.rules, output, overwrite=given.force, repeat=repeat, bank=how, database=given.database
    )
    rows = [
        ("payout", f"{made.payout.number}"),
        ("payments", f"{made.payout.people:,}"),
        ("to pay", money_text(made.payout.amount, made.minor_units, made.currency)),
    ]
    data = {**vars(made.payout), "minor_units": made.minor_units, "currency": made.currency}
    note = None if str(output) == "-" else f"Whom to pay is in {output}. Confirm it when it was paid."
    voice.tell("A payout", rows, data, note)


def _bank(accounts: Path, name: str, iban: str, day: str) -> Bank:
    from dpmarket.campaign.bank_file import BankAccount
    from dpmarket.campaign.file_payouts import Bank

    try:
        when = date.fromisoformat(day)
    except ValueError:
        raise typer.BadParameter("expected a day such as 2026-03-02.", param_hint="--day") from None
    return Bank(accounts, BankAccount(name, iban), when)


@together
def check(
    given: OfMarket,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Reports or data: checked against the rules, as quote and train would."),
    ] = None,
) -> None:
    """With files: a dry run of quote and train. Without: keys, books, log, clock and disk of a market.

    Nothing is entered. Exit code 1 if anything is wrong.
    """
    from dpmarket.campaign.checks import findings
    from dpmarket.cli.places import opened_market

    voice = given.voice()
    if files:
        from dpmarket.campaign.file_campaign import check_files

        rows = check_files(given.rules, files, database=given.database)
        voice.tell("These files can be used", rows, {"files": dict(rows)})
        return
    if given.rules.is_dir():
        from dpmarket.web.checkup import check_service

        found = check_service(given.rules)
    else:
        with opened_market(given.rules, given.database) as market:
            found = list(findings(market))
    lines = [f"{one.kind}: {one.found} {one.todo}" for one in found] or ["nothing is wrong"]
    data = {"adds_up": not found, "findings": [vars(one) for one in found]}
    voice.list("The market needs attention" if found else "The market adds up", lines, data)
    if found:
        raise typer.Exit(1)


@together
def repair(
    given: OfMarket,
    log_lost: Annotated[
        bool,
        typer.Option(
            "--log-lost", help="The log is lost: write it anew; what may have been spent counts as spent."
        ),
    ] = False,
    released: Annotated[
        Path | None,
        typer.Option("--released", help="The released document of this campaign, which exists elsewhere."),
    ] = None,
) -> None:
    """After a backup was put back: enter what only the log knows. Spent epsilon stays spent, and is paid."""
    from dpmarket.cli.places import repaired

    done = repaired(given.rules, given.database, log_lost=log_lost, released=released)
    counts = {kind: done.count(kind) for kind in dict.fromkeys(done)}
    rows = [(f"entered: {kind}", f"{number:,}") for kind, number in counts.items()]
    given.voice().tell("Repaired", rows or [("entered", "nothing was missing")], {"entered": counts})


@together
def backup(
    given: OfMarket, target: Annotated[Path, typer.Argument(help="The new file for the copy.")]
) -> None:
    """Copy the database while it is in use. Private keys and the log are not in the copy."""
    from dpmarket.campaign.repair import back_up
    from dpmarket.cli.places import located

    place = located(given.rules, given.database)
    back_up(place.url, target, place.programs)
    note = "Keep the log and the keys elsewhere: a backup is put back with them as they are then."
    given.voice().tell("A backup", [("written to", str(target))], {"backup": str(target)}, note)


@together
def restore(
    given: OfMarket, source: Annotated[Path, typer.Argument(help="The copy that 'dpmarket backup' wrote.")]
) -> None:
    """Put a backup back where there is no database, enter what it lacks from the log, and check it."""
    from dpmarket.campaign.repair import restore as put_back
    from dpmarket.cli.places import located

    place = located(given.rules, given.database)
    done = put_back(source, place.url, place.state, place.keys, place.programs)
    counts = {kind: done.count(kind) for kind in dict.fromkeys(done)}
    rows = [("put back", str(place.url)), *((f"entered: {k}", f"{n:,}") for k, n in counts.items())]
    given.voice().tell("Put back", rows, {"entered": counts})
