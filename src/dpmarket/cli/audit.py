"""``dpmarket audit``: look for profitable lies, for sellers who lost, for broken promises."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmarket.cli.arguments import (
    ConcentrationOption,
    CostsOption,
    ForceFlag,
    JsonFlag,
    MaxMeanEpsilonOption,
    NoiseOption,
    PaymentWeightOption,
    WeightCapOption,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.allocation import BuyerObjective
    from dpmarket.audit import Audit, ParticipationAudit
    from dpmarket.costs import CostDistribution
    from dpmarket.mechanisms import Mechanism

app = typer.Typer(help="Check truthfulness, participation and privacy as an outsider would.")
FigureOption = Annotated[
    Path | None, typer.Option("--figure", help="Draw the evidence to this .svg, .png or .pdf file.")
]


class MechanismName(StrEnum):
    """The mechanisms whose sellers report costs."""

    offline = "offline"
    online = "online"


@app.command(
    epilog='Example: dpmarket audit truthfulness --costs "uniform(1, 5)" --payment-weight 0.01 --sellers 50'
)
def truthfulness(
    costs: CostsOption,
    payment_weight: PaymentWeightOption,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    mechanism: Annotated[
        MechanismName,
        typer.Option(help="All sellers at once (offline), or one by one by one curve (online)."),
    ] = MechanismName.offline,
    sellers: Annotated[int, typer.Option(help="Sellers in each simulated market.")] = 30,
    profiles: Annotated[int, typer.Option(help="How many markets to simulate.")] = 10,
    misreports: Annotated[int, typer.Option(help="How many lies every seller tries.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the simulated costs.")] = 0,
    figure: FigureOption = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Search simulated markets for a lie that pays; exit code 1 if one is found."""
    import numpy as np

    from dpmarket.allocation import BuyerObjective
    from dpmarket.audit import audit_truthfulness
    from dpmarket.cli.render import progress_bar

    dist = read_distribution(costs)
    objective = BuyerObjective(concentration, noise, payment_weight, weight_cap, max_mean_epsilon)
    audited = _mechanism(mechanism, dist, objective, sellers)
    with progress_bar("Trying lies") as progress:
        audit = audit_truthfulness(
            audited, dist, sellers, profiles, misreports, np.random.default_rng(seed), progress=progress
        )
    if figure is not None:
        from dpmarket.figures import draw_gains, new_figure, save

        canvas, (axes,) = new_figure()
        gains = audit.gain_profile
        draw_gains(axes, gains.distances, gains.largest, gains.mean)
        save(canvas, figure, overwrite=force)
    _tell("Truthfulness: does a lie pay?", audit, as_json, figure)


def _mechanism(
    name: MechanismName, dist: CostDistribution, objective: BuyerObjective, sellers: int
) -> Mechanism:
    from dpmarket.mechanisms import OfflineMechanism, OnlineMechanism, population_curve

    if name is MechanismName.online:
        return OnlineMechanism(dist, population_curve(dist, objective, sellers))
    return OfflineMechanism(dist, objective)


