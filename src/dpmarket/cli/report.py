"""``dpmarket report`` and ``demo``: one page about a campaign, and a whole market on data that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpmarket.cli.arguments import OutputOption, Spoken, WrittenOfCampaign, command

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


@command
def demo(given: Spoken, folder: Path = Path("dpmarket-demo")) -> None:
    """Buy privacy from 456 simulated sellers, train a model, audit everything, and write the report.

    The records are public (breast cancer), the costs are drawn with a fixed seed: every run has the same
    market and other noise. It takes some seconds, more in a first run, which compiles.

    :param folder: Folder for all files; an earlier demonstration there is replaced.
    """
    from dpmarket.cli.plan import tell_simpler_rules
    from dpmarket.cli.render import number
    from dpmarket.report.demo import run_demo
    from dpmarket.report.score import Score

    voice = given.voice()
    if not given.as_json:
        voice.remark("Some seconds; a first run compiles.")
    with voice.progress() as progress:
        done = run_demo(folder, progress)
    summary, totals, score = done.summary, done.summary.totals, done.summary.score
    currency = summary.currency
    assert isinstance(score, Score)
    rows = [
        ("people who named the price of their privacy", f"{totals.sellers:,}"),
        ("bought from", f"{totals.bought:,}"),
        ("budget", f"{summary.budget:,.2f} {currency}"),
        ("paid to them", f"{totals.paid:,.2f} {currency}"),
        ("mean epsilon of those", number(totals.mean_epsilon)),
        ("an even guess about them becomes at most", f"{summary.meanings[0].guesses[-1]:.0%} sure"),
        ("the model is wrong on public test cases", f"{score.wrong} of {score.records} ({score.error:.1%})"),
        ("always saying the commoner label is wrong", f"{score.guessing:.1%}"),
        *((audit.question, "no" if audit.passed else "YES") for audit in summary.audits[:2]),
        *((audit.question, "yes" if audit.passed else "NO") for audit in summary.audits[2:]),
    ]
    data = {"folder": str(done.folder), "report": str(done.report), "summary": summary.to_dict()}
    voice.tell("A market for privacy", rows, data)
    tell_simpler_rules(voice, done.plan)
    if not (given.as_json or given.quiet):
        typer.echo(
            f"\nThe report is in {done.report}: open it in a browser. All files are beside it, for example:"
        )
        typer.echo(f"  dpmarket show {done.folder / 'rules.db'}")
        typer.echo(
            f"  dpmarket verify {done.folder / 'certificate.json'} --openings {done.folder / 'openings.json'}"
        )
