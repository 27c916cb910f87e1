"""Options that several commands take, and how they are read."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from dpmarket import files
from dpmarket.progress import told_of_reading

if TYPE_CHECKING:
    from dpmarket.campaign.place import Place
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
OutputOption = Annotated[Path, typer.Option("--output", "-o")]
OptionalOutput = Annotated[Path | None, typer.Option("--output", "-o")]
RULES = Path("rules.toml")
Shape = Literal["linear", "quadratic"]  # how epsilon costs a seller


@dataclass(frozen=True)
class Shown:
    """Options of a command that is called for what it says."""

    as_json: JsonFlag = False

    def voice(self, output: Path | None = None) -> Voice:
        """Return how the command speaks beside its output."""
        from dpmarket.cli.render import Voice

        return Voice(self.as_json, getattr(self, "quiet", False), str(output))


@dataclass(frozen=True)
class Spoken(Shown):
    """Options of a command that says what it did."""

    quiet: QuietFlag = False


@dataclass(frozen=True)
class Written(Spoken):
    """Options of a command that writes a file."""

    force: ForceFlag = False


@dataclass(frozen=True)
class OfCampaign(Spoken):
    """Options of a command about the campaign of a rules file."""

    rules: RulesOption = RULES
    database: DatabaseOption = None

    @property
    def place(self) -> Place:
        """The campaign's place."""
        from dpmarket.campaign.place import place_of

        return place_of(self.rules, self.database)


@dataclass(frozen=True)
class WrittenOfCampaign(OfCampaign):
    """Options of a command that writes a file about a campaign."""

    force: ForceFlag = False


@dataclass(frozen=True)
class OfMarket(Spoken):
    """Options of a command about a whole market."""

    rules: PlaceOption = RULES
    database: DatabaseOption = None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: typer reads its options from plain parameters and ``:param`` lines.

    Parameters by position are arguments, those by keyword options. A first parameter of a class above stands
    for the options that are its fields.
    """
    signature = inspect.signature(function, eval_str=True)
    text, helps = _documented(function)
    own = list(signature.parameters.values())
    kind: Any = own[0].annotation
    shared: list[inspect.Parameter] = []
    if isinstance(kind, type) and issubclass(kind, Shown):
        del own[0]
        hints = get_type_hints(kind, include_extras=True)
        shared = [_KEYWORD(one.name, default=one.default, annotation=hints[one.name]) for one in fields(kind)]

    @functools.wraps(function)
    def call(**given: Any) -> None:
        if not shared:
            function(**given)
            return
        value = kind(**{one.name: given.pop(one.name) for one in shared})
        # A file that is read twice is spoken of once.
        with told_of_reading(functools.cache(lambda sentence: value.voice().remark(sentence))):
            function(value, **given)

    call.__doc__ = text
    taken = [*(_with_help(one, helps.get(one.name)) for one in own), *shared]
    call.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


_KEYWORD = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)


def _documented(function: Callable[..., None]) -> tuple[str, dict[str, str]]:
    """Return a docstring without its parameters, and what it says about each of them."""
    text, *described = inspect.cleandoc(function.__doc__ or "").split("\n:param ")
    pairs = (one.partition(": ") for one in described)
    return text, {name: " ".join(words.split()) for name, _, words in pairs}


def _with_help(parameter: inspect.Parameter, words: str | None) -> inspect.Parameter:
    """Return a parameter with its help, an option unless it comes by position; shared ones have theirs."""
    annotation, names = parameter.annotation, []
    if words is not None:
        kind, *extra = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            found: Any = typer.Argument()
        else:
            names = [f"--{parameter.name.replace('_', '-')}"] if kind is bool else []
            found = copy.copy(extra[0]) if extra else typer.Option(*names)
        found.help = words
        annotation = Annotated[kind, found]
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=annotation)


DISTRIBUTION_HELP = (
    "A formula such as 'uniform(1, 5)', 'lognorm(s=0.5, scale=2, high=20)' (any continuous scipy.stats "
    "distribution, cut to [low, high]) or '0.7*uniform(0, 1) + 0.3*uniform(2, 3)'; "
    "or a .json file written by 'dpmarket costs fit'."
)
_COSTS = typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP)
CostsOption = Annotated[str, _COSTS]
OptionalCosts = Annotated[str | None, _COSTS]
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
    from dpmarket.costs.text import distribution_from_dict, parse_distribution
    from dpmarket.errors import FileProblem

    if not text.endswith(".json"):
        return parse_distribution(text)
    data = files.read_json(text)
    if not isinstance(data, dict):
        raise FileProblem(f"expected a cost distribution in {text}, as 'costs fit' writes it.")
    return distribution_from_dict(data.get("distribution", data))
