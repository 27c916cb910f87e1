"""``dpmarket report``: one page about a campaign, for a board or for anybody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, QuietFlag


def report(
    reports: Annotated[
        Path, typer.Argument(help="The reported costs that were quoted, CSV or Parquet; - for stdin.")
    ],
    quotes: Annotated[Path, typer.Option("--quotes", help="The quotes, as 'dpmarket quote' wrote them.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the page to this .html file; - for stdout.")
    ],
    test: Annotated[
        Path | None,
        typer.Option("--test", help="Public records with features and labels, to tell the model's error."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="A column of the test data: the error is told for each of its values."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="The campaign's certificate: verified, and named by its digest."),
    ] = None,
    title: Annotated[
        str, typer.Option("--title", help="The page's heading.")
    ] = "A market for privacy: what was bought",
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Write one self-contained HTML page: what was bought and why, the model's error, audits, parameters.

    The page shows counts, totals and means of at least ten people: no individual cost, payment or id. The
    records in --test must be public: an error rate on private ones is a release that nobody was paid for.
    """
    from dpmarket.campaign.amounts import money_text
    from dpmarket.cli.render import Voice, number
    from dpmarket.report import report_campaign

    voice = Voice(as_json, quiet, str(output))
    with voice.progress() as progress:
        summary = report_campaign(
            market,
            reports,
            quotes,
            output,
            test=test,
            groups=groups,
            certificate=certificate,
            title=title,
            overwrite=force,
            progress=progress,
            ledger=ledger,
        )
    totals, score = summary.totals, summary.score
    rows = [
        ("sellers", f"{totals.sellers:,}"),
        ("bought from", f"{totals.bought:,}"),
        ("paid", money_text(totals.paid_minor_units, totals.minor_units, summary.currency)),
        ("mean epsilon of those", number(totals.mean_epsilon)),
        *([] if score is None else [("wrong on public test data", f"{score.error:.1%}")]),
        *((audit.question, "passed" if audit.passed else "FAILED") for audit in summary.audits),
    ]
    note = None if str(output) == "-" else f"The report is in {output}."
    voice.tell("A report on the campaign", rows, summary.to_dict(), note)
    if not all(audit.passed for audit in summary.audits):
        raise typer.Exit(1)
