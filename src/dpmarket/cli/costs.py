"""``dpmarket costs``: look at a cost distribution, or fit one to a pilot."""

import math
from pathlib import Path
from typing import Annotated

import typer

from dpmarket import files
from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    OptionalOutput,
    Spoken,
    Written,
    command,
    read_distribution,
)

_SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)


@command
def show(given: Spoken, distribution: Annotated[str, typer.Argument(help=DISTRIBUTION_HELP)]) -> None:
    """Show costs and virtual costs of a distribution at its quantiles, and where it was ironed."""
    from dpmarket.cli.render import number
    from dpmarket.costs import VirtualCost

    dist = read_distribution(distribution)
    psi = VirtualCost.of(dist)
    low, high = dist.support
    costs = {share: dist.quantile(share) for share in _SHARES if share < 1.0 or math.isfinite(high)}
    table = [
        {"share": share, "cost": _finite(cost), "virtual_cost": _finite(psi(cost))}
        for share, cost in costs.items()
        if cost <= psi.reserve_price
    ]
    flat = [k for k, slope in enumerate(psi.slopes) if slope < 1e-9]
    ironed = [{"low": psi.knots[k], "high": psi.knots[k + 1], "virtual_cost": psi.values[k]} for k in flat]
    data = {
        "distribution": dist.to_dict(),
        "support": [low, _finite(high)],
        "reserve_price": psi.reserve_price,
        "virtual_cost": psi.to_dict(),
        "ironed_intervals": ironed,
        "quantiles": table,
    }
    note = f"The reserve price is {number(psi.reserve_price)}: higher reports sell nothing."
    if ironed:
        pieces = "; ".join("{} to {} at {}".format(*map(number, row.values())) for row in ironed)
        note += f" Ironed, so that a higher cost is never preferred: {pieces}."
    title = f"Privacy costs {distribution}, from {number(low)} to {number(high)} per unit of epsilon"
    rows = [[f"{row['share']:.0%}", _cell(row["cost"]), _cell(row["virtual_cost"])] for row in table]
    given.voice().tell(title, rows, data, note, ["people with at most this cost", "cost", "virtual cost"])


@command
def fit(given: Written, pilot: Path, *, column: str = "cost", output: OptionalOutput = None) -> None:
    """Fit distributions to a pilot's reported costs and rank them by how well they predict.

    People of the pilot must not be sellers later: their reports would move the prices that they are paid.
    The market file's sellers.excluded leaves them out by their ids.

    :param pilot: CSV or Parquet file with a pilot's reported costs.
    :param column: The column that holds the costs.
    :param output: Write the best distribution to this .json file.
    """
    from dpmarket.costs import fit_costs

    note = "People of the pilot must not be sellers: exclude them by their ids (sellers.excluded)."
    if output is not None:
        files.refuse_same(output, pilot)
    table = files.read_table(pilot, [column], numbers=[column])
    fitted = fit_costs(files.number_column(table, column, pilot))
    if output is not None:
        # Named, so that quoting can refuse the pilot's people; without a folder, which nobody need know.
        content = {"distribution": fitted.distribution.to_dict()}
        content["pilot"] = {"file": pilot.name, "column": column}
        files.write_json(output, content, overwrite=given.force)
        note += f" The best distribution is in {output}: dpmarket costs show {output}"
    candidates, rows = [], []
    for one in fitted.candidates:
        likelihood, error = _finite(one.log_likelihood), _finite(one.standard_error)
        found = None if one.distribution is None else one.distribution.to_dict()
        candidates.append(
            {"name": one.name, "log_likelihood": likelihood, "standard_error": error, "distribution": found}
        )
        rows.append([one.name, _cell(likelihood, "cannot have made these"), _cell(error)])
    given.voice().tell(
        f"Cost distributions fitted to {fitted.sample_count} reports, best first",
        rows,
        {"samples": fitted.sample_count, "candidates": candidates},
        note,
        ["family", "held-out log-likelihood", "standard error"],
    )


def _finite(value: float) -> float | None:
    """Return the value, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None


def _cell(value: float | None, otherwise: str = "") -> str:
    from dpmarket.cli.render import number

    return otherwise if value is None else number(value)
