"""Commands about a whole market: ``show``, ``statement``, ``payouts``, ``check``, ``repair``, backups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpmarket import files
from dpmarket.cli.arguments import OfCampaign, OfMarket, OptionalOutput, Spoken, WrittenOfCampaign, command
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.campaign.file_payouts import Bank


@dataclass(frozen=True)
class Located:
    """A market's database, its folders of logs, keys and PostgreSQL's programs, a file campaign's name."""

    url: str | Path
    state: Path
    keys: Path | None = None
    campaign: str | None = None
    programs: Path | None = None


def located(path: Path, database: str | None = None) -> Located:
    """Return where a market is."""
    from dpmarket.campaign.place import place_of, state_folder

    if path.is_dir():
        from dpmarket.web.folder import name_master_key, settings_of

        settings = settings_of(path)
        name_master_key(settings)
        programs = settings.postgres_programs
        return Located(settings.database, settings.state_folder, settings.keys, programs=programs)
    if path.suffix.lower() == ".db":
        return Located(path, state_folder())
    place = place_of(path, database)
    return Located(place.url, place.state, None, place.rules.campaign.name)


@command
def show(given: Spoken, file: Path) -> None:
    """Show what a file or a market holds; nothing about single people.

    :param file: A model, statistics or a market (.db), by its ending.
    """
    from dpmarket.campaign.description import describe

    found = describe(file)
    given.voice().tell(found.title, found.rows, found.data, found.note or None)


@command
def statement(given: OfCampaign, seller: str) -> None:
    """Say what the database knows about one person: epsilon, payment and state, by campaign. Confidential.

    :param seller: The seller's id.
    """
    from dpmarket.campaign.file_campaign import statement_of
    from dpmarket.campaign.rules.meaning import money_text
    from dpmarket.cli.render import number

    lines = statement_of(given.place, seller)
    rows = [
        [
            f"{line['campaign']}, {line['quoted_at']}",
            number(line["epsilon"]) + (f", delta {line['delta']:g}" if line["delta"] else ""),
            number(line["spent"]),
            money_text(line["payment"], line["minor_units"], line["currency"]),
            line["state"].replace("_", " "),
        ]
        for line in lines
    ]
    deltas = sum(line["delta"] for line in lines)
    beside = f"; deltas, of open campaigns included: {deltas:g}" if deltas else ""
    note = f"Spent in all: epsilon {number(sum(line['spent'] for line in lines))}{beside}."
    data = {"seller": seller, "campaigns": lines}
    columns = ["campaign, quoted at", "epsilon", "spent", "payment", "state"]
    given.voice().tell("A statement: confidential", rows, data, note, columns)


@command
def payouts(
    given: WrittenOfCampaign, *, output: OptionalOutput = None, confirmed: Path | None = None,
    returned: Path | None = None, repeat: int | None = None, bank: Path | None = None, payer_name: str = "",
    payer_iban: str = "", day: str = "",
) -> None:  # fmt: skip
    """Write whom to pay how much, net of withdrawals, or enter what became of payments.

    Sellers are owed their payment from the moment at which their epsilons are spent. Each payment has a
    reference for the transfer, the same whenever it is written. Bank accounts are stored nowhere.

    :param output: Write whom to pay to this .csv or .parquet file; - for stdout.
    :param confirmed: Enter that payments of this file (column reference) were made.
    :param returned: Enter that payments of this file came back: they are owed again.
    :param repeat: Write an earlier payout, by its number, once more.
    :param bank: Write a bank file (ISO 20022, pain.001), with this table of accounts: id, name, iban.
    :param payer_name: With --bank: the payer.
    :param payer_iban: With --bank: the payer's IBAN.
    :param day: With --bank: when to pay, such as 2026-03-02.
    """
    from dpmarket.campaign.file_payouts import enter_payout_file, write_payout
    from dpmarket.campaign.rules.meaning import money_text

    if sum(given is not None for given in (output, confirmed, returned)) != 1:
        raise typer.BadParameter("give one of --output, --confirmed and --returned.")
    voice = given.voice(output)
    if output is None:
        kind = "confirmed" if confirmed is not None else "returned"
        source = confirmed or returned or Path("-")
        count = enter_payout_file(given.place, source, kind)
        voice.tell("Payments entered", [(f"{kind} now", f"{count:,}")], {kind: count})
        return
    how = None if bank is None else _bank(bank, payer_name, payer_iban, day)
    made, found = write_payout(given.place, output, overwrite=given.force, repeat=repeat, bank=how)
    rows = [
        ("payout", f"{made.number}"),
        ("payments", f"{made.people:,}"),
        ("to pay", money_text(made.amount, found.minor_units, found.currency)),
    ]
    data = {**vars(made), "minor_units": found.minor_units, "currency": found.currency}
    note = None if str(output) == "-" else f"Whom to pay is in {output}. When it is paid: --confirmed TABLE."
    voice.tell("A payout", rows, data, note)


