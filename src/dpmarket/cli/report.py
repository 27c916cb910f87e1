"""``dpmarket report``: one page about a campaign, for a board or for anybody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpmarket.cli.arguments import OutputOption, WrittenOfCampaign, command

if TYPE_CHECKING:
    from dpmarket.report.score import NumberScore, Score


@command
def report(
    given: WrittenOfCampaign, *, output: OutputOption, reports: Path | None = None,
    test: Path | None = None, groups: str | None = None, certificate: Path | None = None,
    public: Path | None = None, title: str | None = None,
) -> None:  # fmt: skip
    """Write one self-contained HTML page: what was bought and why, the model's error, audits, parameters.

    The page shows counts, totals and means of at least ten people: no individual cost, payment or id. The
    records in --test must be public: an error rate on private ones is a release that nobody was paid for.

    :param output: Write the page to this .html file; - for stdout.
    :param reports: The reported costs that were quoted: sellers are grouped by them; left out: by the costs
        at which the rule makes their offers.
    :param test: Public records with features and labels or targets: the model's error.
    :param groups: A column of the test data: the error is shown for each value.
    :param certificate: The campaign's certificate: verified, and named by its digest.
    :param public: A public table with the rules' columns: forecast what other budgets would have bought.
    :param title: The page's heading.
    """
    from dpmarket.campaign.rules.meaning import money_text
    from dpmarket.cli.render import number
    from dpmarket.report import report_file

    voice = given.voice(output)
    with voice.progress() as progress:
        summary = report_file(
            given.rules,
            output,
            reports=reports,
            test=test,
            groups=groups,
            certificate=certificate,
            public=public,
            title=title,
            overwrite=given.force,
            progress=progress,
            database=given.database,
        )
    totals, score = summary.totals, summary.score
    rows = [
        ("sellers", f"{totals.sellers:,}"),
        ("bought from", f"{totals.bought:,}"),
        ("paid", money_text(totals.paid_minor_units, totals.minor_units, summary.currency)),
        ("mean epsilon of those", number(totals.mean_epsilon)),
        ("priced out", f"{totals.priced_out:,}"),
        *_score_rows(score),
        *((audit.question, "passed" if audit.passed else "FAILED") for audit in summary.audits),
    ]
    note = None if str(output) == "-" else f"The report is in {output}."
    voice.tell("A report on the campaign", rows, summary.to_dict(), note)
    if not all(audit.passed for audit in summary.audits):
        raise typer.Exit(1)


def _score_rows(score: Score | NumberScore | None) -> list[tuple[str, str]]:
    from dpmarket.report.score import Score

    if score is None:
        return []
    if isinstance(score, Score):
        rows = [("wrong on public test data", f"{score.error:.1%}")]
    else:
        rows = [("R squared on public test data", f"{score.r_squared:.3g}")]
    if not score.is_better_than_guessing:
        rows.append(("compared with a constant guess", "not shown to be better"))
    return rows
