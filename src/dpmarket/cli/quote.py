"""``dpmarket quote``: a file of reported costs in, a file of promises and payments out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import DISTRIBUTION_HELP, ForceFlag, JsonFlag, read_distribution


def quote(
    reports: Annotated[Path, typer.Argument(help="CSV or Parquet file with seller ids and reported costs.")],
    costs: Annotated[str, typer.Option("--costs", help="The cost distribution. " + DISTRIBUTION_HELP)],
    payment_weight: Annotated[
        float, typer.Option(help="Error units per unit of money (the paper's gamma): higher buys less.")
    ],
    concentration: Annotated[float, typer.Option(help="Price of uneven weights (mu).")] = 1.0,
    noise: Annotated[float, typer.Option(help="Price of noise (sigma).")] = 1.0,
    weight_cap: Annotated[
        float | None, typer.Option(help="No record weighs more than this many times 1/m (k).")
    ] = None,
    max_mean_epsilon: Annotated[
        float | None, typer.Option(help="Upper bound of the mean epsilon over all sellers (L).")
    ] = None,
    id_column: Annotated[str, typer.Option(help="The column with the sellers' ids.")] = "seller",
    cost_column: Annotated[str, typer.Option(help="The column with the reported costs.")] = "cost",
    minor_units: Annotated[
        int, typer.Option(help="Smallest currency units to one unit of money; payments round up to them.")
    ] = 100,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the quotes to this .csv or .parquet file.")
    ] = None,
    online: Annotated[
        int | None,
        typer.Option(help="Quote one by one, in the file's order, by a curve made for so many sellers."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="With --online: stop buying before payments exceed this.")
    ] = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Quote every seller an epsilon and a payment, so that telling the truth was best for them.

    With --online each seller's quote depends on their own report and the public plan only.

    Reported costs are confidential: they are neither printed nor written to the quotes.
    """
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy, print_table
    from dpmarket.errors import FileProblem
    from dpmarket.files import number_column, read_table, text_column, to_json, write_table
    from dpmarket.mechanisms import batch_mechanism

    objective = BuyerObjective(concentration, noise, payment_weight, weight_cap, max_mean_epsilon)
    mechanism = batch_mechanism(read_distribution(costs), objective, online, budget, minor_units)
    if output is not None and output.exists() and not force:
        raise FileProblem(f"{output} exists; name another file, or pass --force to overwrite it.")
    table = read_table(reports, [id_column, cost_column])
    with busy("Quoting"):
        outcome = mechanism.run(number_column(table, cost_column, reports), text_column(table, id_column))
    money = outcome.in_minor_units(minor_units)
    if output is not None:
        columns = {
            id_column: table.get_column(id_column),
            "epsilon": outcome.epsilons,
            "payment_minor_units": money.amounts,
            "loss_weight": outcome.loss_weights,
        }
        write_table(output, columns, overwrite=force)
    rows = [*outcome.summary(), (f"to pay, in 1/{minor_units}", f"{money.total:,}")]
    if as_json:
        header = outcome.header()
        data = {**header, "sellers": outcome.epsilons.size, "total_payment_minor_units": money.total}
        typer.echo(to_json(data), nl=False)
        return
    note = None if output is None else f"The quotes are in {output}."
    print_table("Quotes: every seller's best report was the truth", ["", ""], rows, note)