def _bank(accounts: Path, name: str, iban: str, day: str) -> Bank:
    from dpmarket.campaign.bank_file import BankAccount
    from dpmarket.campaign.file_payouts import Bank

    try:
        when = date.fromisoformat(day)
    except ValueError:
        raise typer.BadParameter("expected a day such as 2026-03-02.", param_hint="--day") from None
    return Bank(accounts, BankAccount(name, iban), when)


@command
def check(given: OfMarket, files: list[Path] | None = None) -> None:
    """With files: a dry run of quote and train. Without: keys, accounts, log, clock and disk of a market.

    Nothing is entered. Exit code 1 if anything is wrong.

    :param files: Reports or data: checked against the rules, as quote and train would.
    """
    from dpmarket.campaign.checks import findings
    from dpmarket.campaign.database import open_market

    voice = given.voice()
    if files:
        from dpmarket.campaign.file_campaign import check_files
        from dpmarket.campaign.place import place_of

        rows = check_files(place_of(given.rules, given.database), files)
        voice.tell("These files can be used", rows, {"files": dict(rows)})
        return
    if given.rules.is_dir():
        from dpmarket.web.folder import check_service

        found = check_service(given.rules)
    else:
        place = located(given.rules, given.database)
        with open_market(place.url, place.state, place.keys) as market:
            found = list(findings(market))
    lines = [f"{one.kind}: {one.found} {one.todo}" for one in found] or ["nothing is wrong"]
    data = {"adds_up": not found, "findings": [vars(one) for one in found]}
    voice.list("The market needs attention" if found else "The market adds up", lines, data)
    if found:
        raise typer.Exit(1)


@command
def repair(given: OfMarket, *, log_lost: bool = False, released: Path | None = None) -> None:
    """After a backup was put back: enter what only the log knows. Spent epsilon stays spent, and is paid.

    :param log_lost: The log is lost: write it anew; what may have been spent counts as spent.
    :param released: The released document of this campaign, which exists elsewhere.
    """
    from dpmarket.campaign.repair import repair as enter_from_log
    from dpmarket.campaign.rules.released import released_from_bytes

    place = located(given.rules, given.database)
    documents: dict[int | str, bytes] = {}
    if released is not None:
        if place.campaign is None:
            raise FileProblem("--released needs the rules file of the campaign that the document is of.")
        documents[place.campaign] = files.read_bytes(released)
        released_from_bytes(documents[place.campaign])
    done = enter_from_log(place.url, place.state, place.keys, log_lost=log_lost, released=documents)
    counts = {kind: done.count(kind) for kind in dict.fromkeys(done)}
    rows = [(f"entered: {kind}", f"{number:,}") for kind, number in counts.items()]
    given.voice().tell("Repaired", rows or [("entered", "nothing was missing")], {"entered": counts})


@command
def backup(given: OfMarket, target: Path) -> None:
    """Copy the database while it is in use. Private keys and the log are not in the copy.

    :param target: The new file for the copy.
    """
    from dpmarket.campaign.repair import back_up

    place = located(given.rules, given.database)
    back_up(place.url, target, place.programs)
    note = "The log and the keys are not in it. Never put an older log back: it knows what was spent."
    given.voice().tell("A backup", [("written to", str(target))], {"backup": str(target)}, note)


@command
def restore(given: OfMarket, source: Path) -> None:
    """Put a backup back where there is no database, enter what it lacks from the log, and check it.

    :param source: The copy that 'dpmarket backup' wrote.
    """
    from dpmarket.campaign.repair import restore as put_back

    place = located(given.rules, given.database)
    done = put_back(source, place.url, place.state, place.keys, place.programs)
    counts = {kind: done.count(kind) for kind in dict.fromkeys(done)}
    rows = [("put back", str(place.url)), *((f"entered: {k}", f"{n:,}") for k, n in counts.items())]
    given.voice().tell("Put back", rows, {"entered": counts})
