"""``dpmarket demo``: a whole market on data that is already there."""

from __future__ import annotations

from pathlib import Path

import typer

from dpmarket.cli.arguments import Spoken, command


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
    data = {
        "folder": str(done.folder),
        "report": str(done.report),
        "summary": summary.to_dict(),
    }
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
