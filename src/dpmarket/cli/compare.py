"""``dpmarket compare``: this buyer and simple ones, on the same sellers, records and budgets."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import (
    BudgetsOption,
    ConcentrationOption,
    CostsOption,
    DataName,
    JsonFlag,
    KeepOption,
    NoiseOption,
    ProcessesOption,
    RadiusOption,
    SeedOption,
    numbers,
    read_distribution,
    trial_on,
)


def compare(
    costs: CostsOption,
    budgets: BudgetsOption,
    payment_weight: Annotated[
        float,
        typer.Option(help="Error units per unit of money: overall error is test error + this * payments."),
    ],
    data: Annotated[
        DataName, typer.Option(help="Public data to train and test on.")
    ] = DataName.breast_cancer,
    radius: RadiusOption = 1.0,
    concentration: ConcentrationOption = 0.01,
    noise: NoiseOption = 1.0,
    repetitions: Annotated[int, typer.Option(help="How often costs, split and noise are drawn.")] = 100,
    seed: SeedOption = 0,
    processes: ProcessesOption = 1,
    keep_in: KeepOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare this buyer with simple ones that spend the same: test error, payments, overall error, epsilons.

    All of them meet the same simulated sellers, records and chance.
    """
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import number, print_table, progress_bar
    from dpmarket.files import to_json
    from dpmarket.planning import compare as compute
    from dpmarket.planning import standard_buyers

    trial = trial_on(data, radius)
    dist = read_distribution(costs)
    buyers = standard_buyers(dist, BuyerObjective(concentration, noise, 1.0), trial.sellers)
    money = numbers("budgets", budgets)
    with progress_bar("Comparing") as progress:
        table = compute(
            dist, trial, buyers, money, payment_weight, repetitions, seed, processes, keep_in, progress
        )
    if as_json:
        typer.echo(to_json(table.to_dict()), nl=False)
        return
    rows = [
        [
            s.buyer,
            number(s.budget),
            number(s.payment),
            f"{s.error:.4f}",
            f"{s.overall:.4f}",
            f"{s.behind:+.4f} ± {s.behind_error:.4f}" if k % len(buyers) else "",
            number(s.epsilon_quantiles[1], 3),
        ]
        for k, s in enumerate(table.standings)
    ]
    columns = ["buyer", "budget", "paid", "error", "overall", "behind", "eps"]
    print_table(
        f"Buyers on the same {table.sellers:,} sellers, records and chance",
        columns,
        rows,
        "overall: test error plus payment weight times what was paid; behind: overall error less that of "
        "dpmarket, repetition by repetition, with its standard error; eps: median "
        "epsilon of those bought from.",
    )
