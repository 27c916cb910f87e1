"""``dpmarket menu``: what sellers who arrive one by one may choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    ForceFlag,
    JsonFlag,
    MaxMeanEpsilonOption,
    WeightCapOption,
    read_distribution,
)


def menu(
    rules: Annotated[
        Path | None,
        typer.Option("--rules", "-m", help="A rules file: its own menu, in place of the options below."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP),
    ] = None,
    payment_weight: Annotated[
        float | None,
        typer.Option(help="Expected squared error that a unit of money must save: higher buys less."),
    ] = None,
    sellers: Annotated[int | None, typer.Option(help="How many sellers are expected.")] = None,
    features: Annotated[int, typer.Option(help="Number of coefficients of the model that is trained.")] = 10,
    max_epsilon: Annotated[float, typer.Option(help="Nobody sells more than this epsilon.")] = 10.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    group: Annotated[str | None, typer.Option(help="Whose menu, where the rules have groups.")] = None,
    points: Annotated[int, typer.Option(help="How many choices to show, besides selling nothing.")] = 10,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the menu to this .svg, .png or .pdf file.")
    ] = None,
    as_json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Show the choices of epsilon and payment for sellers who arrive one by one.

    Picking one's best choice is reporting one's true cost.
    """
    from dpmarket.campaign.rules.pricing import online_schedules
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.cli.render import number, print_table
    from dpmarket.files import to_json
    from dpmarket.mechanisms.epsilon_cost import EpsilonCost
    from dpmarket.mechanisms.objective import Objective
    from dpmarket.mechanisms.price_schedule import population_schedule

    delta = 0.0
    if rules is not None:
        if (costs, payment_weight, sellers) != (None, None, None):
            raise typer.BadParameter("leave out --costs, --payment-weight and --sellers: the file says it.")
        found = read_rules(rules)
        schedules, delta = online_schedules(found)[0], found.delta
        if group is None and found.groups:
            raise typer.BadParameter(f"name --group: one of {', '.join(found.groups)}.")
        if group is not None and group not in found.groups:
            raise typer.BadParameter(f"the rules have no group {group!r}.")
        schedule = schedules[list(found.groups).index(group) if group is not None else 0]
    elif costs is None or payment_weight is None or sellers is None:
        raise typer.BadParameter("name a rules file, or --costs, --payment-weight and --sellers.")
    else:
        objective = Objective.for_model(
            features, payment_weight, weight_cap=weight_cap, max_mean_epsilon=max_mean_epsilon
        )
        table = EpsilonCost.identity(max_epsilon)
        schedule = population_schedule(read_distribution(costs), objective, sellers, epsilon_cost=table)
    offers = [column.tolist() for column in schedule.menu(points)]
    if figure is not None:
        from dpmarket.report.figures import new_figure, save

        canvas, (left, right) = new_figure(2)
        dense_costs, epsilons, payments = schedule.menu(400)
        left.plot(epsilons, payments)
        left.set(xlabel="epsilon", ylabel="payment")
        right.plot(dense_costs, epsilons)
        right.set(xlabel="cost", ylabel="epsilon chosen")
        save(canvas, figure, overwrite=force)
    if as_json:
        rows = [{"cost": c, "epsilon": e, "payment": t} for c, e, t in zip(*offers, strict=True)]
        typer.echo(to_json({"schedule": schedule.to_dict(), "menu": rows}), nl=False)
        return
    notes = [] if figure is None else [f"The menu is drawn in {figure}."]
    if delta:
        notes.append(f"Each epsilon comes with a delta of {delta:g}.")
    print_table(
        "What sellers may choose from",
        ["best for cost", "epsilon", "payment"],
        [[number(value) for value in row] for row in zip(*offers, strict=True)],
        "\n".join([f"Above a cost of {schedule.reserve_price:.4g} nothing is bought.", *notes]),
    )
