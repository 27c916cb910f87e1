"""What several commands take, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpmarket.costs import CostDistribution

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something is wrong.")]
MarketOption = Annotated[
    Path,
    typer.Option("--market", "-m", help="The market file; the privacy ledger lies beside it, as .ledger."),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")]

DISTRIBUTION_HELP = (
    "A formula such as 'uniform(1, 5)', 'lognorm(s=0.5, scale=2, high=20)' (any continuous scipy.stats "
    "distribution, cut to [low, high]) or '0.7*uniform(0, 1) + 0.3*uniform(2, 3)'; "
    "or a .json file written by 'dpmarket costs fit'."
)


def read_distribution(text: str) -> CostDistribution:
    """Make a distribution from a formula or from a .json file."""
    from dpmarket.costs import distribution_from_dict, parse_distribution
    from dpmarket.errors import FileProblem
    from dpmarket.files import read_json

    if not text.endswith(".json"):
        return parse_distribution(text)
    data = read_json(text)
    if not isinstance(data, dict):
        raise FileProblem(f"expected a cost distribution in {text}, as 'costs fit' writes it.")
    return distribution_from_dict(data.get("distribution", data))
