"""Put the command groups together, and turn refusals into one line and exit code 1."""

from __future__ import annotations

import copy
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer.models import CommandInfo

from dpmarket.cli import (
    audit,
    campaign,
    certificates,
    costs,
    demo,
    market,
    members,
    menu,
    plan,
    report,
    serve,
)
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.version import __version__

app = typer.Typer(
    name="dpmarket",
    help="Buy differentially private data truthfully, and train a model within everybody's epsilon.",
    epilog='Example: dpmarket costs show "uniform(1, 5)"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(epilog="Example: dpmarket init --set objective.budget=500 --set sellers.expected=1000")(
    campaign.init
)
app.command(epilog="Example: dpmarket quote reports.csv -o quotes.csv")(campaign.quote)
app.command(epilog='Example: dpmarket withdraw "Zoë K."')(campaign.withdraw)
app.command(epilog="Example: dpmarket train data.csv -o model.json")(campaign.train)
app.command(epilog="Example: dpmarket repartition 'records/*.parquet' -o by-person")(campaign.repartition)
app.command(epilog="Example: dpmarket predict model.json data.csv -o predictions.csv")(campaign.predict)
app.command(epilog="Example: dpmarket payouts -o payouts.csv")(market.payouts)
app.command(epilog='Example: dpmarket statement "seller 7"')(market.statement)
app.command(epilog="Example: dpmarket show rules.db")(market.show)
app.command(epilog="Example: dpmarket check reports.csv data.csv")(market.check)
app.command(epilog="Example: dpmarket repair")(market.repair)
app.command(epilog="Example: dpmarket backup copy.db")(market.backup)
app.command(epilog="Example: dpmarket restore copy.db")(market.restore)
app.command(epilog='Example: dpmarket menu --costs "uniform(1, 5)" --payment-weight 0.001 --sellers 1000')(
    menu.menu
)
app.command(epilog="Example: dpmarket commit -o commitment.json")(certificates.commit)
app.command(epilog="Example: dpmarket certify -o certificate.json --openings openings.json")(
    certificates.certify
)
app.command(epilog="Example: dpmarket receipts certificate.json openings.json -o receipts")(
    certificates.receipts
)
app.command(epilog="Example: dpmarket verify certificate.json --receipt receipts/receipt-0000007.json")(
    certificates.verify
)
app.command("signing-key", epilog="Example: dpmarket signing-key key.pem")(certificates.signing_key)
app.command(epilog="Example: dpmarket report --test public.csv -o report.html")(report.report)
app.command(
    epilog='Example: dpmarket plan --costs "uniform(1, 5)" --sellers 1000 --features 10 --budget 500'
)(plan.plan)
app.add_typer(costs.app, name="costs")
app.add_typer(audit.app, name="audit")
app.command(epilog="Example: dpmarket serve hospital")(serve.serve)
app.command(epilog="Example: dpmarket worker hospital")(serve.worker)
app.add_typer(members.app, name="member")
app.command(epilog="Example: dpmarket retry hospital")(serve.retry)
app.command(epilog="Example: dpmarket demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpmarket {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


def overview(group: typer.Typer) -> typer.Typer:
    """Return a group that knows its commands by name and help only, which is all that ``--help`` shows.

    Reading the options of every command takes longer than everything else about the help.
    """
    result = copy.copy(group)
    result.registered_commands = [copy.copy(info) for info in group.registered_commands]
    for info in result.registered_commands:
        info.callback = _without_options(info.callback)
    result.registered_groups = [copy.copy(info) for info in group.registered_groups]
    for below in result.registered_groups:
        below.typer_instance = overview(below.typer_instance) if below.typer_instance else None
    return result


def only(group: typer.Typer, name: str) -> typer.Typer:
    """Return a group with the one command or group of this name, or ``group`` itself where it has none.

    Typer reads the options of every command that it knows, whichever is called.
    """
    result = copy.copy(group)
    commands = group.registered_commands
    result.registered_commands = [info for info in commands if _name_of(info) == name]
    result.registered_groups = [info for info in group.registered_groups if info.name == name]
    return result if result.registered_commands or result.registered_groups else group


def _name_of(command: CommandInfo) -> str | None:
    """Return how a command is called."""
    return command.name or (command.callback.__name__ if command.callback else None)


def _without_options(command: Callable[..., object] | None) -> Callable[[], None]:
    def nothing() -> None: ...

    nothing.__name__ = command.__name__ if command else "nothing"
    nothing.__doc__ = command.__doc__ if command else None
    return nothing


def _tell(problem: DpmarketError) -> None:
    """Say what is wrong in one line, and in one more for each detail."""
    details = problem.details if isinstance(problem, FileProblem) else ()
    message = problem.args[0] if details else str(problem)
    for line in (f"dpmarket: {message}", *details):
        typer.echo(" ".join(str(line).split()), err=True)


def main() -> None:
    """Run the command: exit code 0 done, 1 the data or the market says no, 2 wrong usage."""
    # Ended by another process: leave as on an error, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if sys.argv[1:] in ([], ["--help"]):
            overview(app)()
        else:
            only(app, sys.argv[1])()
    except DpmarketError as problem:
        _tell(problem)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone (head, less): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
