"""``dpmarket menu``: what sellers who arrive one by one may choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    MaxMeanEpsilonOption,
    Spoken,
    WeightCapOption,
    command,
    read_distribution,
)


@command
def menu(
    given: Spoken, *, rules: Annotated[Path | None, typer.Option("--rules", "-m")] = None,
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP),
    ] = None,
    payment_weight: float | None = None, sellers: int | None = None, features: int = 10,
    max_epsilon: float = 10.0, weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None, group: str | None = None, points: int = 10,
) -> None:  # fmt: skip
    """Show the choices of epsilon and payment for sellers who arrive one by one.

    Picking one's best choice is reporting one's true cost.

    :param rules: A rules file: its own menu, in place of the options below.
    :param payment_weight: Expected squared error that a unit of money must save: higher buys less.
    :param sellers: How many sellers are expected.
    :param features: Number of coefficients of the model that is trained.
    :param max_epsilon: Nobody sells more than this epsilon.
    :param group: Whose menu, where the rules have groups.
    :param points: How many choices to show, besides selling nothing.
    """
    from dpmarket.campaign.rules.pricing import online_schedules
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.cli.render import number
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
    notes = [f"Above a cost of {schedule.reserve_price:.4g} nothing is bought."]
    if delta:
        notes.append(f"Each epsilon comes with a delta of {delta:g}.")
    choices = list(zip(*offers, strict=True))
    rows = [[number(value) for value in row] for row in choices]
    menu = [{"cost": cost, "epsilon": epsilon, "payment": payment} for cost, epsilon, payment in choices]
    given.voice().tell(
        "What sellers may choose from",
        rows,
        {"schedule": schedule.to_dict(), "menu": menu},
        "\n".join(notes),
        ["best for cost", "epsilon", "payment"],
    )
