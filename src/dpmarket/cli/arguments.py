"""What several commands take, and how it is read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpmarket.costs import CostDistribution
    from dpmarket.planning import Trial

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something is wrong.")]
MarketOption = Annotated[
    Path,
    typer.Option("--market", "-m", help="The market file; the ledger lies beside it, as .ledger."),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DPMARKET_LEDGER",
        show_envvar=False,
        help="A shared ledger: a file, or postgresql://...; in place of the market file's ledger.url.",
    ),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")]

DISTRIBUTION_HELP = (
    "A formula such as 'uniform(1, 5)', 'lognorm(s=0.5, scale=2, high=20)' (any continuous scipy.stats "
    "distribution, cut to [low, high]) or '0.7*uniform(0, 1) + 0.3*uniform(2, 3)'; "
    "or a .json file written by 'dpmarket costs fit'."
)
CostsOption = Annotated[
    str, typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP)
]
SellersOption = Annotated[int, typer.Option(help="How many sellers will report.")]
PaymentWeightOption = Annotated[
    float, typer.Option(help="Error units per unit of money (the paper's gamma): higher buys less.")
]
ConcentrationOption = Annotated[float, typer.Option(help="Price of uneven weights (the paper's mu).")]
NoiseOption = Annotated[float, typer.Option(help="Price of noise (the paper's sigma).")]
OwnConcentrationOption = Annotated[
    float | None,
    typer.Option(
        "--concentration",
        help="Price of uneven weights (the paper's mu); left out, with --noise: suggested for the least "
        "expected error.",
    ),
]
OwnNoiseOption = Annotated[
    float | None,
    typer.Option("--noise", help="Price of noise (the paper's sigma); left out: as --concentration."),
]
FeaturesOption = Annotated[
    int | None,
    typer.Option(help="Number of columns of a record, without its label: decides how much noise matters."),
]
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


class DataName(StrEnum):
    """Public data that come with the package."""

    breast_cancer = "breast-cancer"
    diabetes = "diabetes"
    digits = "digits"
    wine = "wine"


def trial_on(name: DataName, radius: float) -> Trial:
    """Return a trial on public data, with its public bounds."""
    from dpmarket.datasets import breast_cancer, diabetes, odd_digits, wine
    from dpmarket.planning import Trial

    sets = {
        DataName.breast_cancer: breast_cancer,
        DataName.diabetes: diabetes,
        DataName.digits: odd_digits,
        DataName.wine: wine,
    }
    return Trial(sets[name](), radius=radius)


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
