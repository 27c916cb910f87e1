"""``dpmarket sweep``: what each of several budgets would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    BudgetsOption,
    CostsOption,
    DataName,
    FeaturesOption,
    JsonFlag,
    KeepOption,
    MaxMeanEpsilonOption,
    OwnConcentrationOption,
    OwnNoiseOption,
    ProcessesOption,
    RadiusOption,
    SeedOption,
    WeightCapOption,
    numbers,
    read_distribution,
    trial_on,
)

if TYPE_CHECKING:
    from dpmarket.planning import SweepRow


def sweep(
    costs: CostsOption,
    budgets: BudgetsOption,
    sellers: Annotated[
        int | None, typer.Option(help="How many sellers will report; with --data: one per training record.")
    ] = None,
    data: Annotated[
        DataName | None, typer.Option(help="Public data to train and test models on; needed for an error.")
    ] = None,
    radius: RadiusOption = 1.0,
    features: FeaturesOption = None,
    concentration: OwnConcentrationOption = None,
    noise: OwnNoiseOption = None,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    repetitions: Annotated[int, typer.Option(help="How often costs and noise are drawn per row.")] = 20,
    seed: SeedOption = 0,
    processes: ProcessesOption = 1,
    keep_in: KeepOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what each of several budgets would buy: promises, payments and errors in simulated markets."""
    from dpmarket.cli.render import number, print_table, progress_bar
    from dpmarket.errors import InvalidInput
    from dpmarket.files import to_json
    from dpmarket.planning import at_suggested_prices, estimator_error
    from dpmarket.planning import sweep as compute

    trial = None if data is None else trial_on(data, radius)
    if sellers is None:
        if trial is None:
            raise InvalidInput("expected --sellers or --data.")
        sellers = trial.sellers
    dist, money = read_distribution(costs), numbers("budgets", budgets)
    if trial is not None:
        features = trial.data.n_features
    model = None if features is None else estimator_error(features)
    with progress_bar("Sweeping") as progress:
        planned = at_suggested_prices(
            dist,
            model,
            sellers,
            money,
            concentration=concentration,
            noise=noise,
            weight_cap=weight_cap,
            max_mean_epsilon=max_mean_epsilon,
        )
        table = compute(
            dist,
            planned,
            sellers,
            trial,
            repetitions=repetitions,
            seed=seed,
            processes=processes,
            keep_in=keep_in,
            progress=progress,
            error_model=model,
        )
    if as_json:
        typer.echo(to_json(table.to_dict()), nl=False)
        return
    columns = ["budget", "weight", "paid", "bought", "mean eps", "95% eps"]
    columns += ["risk"] if model is None else ["expected", "noise"]
    rows = [
        [
            number(budget),
            number(row.objective.payment_weight),
            number(row.payment),
            f"{row.share_bought:.1%}",
            number(row.mean_epsilon),
            number(row.epsilon_quantiles[-1]),
            *_error_cells(row),
            *([] if row.test_error is None else [f"{row.test_error:.4f}"]),
        ]
        for budget, row in zip(money, table.rows, strict=True)
    ]
    print_table(
        f"What {table.sellers:,} sellers give for each budget",
        columns if trial is None else [*columns, "error"],
        rows,
        f"Means over {repetitions} simulated markets; weight: payment weight; bought: share of sellers "
        "bought from; eps: epsilon over all sellers, its mean and 95% quantile; "
        + ("risk: excess risk." if model is None else "expected: expected error; noise: the share of it."),
    )


def _error_cells(row: SweepRow) -> list[str]:
    from dpmarket.cli.render import number

    if row.expected_error is None:
        return [number(row.excess_risk)]
    return [number(row.expected_error), f"{row.noise_share:.0%}"]
