"""``dpmarket audit``: search for profitable misreports, payments below cost, exceeded privacy budgets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from dpmarket.audit import Audit

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
    _print("Truthfulness: does a misreport gain?", audit, as_json, None)


@app.command(epilog="Example: dpmarket audit privacy 0.5 1 4 --fits 4000")
def privacy(
    epsilons: Annotated[
        list[float],
        typer.Argument(
            help="The privacy budget of each person, at least three; or one, which is then audited among "
            "people whose budgets are so large that they hide nothing of it."
        ),
    ],
    l2: Annotated[
        float | None, typer.Option(help="The model's ridge penalty; left out: what the estimator suggests.")
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
        float, typer.Option(help="Probability, at most, of calling a respected budget exceeded.")
    ] = 1e-3,
    figure: FigureOption = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Search for privacy budgets that the estimator exceeds, in three ways; exit code 1 if one is found.

    Sampled models show a lower bound on a person's privacy loss, the exact density shows the worst case
    found, and everybody's spending is recomputed by other code.
    """
    from dpmarket.audit import audit_privacy, epsilons_around
    from dpmarket.cli.render import number, print_table, progress_bar
    from dpmarket.learning import PrivateLogisticRegression

    learner = PrivateLogisticRegression(l2=l2, fit_intercept=intercept, classes=(0, 1))
    budgets, people = (epsilons_around(epsilons[0]), [0]) if len(epsilons) == 1 else (epsilons, None)
    with progress_bar("Training models") as progress:
        audit = audit_privacy(
            learner, budgets, people=people, fits=fits, false_alarm=false_alarm, progress=progress
        )
    rows, names = audit.people(), ["sampled, at least", "exact density", "recomputed spending"]
    if figure is not None:
        from dpmarket.report.figures import draw_epsilons, new_figure, save

        canvas, (axes,) = new_figure()
        series = [(name, [row[k + 2] for row in rows]) for k, name in enumerate(names)]
        draw_epsilons(axes, [row[1] for row in rows], series)  # type: ignore[arg-type]
        save(canvas, figure, overwrite=force)
    if not as_json:
        cells = [[str(row[0]), *("" if x is None else number(x) for x in row[1:])] for row in rows]
        print_table("Audited people", ["person", "epsilon", *names], cells)
    _print("Privacy: is a privacy budget exceeded?", audit, as_json, figure)


@app.command(epilog="Example: dpmarket audit participation quotes.csv reports.csv")
def participation(
    quotes: Annotated[Path, typer.Argument(help="The quotes that 'dpmarket quote' wrote.")],
    costs: Annotated[Path, typer.Argument(help="CSV or Parquet file with seller ids and true costs.")],
    id_column: Annotated[str, typer.Option(help="The column with the sellers' ids.")] = "seller",
    cost_column: Annotated[str, typer.Option(help="The column with the costs.")] = "cost",
    rules: RulesOption = RULES,
    as_json: JsonFlag = False,
) -> None:
    """Check that every seller is paid at least the cost of what they sell; exit code 1 otherwise.

    The rules file says how epsilon costs a seller, costs.shape. No cost is shown.
    """
    from dpmarket.audit import audit_participation
    from dpmarket.campaign.file_reports import normal_ids
    from dpmarket.campaign.rules.pricing import terms_of
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.errors import FileProblem
    from dpmarket.files import number_column, read_table

    table = read_table(costs, [id_column, cost_column], [id_column], [cost_column])
    names = normal_ids(table, id_column)[0].to_list()
    own = dict(zip(names, number_column(table, cost_column, costs), strict=True))
    figures = ["epsilon", "payment_minor_units"]
    quoted = read_table(quotes, [id_column, *figures], [id_column], figures)
    ids = normal_ids(quoted, id_column)[0].to_list()
    missing = sum(name not in own for name in ids)
    if missing or len(own) != table.height:
        raise FileProblem(
            f"expected one cost for every seller in {costs}, found {missing} sellers without one and "
            f"{table.height - len(own)} repeated."
        )
    found = read_rules(rules)
    unit = 1.0 / found.money.minor_units
    audit = audit_participation(
        number_column(quoted, "epsilon", quotes),
        number_column(quoted, "payment_minor_units", quotes) * unit,
        [own[name] for name in ids],
        epsilon_cost=terms_of(found).epsilon_cost,
        minor_unit=unit,
    )
    _print("Participation: was a seller paid less than the cost?", audit, as_json, None)


def _print(title: str, audit: Audit, as_json: bool, figure: Path | None) -> None:
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
