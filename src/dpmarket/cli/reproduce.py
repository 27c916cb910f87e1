"""``dpmarket reproduce``: the paper's figures and claims, recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag, QuietFlag


def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="A figure of the paper (fig1 to fig4) or an experiment; left out: lists all."),
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Run all experiments, and write the pages.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small settings: quicker and less exact, as the tests use them.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, figures and pages.")
    ] = Path("out/paper"),
    processes: Annotated[int, typer.Option("--processes", help="How many processes compute at a time.")] = 2,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Recompute the paper's figures, and say claim by claim what holds.

    Tables that this version has finished are kept; a run that was stopped goes on where it was.
    """
    import time

    from dpmarket.cli.render import Voice
    from dpmarket.errors import InvalidInput
    from dpmarket.paper.experiments.catalogue import EXPERIMENTS, PAPER_FIGURES, experiments_named
    from dpmarket.paper.experiments.results_page import judge, read_tables, write_pages
    from dpmarket.paper.experiments.running import run_experiment
    from dpmarket.paper.experiments.verdicts import counted

    if every and name:
        raise InvalidInput("expected the name of an experiment or --all, got both.")
    chosen = EXPERIMENTS if every else experiments_named(name) if name else ()
    if not chosen:
        for experiment in EXPERIMENTS:
            figures = [key for key, value in PAPER_FIGURES.items() if experiment in value]
            typer.echo(f"{experiment.name:<16}{', '.join(figures):<12}{experiment.title}")
        return
    voice = Voice(as_json, quiet)
    began = time.monotonic()
    with voice.progress() as tell:
        for k, experiment in enumerate(chosen):

            def share(done: int, total: int, k: int = k, title: str = experiment.name) -> None:
                tell(title, (k + done / total) / len(chosen))

            run_experiment(
                experiment, experiment.quick if quick else experiment.full, output, processes, share
            )
    page = write_pages(output) if every else None
    names = {experiment.name for experiment in chosen}
    judged = [
        (claim, judgement)
        for claim, judgement in judge(read_tables(output))
        if names & set(claim.experiments)
    ]
    counts = counted([judgement for _, judgement in judged])
    seconds = time.monotonic() - began
    data = {
        "output": str(output),
        "claims": [
            {"claim": claim.key, "where": claim.where, "statement": claim.statement}
            | {"verdict": judgement.verdict, "measured": judgement.measured}
            for claim, judgement in judged
        ],
        "counts": counts,
        "seconds": round(seconds, 1),
    }
    lines = []
    for claim, judgement in judged:
        lines += [f"{claim.statement} ({claim.where})", f"  {judgement.verdict}: {judgement.measured}", ""]
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    lines.append(f"{len(judged)} claims{': ' if told else ''}{told}. {seconds:.0f} s.")
    lines.append(f"Tables and figures are in {output}." + ("" if page is None else f" The page is {page}."))
    voice.list("The paper's claims", lines, data)
