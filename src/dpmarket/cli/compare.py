"""``dpmarket compare``: this buyer and simple ones, on the same sellers, records and budgets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    DataName,
    JsonFlag,
    OwnConcentrationOption,
    OwnNoiseOption,
    ProcessesOption,
    RadiusOption,
    SeedOption,
    numbers,
    read_distribution,
    trial_on,
)

if TYPE_CHECKING:
    from dpmarket.planning import Comparison


def compare(
    costs: Annotated[
        list[str] | None,
        typer.Option(
            "--costs",
            help="How costs per unit of epsilon are distributed, several times for several tables; left out: "
            "narrow, 'uniform(1, 5)', and wide, 'uniform(0.1, 5)'. " + DISTRIBUTION_HELP,
        ),
    ] = None,
    budgets: Annotated[
        str, typer.Option(help="Budgets: expected payments to all sellers, with commas between them.")
    ] = "100,600,3000",
    data: Annotated[
        list[DataName] | None,
        typer.Option("--data", help="Public data to train and test on, several times; left out: all."),
    ] = None,
    payment_weight: Annotated[
        float,
        typer.Option(help="Error units per unit of money: overall error is test error + this * payments."),
    ] = 0.0,
    radius: RadiusOption = 1.0,
    concentration: OwnConcentrationOption = None,
    noise: OwnNoiseOption = None,
    repetitions: Annotated[int, typer.Option(help="How often costs, split and noise are drawn.")] = 40,
    seed: SeedOption = 0,
    processes: ProcessesOption = 1,
    keep_in: Annotated[
        Path | None,
        typer.Option(
            "--keep-in", help="Keep finished rows in .json files in this folder, and go on after a stop."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare this buyer with simple ones that spend the same: test errors, log losses, payments, epsilons.

    All of them meet the same simulated sellers, records and chance, each at its own best setting by public
    facts.
    """
    from dpmarket.cli.render import progress_bar
    from dpmarket.files import to_json
    from dpmarket.planning import compare as compute
    from dpmarket.planning import standard_buyers

    if keep_in is not None:
        keep_in.mkdir(parents=True, exist_ok=True)
    formulas, money, tables = costs or ["uniform(1, 5)", "uniform(0.1, 5)"], numbers("budgets", budgets), []
    for name in data or list(DataName):
        trial = trial_on(name, radius)
        for k, formula in enumerate(formulas):
            dist = read_distribution(formula)
            buyers = standard_buyers(
                dist, trial.error_model, trial.sellers, concentration=concentration, noise=noise
            )
            kept = None if keep_in is None else keep_in / f"{name.value}-{k}.json"
            with progress_bar(f"Comparing on {name.value}, {formula}") as progress:
                table = compute(
                    dist,
                    trial,
                    buyers,
                    money,
                    payment_weight,
                    repetitions=repetitions,
                    seed=seed,
                    processes=processes,
                    keep_in=kept,
                    progress=progress,
                )
            tables.append({"data": name.value, "costs": formula, **table.to_dict()})
            if not as_json:
                _show(f"{name.value}, {table.sellers:,} sellers, costs {formula}", table, len(buyers))
    if as_json:
        typer.echo(to_json({"comparisons": tables}), nl=False)
        return
    typer.echo(
        "error: share of wrong predictions; log loss: of the probabilities; behind: log loss less that of "
        "dpmarket, repetition by repetition, with its standard error; eps: median epsilon of those bought "
        "from. posted price: one price for all; cheapest k: the cheapest, at the next one's price; same for "
        "all: one epsilon for everybody, paid as the dearest."
    )


def _show(title: str, table: Comparison, buyers: int) -> None:
    from dpmarket.cli.render import number, print_table

    weighed = table.payment_weight > 0.0
    rows = [
        [
            s.buyer,
            number(s.budget),
            number(s.payment),
            f"{s.error:.4f}",
            *([f"{s.overall:.4f}"] if weighed else []),
            f"{s.log_loss:.4f}",
            f"{s.log_loss_behind:+.4f} ± {s.log_loss_behind_error:.4f}" if k % buyers else "",
            number(s.epsilon_quantiles[1], 3),
        ]
        for k, s in enumerate(table.standings)
    ]
    overall = ["overall"] if weighed else []
    print_table(title, ["buyer", "budget", "paid", "error", *overall, "log loss", "behind", "eps"], rows)
