"""Put the command groups together, and turn refusals into one line and exit code 1."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from dpmarket.cli import campaign, costs, demo, quote, reproduce
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.version import __version__

app = typer.Typer(
    name="dpmarket",
    help="Buy differentially private data truthfully, and train a model that keeps every promise.",
    epilog='Example: dpmarket costs show "uniform(1, 5)"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(epilog="Example: dpmarket init market.toml")(campaign.init)
app.command(epilog="Example: dpmarket quote reports.csv -o quotes.csv")(quote.quote)
app.command(epilog='Example: dpmarket withdraw "Zoë K." --quotes quotes.csv')(campaign.withdraw)
app.command(epilog="Example: dpmarket train data.csv --quotes quotes.csv -o model.json")(campaign.train)
app.command(epilog="Example: dpmarket predict model.json data.csv -o predictions.csv")(campaign.predict)
app.command(epilog="Example: dpmarket show quotes.csv")(campaign.show)
app.add_typer(costs.app, name="costs")
app.command(epilog="Example: dpmarket demo")(demo.demo)
app.command(epilog="Example: dpmarket reproduce online --quick")(reproduce.reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpmarket {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself."""


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
        app()
    except DpmarketError as problem:
        _tell(problem)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone (head, less): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
