"""``dpmarket plan``: from a budget, a target or both to a payment weight, before anybody reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    ConcentrationOption,
    CostsOption,
    JsonFlag,
    MaxMeanEpsilonOption,
    NoiseOption,
    SellersOption,
    WeightCapOption,
    read_distribution,
    whole_numbers,
)

if TYPE_CHECKING:
    from dpmarket.planning import Plan

app = typer.Typer(help="What a budget buys: plan a purchase from the cost distribution, before reports.")

TargetOption = Annotated[
    float,
    typer.Option(
        help="Excess risk to reach: concentration times the norm of the weights, plus noise / noise rate."
    ),
]
BudgetOption = Annotated[float, typer.Option(help="Money to spend on all sellers together.")]


@app.command(epilog='Example: dpmarket plan budget --costs "uniform(1, 5)" --sellers 1000 --budget 50')
def budget(
    costs: CostsOption,
    sellers: SellersOption,
    budget: BudgetOption,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Probability with which payments stay within the budget; left out: they meet it on average."
        ),
    ] = None,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the payment weight under which payments meet a budget."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import progress_bar
    from dpmarket.planning import plan_payment_weight

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with progress_bar("Simulating campaigns") as progress:
        plan = plan_payment_weight(
            read_distribution(costs), objective, sellers, budget, confidence, progress=progress
        )
    _show(plan, "A plan for this budget", as_json)


@app.command(epilog='Example: dpmarket plan target --costs "uniform(1, 5)" --sellers 1000 --target 0.2')
def target(
    costs: CostsOption,
    sellers: SellersOption,
    target: TargetOption,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the cheapest plan that reaches a target excess risk."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy
    from dpmarket.planning import plan_target

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        plan = plan_target(read_distribution(costs), objective, sellers, target)
    _show(plan, "The cheapest plan for this target", as_json)


@app.command(epilog='Example: dpmarket plan sellers --costs "uniform(1, 5)" --budget 10 --target 0.2')
def sellers(
    costs: CostsOption,
    budget: BudgetOption,
    target: TargetOption,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find how many sellers a budget needs for a target excess risk."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy
    from dpmarket.planning import plan_sellers

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        plan = plan_sellers(read_distribution(costs), objective, budget, target)
    _show(plan, "The fewest sellers for this budget and target", as_json)


@app.command(epilog='Example: dpmarket plan table --costs "uniform(1, 5)" --target 0.2')
def table(
    costs: CostsOption,
    target: TargetOption,
    sellers: Annotated[
        str, typer.Option(help="Numbers of sellers, with commas between them.")
    ] = "100,1000,10000,100000,1000000",
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the budget that a target excess risk takes, for several numbers of sellers."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy, number, print_table
    from dpmarket.files import to_json
    from dpmarket.planning import budget_for_loss

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        found = budget_for_loss(
            read_distribution(costs), objective, target, whole_numbers("sellers", sellers)
        )
    if as_json:
        typer.echo(to_json(found.to_dict()), nl=False)
        return
    rows = [
        [f"{count:,}", "out of reach", ""]
        if plan is None
        else [f"{count:,}", number(plan.expected_payment), f"{plan.share_bought:.2%}"]
        for count, plan in zip(found.sellers, found.plans, strict=True)
    ]
    print_table(
        f"What an excess risk of {number(target)} costs",
        ["sellers", "expected payments", "bought from"],
        rows,
        f"With ever more sellers it costs {number(found.limit)}.",
    )


def _show(plan: Plan, title: str, as_json: bool) -> None:
    from dpmarket.cli.render import print_table
    from dpmarket.files import to_json

    if as_json:
        typer.echo(to_json(plan.to_dict()), nl=False)
        return
    defaults = {"concentration": 1.0, "noise": 1.0, "weight_cap": None, "max_mean_epsilon": None}
    chosen = {name: getattr(plan.objective, name) for name in ("payment_weight", *defaults)}
    settings = (f"--set objective.{n}={v:.12g}" for n, v in chosen.items() if v != defaults.get(n))
    note = f"Announce it before anybody reports: dpmarket init {' '.join(settings)}"
    print_table(title, ["", ""], plan.summary(), note)
