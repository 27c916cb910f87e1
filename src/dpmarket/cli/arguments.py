"""Options that several commands take, and how they are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dpmarket.progress import told_of_reading

if TYPE_CHECKING:
    from dpmarket.cli.render import Voice
    from dpmarket.costs import CostDistribution

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something is wrong.")]
RulesOption = Annotated[
    Path, typer.Option("--rules", "-m", help="The rules file; its database lies beside it, as .db.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="DPMARKET_DATABASE",
        show_envvar=False,
        help="A database file or postgresql://..., in place of the rules file's campaign.database.",
    ),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite the output file if it exists.")]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        help="Take many Parquet files (a pattern in quotes), on the Dask scheduler at this address; local: "
        "on two workers of this machine.",
    ),
]
PlaceOption = Annotated[
    Path, typer.Option("--rules", "-m", help="A rules file, a database (.db), or a service's folder.")
]
RULES = Path("rules.toml")


@dataclass(frozen=True)
class Spoken:
    """Options of a command that says what it did."""

    as_json: JsonFlag = False
    quiet: QuietFlag = False

    def voice(self, output: Path | None = None) -> Voice:
        """Return how the command speaks beside its output."""
        from dpmarket.cli.render import Voice

        return Voice(self.as_json, self.quiet, str(output))


@dataclass(frozen=True)
class Written(Spoken):
    """Options of a command that writes a file."""

    force: ForceFlag = False


@dataclass(frozen=True)
class OfCampaign(Spoken):
    """Options of a command about the campaign of a rules file."""

    rules: RulesOption = RULES
    database: DatabaseOption = None


@dataclass(frozen=True)
class WrittenOfCampaign(OfCampaign):
    """Options of a command that writes a file about a campaign."""

    force: ForceFlag = False


@dataclass(frozen=True)
class OfMarket(Spoken):
    """Options of a command about a whole market."""

    rules: PlaceOption = RULES
    database: DatabaseOption = None


def together(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take options that go together as one value: its first parameter, of a class above."""
    signature = inspect.signature(command, eval_str=True)
    first, *own = signature.parameters.values()
    kind: Any = first.annotation
    hints = get_type_hints(kind, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(one.name, keyword, default=one.default, annotation=hints[one.name])
        for one in fields(kind)
    ]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        value = kind(**{one.name: given.pop(one.name) for one in options})
        with told_of_reading(lambda sentence: value.voice().remark(sentence)):
            command(value, **given)

    taken = [*(one.replace(kind=keyword) for one in own), *options]
    call.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


DISTRIBUTION_HELP = (
    "A formula such as 'uniform(1, 5)', 'lognorm(s=0.5, scale=2, high=20)' (any continuous scipy.stats "
    "distribution, cut to [low, high]) or '0.7*uniform(0, 1) + 0.3*uniform(2, 3)'; "
    "or a .json file written by 'dpmarket costs fit'."
)
CostsOption = Annotated[
    str, typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP)
]
PaymentWeightOption = Annotated[
    float, typer.Option(help="Error units per unit of money (the paper's gamma): higher buys less.")
]
WeightCapOption = Annotated[
    float | None, typer.Option(help="No record weighs more than this many times the average (the paper's k).")
]
MaxMeanEpsilonOption = Annotated[
    float | None, typer.Option(help="Upper bound of the mean epsilon over all sellers (the paper's L).")
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
