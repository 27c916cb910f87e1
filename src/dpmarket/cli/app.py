"""Put the command groups together, and turn refusals into one line and exit code 1."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from dpmarket.cli import audit, compare, costs, demo, menu, plan, quote, sweep
from dpmarket.errors import DpmarketError
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
app.add_typer(costs.app, name="costs")
app.add_typer(audit.app, name="audit")
app.command(
    epilog='Example: dpmarket quote reports.csv --costs "uniform(1, 5)" --payment-weight 0.001 -o quotes.csv'
)(quote.quote)
app.add_typer(plan.app, name="plan")
app.command(
    epilog='Example: dpmarket sweep --costs "uniform(1, 5)" --sellers 500 --budgets 10,30,100',
)(sweep.sweep)
app.command(
    epilog='Example: dpmarket compare --costs "uniform(1, 5)" --budgets 100,1000 --payment-weight 1e-5',
)(compare.compare)
app.command(epilog='Example: dpmarket menu --costs "uniform(1, 5)" --payment-weight 0.001 --sellers 1000')(
    menu.menu
)
app.command(epilog="Example: dpmarket demo")(demo.demo)


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


def main() -> None:
    """Run the command: exit code 0 done, 1 the data or the market says no, 2 wrong usage."""
    try:
        app()
    except DpmarketError as problem:
        message = " ".join(str(problem).split())
        typer.echo(f"dpmarket: {message}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone (head, less): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
