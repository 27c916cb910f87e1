"""``dpmarket repartition``: files of rows in, files divided by person out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import EngineOption, JsonFlag, QuietFlag


def repartition(
    data: Annotated[
        str,
        typer.Argument(help="A pattern for CSV or Parquet files with the same columns, in quotation marks."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the partitions.")],
    partitions: Annotated[int, typer.Option("--partitions", "-n", help="How many files there will be.")],
    id_column: Annotated[
        str, typer.Option("--id-column", help="The column with the person of a row.")
    ] = "id",
    engine: EngineOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Divide rows by person: all rows of one person lie in one file, as 'train --engine' needs them."""
    from dpmarket.cli.render import Voice
    from dpmarket.partitions import engine_named, repartition

    voice = Voice(as_json, quiet)
    with voice.progress() as progress, engine_named(engine or "threads") as runner:
        done = repartition(data, output, partitions, engine=runner, id_column=id_column, progress=progress)
    rows = [("rows", f"{sum(done.rows):,}"), ("partitions", f"{len(done.rows):,}")]
    told = {"rows": sum(done.rows), "partitions": len(done.rows), "largest": max(done.rows)}
    voice.tell("Rows divided by person", rows, told, f"They are in the folder {output}.")
