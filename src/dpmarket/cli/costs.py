"""``dpmarket costs``: look at a cost distribution, or fit one to a pilot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpmarket.cli.arguments import DISTRIBUTION_HELP, ForceFlag, JsonFlag, read_distribution

app = typer.Typer(help="What privacy costs people: show a distribution, fit one to a pilot.")


@app.command(epilog='Example: dpmarket costs show "uniform(1, 5)"')
def show(
    distribution: Annotated[str, typer.Argument(help=DISTRIBUTION_HELP)], as_json: JsonFlag = False
) -> None:
    """Show costs and virtual costs of a distribution at its quantiles, and where it was ironed."""
    import math

    from dpmarket.costs import VirtualCost
    from dpmarket.files import to_json

    dist = read_distribution(distribution)
    psi = VirtualCost.of(dist)
    shares = [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0]
    low, high = dist.support
    rows = [(share, dist.quantile(share)) for share in shares if share < 1.0 or math.isfinite(high)]
    sold = [(share, cost) for share, cost in rows if cost <= psi.reserve_price]
    table = [{"share": share, "cost": cost, "virtual_cost": psi(cost)} for share, cost in sold]
    flat = [k for k, slope in enumerate(psi.slopes) if slope < 1e-9]
    ironed = [{"low": psi.knots[k], "high": psi.knots[k + 1], "virtual_cost": psi.values[k]} for k in flat]
    if as_json:
        data: dict[str, Any] = {
            "distribution": dist.to_dict(),
            "support": [low, _finite(high)],
            "reserve_price": psi.reserve_price,
            "virtual_cost": psi.to_dict(),
            "ironed_intervals": ironed,
            "quantiles": [{name: _finite(value) for name, value in row.items()} for row in table],
        }
        typer.echo(to_json(data), nl=False)
        return
    from dpmarket.cli.render import number, print_table

    pieces = "; ".join(
        f"{number(row['low'])} to {number(row['high'])} at {number(row['virtual_cost'])}" for row in ironed
    )
    note = f"The reserve price is {number(psi.reserve_price)}: higher reports sell nothing."
    if pieces:
        note += f" Ironed, so that a higher cost is never preferred: {pieces}."
    print_table(
        f"Privacy costs {distribution}, from {number(low)} to {number(high)} per unit of epsilon",
        ["people with at most this cost", "cost", "virtual cost"],
        [[f"{row['share']:.0%}", number(row["cost"]), number(row["virtual_cost"])] for row in table],
        note,
    )


@app.command(epilog="Example: dpmarket costs fit pilot.csv --column cost -o costs.json")
def fit(
    pilot: Annotated[Path, typer.Argument(help="CSV or Parquet file with a pilot's reported costs.")],
    column: Annotated[str, typer.Option(help="The column that holds the costs.")] = "cost",
    low: Annotated[float | None, typer.Option(help="Lowest possible cost, if known.")] = None,
    high: Annotated[float | None, typer.Option(help="Highest possible cost, if known.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the best distribution to this .json file.")
    ] = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Fit distributions to a pilot's reported costs and rank them by how well they predict.

    People of the pilot must not be sellers later: their reports would move the prices that they are paid.
    The market file's sellers.excluded leaves them out by their ids.
    """
    from dpmarket.costs import fit_costs
    from dpmarket.files import number_column, read_table, refuse_same, to_json, write_json

    if output is not None:
        refuse_same(output, pilot)
    fitted = fit_costs(number_column(read_table(pilot, [column], numbers=[column]), column, pilot), low, high)
    if output is not None:
        # Named, so that quoting can refuse the pilot's people; without a folder, which nobody need know.
        source = {"file": pilot.name, "column": column}
        write_json(output, {"distribution": fitted.distribution.to_dict(), "pilot": source}, overwrite=force)
    if as_json:
        data = {
            "samples": fitted.sample_count,
            "candidates": [
                {
                    "name": c.name,
                    "log_likelihood": _finite(c.log_likelihood),
                    "standard_error": _finite(c.standard_error),
                    "distribution": None if c.distribution is None else c.distribution.to_dict(),
                }
                for c in fitted.candidates
            ],
        }
        typer.echo(to_json(data), nl=False)
        return
    from dpmarket.cli.render import number, print_table

    print_table(
        f"Cost distributions fitted to {fitted.sample_count} reports, best first",
        ["family", "held-out log-likelihood", "standard error"],
        [
            [
                c.name,
                number(c.log_likelihood)
                if _finite(c.log_likelihood) is not None
                else "cannot have made these",
                number(c.standard_error) if _finite(c.standard_error) is not None else "",
            ]
            for c in fitted.candidates
        ],
        "People of the pilot must not be sellers: exclude them by their ids (sellers.excluded)."
        + ("" if output is None else f" The best distribution is in {output}: dpmarket costs show {output}"),
    )


def _finite(value: float) -> float | None:
    """Return the value, or None where JSON has no number for it."""
    import math

    return value if math.isfinite(value) else None
