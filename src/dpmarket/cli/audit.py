"""``dpmarket audit``: look for profitable misreports, for sellers who lost, for broken promises."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmarket.cli.arguments import (
    RULES,
    CostsOption,
    ForceFlag,
    JsonFlag,
    MaxMeanEpsilonOption,
    PaymentWeightOption,
    RulesOption,
    WeightCapOption,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.audit import Audit, ParticipationAudit

app = typer.Typer(help="Check truthfulness, participation and privacy as an outsider would.")
FigureOption = Annotated[
    Path | None, typer.Option("--figure", help="Draw the evidence to this .svg, .png or .pdf file.")
]


class Shape(StrEnum):
    """How epsilon costs a seller."""

    linear = "linear"
    quadratic = "quadratic"


class MechanismName(StrEnum):
    """The mechanisms whose sellers report costs."""

    offline = "offline"
    online = "online"


@app.command(
    epilog='Example: dpmarket audit truthfulness --costs "uniform(1, 5)" --features 10 --payment-weight 0.01'
)
def truthfulness(
    costs: CostsOption,
    payment_weight: PaymentWeightOption,
    features: Annotated[int, typer.Option(help="Columns of a record, without its label.")],
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    max_epsilon: Annotated[float | None, typer.Option(help="Nobody sells a larger epsilon.")] = None,
    shape: Annotated[
        Shape, typer.Option(help="Cost of epsilon to a seller: linear (the paper) or quadratic.")
    ] = Shape.linear,
    mechanism: Annotated[
        MechanismName,
        typer.Option(help="All sellers at once (offline), or one by one at public prices (online)."),
    ] = MechanismName.offline,
    sellers: Annotated[int, typer.Option(help="Sellers in each simulated market.")] = 30,
    markets: Annotated[int, typer.Option(help="How many markets to simulate.")] = 2,
    misreports: Annotated[int, typer.Option(help="How many misreports each seller tries.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of the simulated costs.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Search simulated markets for a misreport that gains; exit code 1 if one is found."""
    import numpy as np

    from dpmarket.audit import audit_truthfulness
    from dpmarket.cli.render import progress_bar
    from dpmarket.mechanisms.epsilon_cost import EpsilonCost
    from dpmarket.mechanisms.exact import OfflineMechanism
    from dpmarket.mechanisms.objective import Objective
    from dpmarket.mechanisms.price_schedule import population_schedule

    dist = read_distribution(costs)
    objective = Objective.for_model(
        features + 1, payment_weight, weight_cap=weight_cap, max_mean_epsilon=max_mean_epsilon
    )
    tables = EpsilonCost.identity(max_epsilon, shape.value)
    audited = (
        OfflineMechanism(dist, objective, epsilon_cost=tables)
        if mechanism is MechanismName.offline
        else population_schedule(dist, objective, sellers, epsilon_cost=tables)
    )
    with progress_bar("Trying misreports") as progress:
        audit = audit_truthfulness(
            audited, dist, sellers, markets, misreports, np.random.default_rng(seed), epsilon_cost=tables,
            progress=progress,
        )  # fmt: skip
    _tell("Truthfulness: does a misreport gain?", audit, as_json, None)


@app.command(epilog="Example: dpmarket audit participation quotes.csv reports.csv")
def participation(
    quotes: Annotated[Path, typer.Argument(help="The quotes that 'dpmarket quote' wrote.")],
    costs: Annotated[Path, typer.Argument(help="CSV or Parquet file with seller ids and true costs.")],
    id_column: Annotated[str, typer.Option(help="The column with the sellers' ids.")] = "seller",
    cost_column: Annotated[str, typer.Option(help="The column with the costs.")] = "cost",
    rules: RulesOption = RULES,
    as_json: JsonFlag = False,
) -> None:
    """Check that everybody is paid at least what they sell costs them; exit code 1 if anybody is not.

    The rules file says how epsilon costs a seller, costs.shape. No cost is shown.
    """
    audit = _participation(quotes, costs, id_column, cost_column, rules)
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
    path: Path, costs: Path, id_column: str, cost_column: str, rules: Path
) -> ParticipationAudit:
    """Match costs to sellers by id, and audit a quotes file."""
    from dpmarket.audit import audit_paid_amounts
    from dpmarket.campaign.rules.pricing import terms_of
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.core.file_reports import normal_ids
    from dpmarket.files import number_column, read_table

    table = read_table(costs, [id_column, cost_column], texts=[id_column])
    names = normal_ids(table, id_column)[0].to_list()
    own = dict(zip(names, number_column(table, cost_column, costs), strict=True))
    quotes = read_table(path, [id_column, "epsilon", "payment_minor_units"], texts=[id_column])
    ordered = _in_order(own, normal_ids(quotes, id_column)[0].to_list(), table.height, costs)
    epsilons = number_column(quotes, "epsilon", path)
    amounts = number_column(quotes, "payment_minor_units", path).astype("int64")
    found = read_rules(rules)
    units, tables = found.money.minor_units, terms_of(found).epsilon_cost
    return audit_paid_amounts(epsilons, amounts, ordered, units, tables)


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
