"""``dpmarket plan``: what a budget buys, or what a target costs, before anybody reports."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    CostsOption,
    JsonFlag,
    MaxMeanEpsilonOption,
    SellersOption,
    WeightCapOption,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.mechanisms.objective import Objective
    from dpmarket.mechanisms.plan import Plan, Prospect


class Shape(StrEnum):
    """How epsilon costs a seller."""

    linear = "linear"
    quadratic = "quadratic"


def plan(
    costs: CostsOption,
    sellers: SellersOption,
    features: Annotated[int, typer.Option(help="Coefficients of the model, the constant's included.")],
    budget: Annotated[float | None, typer.Option(help="Money for all sellers together.")] = None,
    target: Annotated[
        float | None, typer.Option(help="Expected error to reach, instead of a budget; see the table.")
    ] = None,
    probability: Annotated[
        float | None,
        typer.Option(help="With which payments stay within the budget; left out: they meet it on average."),
    ] = None,
    shape: Annotated[
        Shape,
        typer.Option(help="Cost of epsilon to a seller: linear (the paper) or quadratic (zCDP)."),
    ] = Shape.linear,
    max_epsilon: Annotated[
        float | None, typer.Option(help="Nobody sells more; needed for quadratic costs and a delta.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of every guarantee, for training by noisy descent.")
    ] = None,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Plan a purchase: payment weight, expected error, who is bought from, and what simpler rules would give.

    The expected error is the squared error of the mean gradient, in units of its largest possible length.
    """
    from dpmarket.cli.render import busy
    from dpmarket.files import to_json
    from dpmarket.mechanisms.epsilon_cost import EpsilonCost
    from dpmarket.mechanisms.plan import budget_for_error
    from dpmarket.mechanisms.plan import plan as compute

    if (budget is None) == (target is None):
        raise typer.BadParameter("say either --budget or --target.")
    if max_epsilon is None and (delta is not None or shape is Shape.quadratic):
        raise typer.BadParameter("say --max-epsilon: the table of a delta or of quadratic costs must end.")
    dist = read_distribution(costs)
    objective = _objective(features, delta, weight_cap, max_mean_epsilon)
    fewer = _objective(max(features // 2, 1), delta, weight_cap, max_mean_epsilon)
    if delta is None:
        tables = EpsilonCost.identity(max_epsilon, shape.value)
    else:
        tables = EpsilonCost.of_delta(delta, max_epsilon or 0.0, shape.value)
    with busy("Planning"):
        if target is not None:
            budget = budget_for_error(dist, objective, sellers, target, epsilon_cost=tables)
        assert budget is not None
        found = compute(
            dist, objective, sellers, budget, probability=probability, epsilon_cost=tables,
            fewer_features=fewer,
        )  # fmt: skip
    settings = {
        "costs.distribution": costs,
        "costs.shape": None if shape is Shape.linear else shape.value,
        "sellers.expected": sellers,
        "objective.budget": round(budget, 2),
        "objective.weight_cap": weight_cap,
        "objective.max_mean_epsilon": max_mean_epsilon,
        "objective.max_epsilon": max_epsilon,
        "objective.delta": delta,
        "objective.confidence": probability,
    }
    command = _init_command(settings)
    if as_json:
        typer.echo(to_json({**found.to_dict(), "init": command}), nl=False)
        return
    _print(found, command)


def _objective(features: int, delta: float | None, cap: float | None, mean: float | None) -> Objective:
    from dpmarket.mechanisms.objective import Objective

    make = Objective.for_model if delta is None else Objective.for_descent
    return make(features, weight_cap=cap, max_mean_epsilon=mean)


def _init_command(settings: Mapping[str, object]) -> str:
    """Return the command that writes a market file with what was planned, the costs included."""
    said = [
        f"--set {shlex.quote(f'{name}={value}')}" for name, value in settings.items() if value is not None
    ]
    return " ".join(["dpmarket init", *said])


def _print(plan: Plan, command: str) -> None:
    from dpmarket.cli.render import number, print_table

    found = plan.prospect
    print_table(
        f"A plan for {number(plan.budget)} and {plan.sellers:,} sellers",
        ["", ""],
        [
            ("expected payments", number(found.expected_payment)),
            ("expected error", f"{number(found.error)}, of this noise {found.noise_error / found.error:.0%}"),
            ("sellers bought from", f"{found.share_bought:.1%}"),
            ("mean epsilon, over all", number(found.mean_epsilon)),
            (
                "largest epsilon and payment",
                f"{number(found.largest_epsilon)} for {number(found.largest_payment)}",
            ),
            ("payment weight", number(plan.payment_weight)),
            *((f"with {name}", f"{factor - 1.0:+.0%} error") for name, factor in plan.changes),
        ],
    )

    def row(rule: Prospect) -> list[str]:
        more = rule.error / found.error - 1.0
        return [rule.name, f"{rule.share_bought:.1%}", number(rule.largest_epsilon), f"{more:+.0%}"]

    print_table(
        "What personal prices buy: the same money by simpler rules",
        ["rule", "bought from", "largest epsilon", "error"],
        [row(rule) for rule in (found, *plan.alternatives)],
        f"Announce it before anybody reports:\n{command}",
    )
