"""Put the command groups together, and turn refusals into one line and exit code 1."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from dpmarket.cli import audit, campaign, certificates, costs, market, plan, report, serve
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.version import __version__

COMMANDS: Mapping[Callable[..., None], str] = {
    campaign.init: "init --set objective.budget=500 --set sellers.expected=1000",
    campaign.quote: "quote reports.csv -o quotes.csv",
    campaign.withdraw: 'withdraw "Zoë K."',
    campaign.train: "train data.csv -o model.json",
    campaign.repartition: "repartition 'records/*.parquet' -o by-person",
    campaign.predict: "predict model.json data.csv -o predictions.csv",
    market.payouts: "payouts -o payouts.csv",
    market.statement: 'statement "seller 7"',
    market.show: "show rules.db",
    market.check: "check reports.csv data.csv",
    market.repair: "repair",
    market.backup: "backup copy.db",
    market.restore: "restore copy.db",
    plan.menu: "menu --points 5",
    certificates.commit: "commit -o commitment.json",
    certificates.certify: "certify -o certificate.json --openings openings.json",
    certificates.receipts: "receipts certificate.json openings.json -o receipts",
    certificates.verify: "verify certificate.json --receipt receipts/receipt-0000007.json",
    certificates.signing_key: "signing-key key.pem",
    report.report: "report --test public.csv -o report.html",
    plan.plan: 'plan --costs "uniform(1, 5)" --sellers 1000 --features 10 --budget 500',
    serve.serve: "serve hospital",
    serve.worker: "worker hospital",
    serve.retry: "retry hospital",
    report.demo: "demo",
    costs.show: 'costs show "uniform(1, 5)"',
    costs.fit: "costs fit pilot.csv --column cost -o costs.json",
    audit.truthfulness: 'audit truthfulness --costs "uniform(1, 5)" --features 10 --payment-weight 0.01',
    audit.privacy: "audit privacy 0.5 1 4 --fits 4000",
    audit.participation: "audit participation quotes.csv reports.csv",
    serve.add: "member add hospital 'A clinic' buyer",
    serve.list_: "member list hospital",
    serve.link: "member link hospital 'A clinic'",
    serve.end: "member end hospital 'A clinic'",
}
"""Every command with its example, which begins with its name; in the order of the help."""
GROUPS = {
    "costs": "What privacy costs people: show a distribution, fit one to a pilot.",
    "audit": "Check truthfulness, participation and privacy as an outsider would.",
    "member": "Who works with a service, as what.",
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpmarket {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


def assembled() -> typer.Typer:
    """Put all commands together."""
    result = typer.Typer(
        name="dpmarket",
        help="Buy differentially private data truthfully, and train a model within everybody's epsilon.",
        epilog='Example: dpmarket costs show "uniform(1, 5)"',
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    result.callback()(_options)
    groups = {name: typer.Typer(help=words) for name, words in GROUPS.items()}
    for function, example in COMMANDS.items():
        name, second = f"{example} ".split(" ")[:2]
        group = groups.get(name, result)
        group.command(second if name in groups else name, epilog=f"Example: dpmarket {example}")(function)
    for name, group in groups.items():
        result.add_typer(group, name=name)
    return result


app = assembled()


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