@app.command(epilog="Example: dpmarket audit participation quotes.csv reports.csv")
def participation(
    outcome: Annotated[
        Path,
        typer.Argument(
            help="The quotes that 'dpmarket quote' wrote, or an outcome of the library (.json, .parquet)."
        ),
    ],
    costs: Annotated[Path, typer.Argument(help="CSV or Parquet file with seller ids and true costs.")],
    id_column: Annotated[str, typer.Option(help="The column with the sellers' ids.")] = "seller",
    cost_column: Annotated[str, typer.Option(help="The column with the costs.")] = "cost",
    minor_units: Annotated[
        int | None,
        typer.Option(help="Smallest currency units to one unit of money, such as 100 cents: for an outcome."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that everybody is paid at least what the promise costs them; exit code 1 if anybody is not.

    The comparison is exact, without rounding. No cost is shown.
    """
    audit = _participation(outcome, costs, id_column, cost_column, minor_units)
    _tell("Participation: did anybody lose by taking part?", audit, as_json, None)


@app.command(epilog="Example: dpmarket audit privacy 0.5 1 4 --fits 4000")
def privacy(
    epsilons: Annotated[
        list[float],
        typer.Argument(
            help="The promise (epsilon) to each person, at least three; or one, which is then audited among "
            "people whose promises leave it no shelter."
        ),
    ],
    l2: Annotated[
        float | None,
        typer.Option(help="The model's ridge penalty; left out: what the estimator suggests."),
    ] = None,
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Whether the model has a constant.")
    ] = False,
    fits: Annotated[
        int | None,
        typer.Option(
            help="Models trained for each audited person; left out: 16,000 to 128,000, most for small ones."
        ),
    ] = None,
    false_alarm: Annotated[
        float, typer.Option(help="Probability, at most, of calling a kept promise broken.")
    ] = 1e-3,
    processes: Annotated[
        int | None, typer.Option(help="How many processes train models; left out: one on every core.")
    ] = None,
    figure: FigureOption = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Look for promises that the private estimator breaks, in three ways; exit code 1 if one is found.

    Sampled models show a lower bound on what is given away of a person; the exact density shows the worst
    case found; and what was spent is recomputed by other code.
    """
    from concurrent.futures import ProcessPoolExecutor
    from contextlib import nullcontext

    from dpmarket.audit import audit_privacy, promises_around
    from dpmarket.cli.render import number, print_table, progress_bar
    from dpmarket.errors import InvalidInput
    from dpmarket.learning import PrivateLogisticRegression

    if processes is not None and processes < 1:
        raise InvalidInput(f"expected processes >= 1, got {processes}.")
    learner = PrivateLogisticRegression(l2=l2, fit_intercept=intercept, classes=(0, 1))
    promises, people = (promises_around(epsilons[0]), [0]) if len(epsilons) == 1 else (epsilons, None)
    pool: Any = nullcontext(None) if processes is None else ProcessPoolExecutor(processes)
    with pool as executor, progress_bar("Training models") as progress:
        audit = audit_privacy(
            learner,
            promises,
            people=people,
            fits=fits,
            false_alarm=false_alarm,
            executor=executor,
            progress=progress,
        )
    audited = audit.people()
    if figure is not None:
        from dpmarket.figures import draw_promises, new_figure, save

        canvas, (axes,) = new_figure()
        names = ("sampled, at least", "exact density", "recomputed spending")
        series = [(name, [row[k + 2] for row in audited]) for k, name in enumerate(names)]
        draw_promises(axes, [row[1] for row in audited], series)  # type: ignore[arg-type]
        save(canvas, figure, overwrite=force)
    if not as_json:
        print_table(
            "Audited people",
            ["person", "promised", "sampled, at least", "exact density", "recomputed spending"],
            [
                [str(row[0]), *(number(value) if value is not None else "" for value in row[1:])]
                for row in audited
            ],
        )
    _tell("Privacy: is a promise broken?", audit, as_json, figure)


def _participation(
    decided: Path, costs: Path, id_column: str, cost_column: str, minor_units: int | None
) -> ParticipationAudit:
    """Match costs to sellers by id, and audit an outcome or a quotes file."""
    from dpmarket.audit import audit_paid_amounts, audit_participation
    from dpmarket.campaign import read_quotes
    from dpmarket.campaign.ids import tidy_ids
    from dpmarket.errors import FileProblem
    from dpmarket.files import column_names, number_column, read_table
    from dpmarket.mechanisms import read_outcome

    table = read_table(costs, [id_column, cost_column], texts=[id_column])
    names = tidy_ids(table, id_column).get_column(id_column).to_list()
    own = dict(zip(names, number_column(table, cost_column, costs), strict=True))
    ending = decided.suffix.lower()
    if ending == ".csv" or (ending == ".parquet" and "payment_minor_units" in column_names(decided)):
        quotes = read_quotes(decided, id_column)
        if minor_units not in (None, quotes.scale):
            raise FileProblem(
                f"expected {decided} and --minor-units to say the same number of minor units, found "
                f"{quotes.scale} and {minor_units}."
            )
        ordered = _in_order(own, quotes.seller_ids, table.height, costs)
        return audit_paid_amounts(quotes.epsilons, quotes.amounts, ordered, quotes.scale)
    outcome = read_outcome(decided)
    ordered = _in_order(own, [str(name) for name in outcome.seller_ids.tolist()], table.height, costs)
    return audit_participation(outcome, ordered, minor_units or 100)


def _in_order(own: dict[str, float], ids: list[str], rows: int, source: Path) -> list[float]:
    from dpmarket.errors import FileProblem

    missing = sum(name not in own for name in ids)
    if missing or len(own) != rows:
        raise FileProblem(
            f"expected one cost for every seller in {source}, found {missing} sellers without one and "
            f"{rows - len(own)} repeated."
        )
    return [own[name] for name in ids]


def _tell(title: str, audit: Audit, as_json: bool, figure: Path | None) -> None:
    """Print the verdict and its evidence; a failed audit is exit code 1."""
    from dpmarket.cli.render import print_table
    from dpmarket.files import to_json

    if as_json:
        typer.echo(to_json(audit.to_dict()), nl=False)
    else:
        note = None if figure is None else f"The figure is in {figure}."
        print_table(title, ["", ""], audit.summary(), note)
    if not audit.passed:
        raise typer.Exit(1)
