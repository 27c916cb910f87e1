"""Options that say what is bought and from whom, and how lists of numbers are read."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import DISTRIBUTION_HELP

if TYPE_CHECKING:
    from dpmarket.planning import Trial

CostsOption = Annotated[
    str, typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP)
]
SellersOption = Annotated[int, typer.Option(help="How many sellers will report.")]
PaymentWeightOption = Annotated[
    float, typer.Option(help="Error units per unit of money (the paper's gamma): higher buys less.")
]
ConcentrationOption = Annotated[float, typer.Option(help="Price of uneven weights (the paper's mu).")]
NoiseOption = Annotated[float, typer.Option(help="Price of noise (the paper's sigma).")]
WeightCapOption = Annotated[
    float | None,
    typer.Option(help="No record weighs more than this many times the average (the paper's k)."),
]
MaxMeanEpsilonOption = Annotated[
    float | None, typer.Option(help="Upper bound of the mean epsilon over all sellers (the paper's L).")
]
BudgetsOption = Annotated[
    str,
    typer.Option(help="Budgets: expected payments to all sellers together, with commas between them."),
]
RadiusOption = Annotated[
    float, typer.Option(help="After scaling, rows longer than this are shortened to it. Public.")
]
SeedOption = Annotated[int, typer.Option(help="Seed: everything random follows from it.")]
ProcessesOption = Annotated[int, typer.Option(help="How many processes compute rows at a time.")]
KeepOption = Annotated[
    str | None,
    typer.Option("--keep-in", help="Keep finished rows in this .json file, and go on from it after a stop."),
]


class DataName(StrEnum):
    """Public data that come with the package."""

    breast_cancer = "breast-cancer"


def trial_on(name: DataName, radius: float) -> Trial:
    """Return a trial on public data, with its public bounds."""
    from dpmarket.datasets import breast_cancer
    from dpmarket.planning import Trial

    data = {DataName.breast_cancer: breast_cancer}[name]()
    return Trial(data, radius=radius)


def numbers(name: str, text: str) -> list[float]:
    """Read numbers with commas between them."""
    from dpmarket.errors import InvalidInput

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"expected {name} to be numbers with commas between them, got {text!r}.") from None


def whole_numbers(name: str, text: str) -> list[int]:
    """Read whole numbers with commas between them."""
    from dpmarket.errors import InvalidInput

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"expected {name} to be whole numbers with commas between them, got {text!r}."
        ) from None
