"""``dpmarket reproduce``: the paper's figures and claims, recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag, QuietFlag


def reproduce(
    name: Annotated[str, typer.Argument(help="The name of an experiment; left out: lists all.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Run all experiments, and write results.md.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small settings: quicker and less exact, as the tests use them.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for tables, figures and results.md.")
    ] = Path("out/paper"),
    processes: Annotated[int, typer.Option("--processes", help="How many processes compute at a time.")] = 2,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Recompute the paper's figures, and say claim by claim what holds.

    Finished tables are kept and not computed again; a run that was stopped goes on where it was.
    """
    from dpmarket.cli.render import Voice
    from dpmarket.errors import InvalidInput
    from dpmarket.paper.experiments.catalogue import EXPERIMENTS, experiment_named
    from dpmarket.paper.experiments.results_page import judge, read_tables, write_page
    from dpmarket.paper.experiments.running import run_experiment

    if every and name:
        raise InvalidInput("expected the name of an experiment or --all, got both.")
    chosen = EXPERIMENTS if every else (experiment_named(name),) if name else ()
    if not chosen:
        for experiment in EXPERIMENTS:
            typer.echo(f"{experiment.name:<16}{experiment.title}")
        return
    voice = Voice(as_json, quiet)
    with voice.progress() as tell:
        for k, experiment in enumerate(chosen):

            def share(done: int, total: int, k: int = k, title: str = experiment.name) -> None:
                tell(title, (k + done / total) / len(chosen))

            run_experiment(
                experiment, experiment.quick if quick else experiment.full, output, processes, share
            )
    page = write_page(output) if every else None
    names = {experiment.name for experiment in chosen}
    found = [
        (claim, judgement)
        for claim, judgement in judge(read_tables(output))
        if names & set(claim.experiments)
    ]
    data = {
        "output": str(output),
        "claims": [
            {"claim": claim.key, "where": claim.where, "statement": claim.statement}
            | {"verdict": judgement.verdict, "measured": judgement.measured}
            for claim, judgement in found
        ],
    }
    note = f"Tables and figures are in {output}." + ("" if page is None else f" The page is {page}.")
    rows = [[claim.key, judgement.verdict] for claim, judgement in found]
    voice.tell("The paper's claims", rows, data, note)
