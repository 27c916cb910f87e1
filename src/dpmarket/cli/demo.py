"""``dpmarket demo``: a whole market on data that is already there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import JsonFlag, QuietFlag

if TYPE_CHECKING:
    from dpmarket.planning import Comparison


def demo(
    folder: Annotated[
        Path, typer.Argument(help="Folder for all files; an earlier demonstration there is replaced.")
    ] = Path("dpmarket-demo"),
    repetitions: Annotated[
        int,
        typer.Option("--repetitions", help="Simulated campaigns that compare buyers, 2 or more.", min=2),
    ] = 25,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Buy privacy from 456 simulated sellers, train a model, audit everything, and write the report.

    The records are public (breast cancer), the costs are drawn with a fixed seed: every run has the same
    market and other noise. It takes about a minute, half of it for compiling in a first run.
    """
    from dpmarket.cli.render import Voice, number, print_table
    from dpmarket.report.demo import run_demo

    voice = Voice(as_json, quiet)
    if not as_json:
        voice.remark("About a minute; a first run compiles for half of it.")
    with voice.progress() as progress:
        done = run_demo(folder, repetitions, progress)
    summary, totals, score = done.summary, done.summary.totals, done.summary.score
    currency = summary.currency
    assert score is not None
    rows = [
        ("people who named the price of their privacy", f"{totals.sellers:,}"),
        ("bought from", f"{totals.bought:,}"),
        ("budget", f"{summary.budget:,.2f} {currency}"),
        ("paid to them", f"{totals.paid:,.2f} {currency}"),
        (
            "the same people, quoted one by one",
            f"{done.online_bought:,} for {done.online_paid:,.2f} {currency}",
        ),
        ("epsilon promised to the average of those", number(totals.mean_epsilon)),
        ("an even guess about them becomes at most", f"{summary.meanings[0].guesses[-1]:.0%} sure"),
        ("the model is wrong on public test cases", f"{score.wrong} of {score.records} ({score.error:.1%})"),
        ("always saying the commoner label is wrong", f"{score.guessing:.1%}"),
        *((audit.question, "no" if audit.passed else "YES") for audit in summary.audits[:2]),
        *((audit.question, "yes" if audit.passed else "NO") for audit in summary.audits[2:]),
    ]
    data = {
        "folder": str(done.folder),
        "report": str(done.report),
        "online": {"paid": done.online_paid, "bought": done.online_bought},
        "summary": summary.to_dict(),
    }
    voice.tell("A market for privacy", rows, data)
    if not (as_json or quiet):
        own = next(iter(done.comparisons.values()))
        budgets = dict.fromkeys(standing.budget for standing in own.standings)
        print_table(
            f"The same money, other buyers: errors on public test cases, {repetitions} simulated campaigns",
            ["buyer", *(f"with {budget:,.0f} {currency}" for budget in budgets)],
            [(buyer, *cells) for buyer, cells in _side_by_side(own).items()],
        )
        typer.echo(_why(own, currency))
        typer.echo(
            f"\nThe report is in {done.report}: open it in a browser. All files are beside it, for example:"
        )
        typer.echo(f"  dpmarket show {done.folder / 'market.ledger'}")
        typer.echo(
            f"  dpmarket verify {done.folder / 'certificate.json'} --openings {done.folder / 'openings.json'}"
        )


def _side_by_side(comparison: Comparison) -> dict[str, list[str]]:
    """Return each buyer's errors, budget by budget."""
    rows: dict[str, list[str]] = {}
    for standing in comparison.standings:
        cell = f"{standing.error:.1%} ± {standing.error_standard_error:.1%}"
        rows.setdefault(standing.buyer, []).append(cell)
    return rows


def _why(comparison: Comparison, currency: str) -> str:
    """Say in one sentence what the rule buys, fair to simple ones."""
    first = comparison.standings[0]
    little = [standing for standing in comparison.standings if standing.budget == first.budget]
    plain = next(standing for standing in little if standing.buyer == "same for all")
    simple = min(
        (standing for standing in little[1:] if standing.buyer in ("posted price", "cheapest k")),
        key=lambda standing: standing.error,
    )
    return (
        f"With {first.budget:,.0f} {currency} the model is wrong on {first.error:.1%} of cases instead of "
        f"{plain.error:.1%} with one epsilon for everybody; the best simple rule with prices planned here, "
        f"{simple.buyer}, comes to {simple.error:.1%} (more in comparison.json, and by 'dpmarket compare')."
    )
