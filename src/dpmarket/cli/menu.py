"""``dpmarket menu``: what sellers who arrive one by one may choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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


def menu(
    costs: CostsOption,
    payment_weight: PaymentWeightOption,
    sellers: Annotated[int, typer.Option(help="How many sellers are expected.")],
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
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
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import number, print_table
    from dpmarket.files import to_json
    from dpmarket.mechanisms import OnlineMechanism, population_curve

    objective = BuyerObjective(concentration, noise, payment_weight, weight_cap, max_mean_epsilon)
    dist = read_distribution(costs)
    market = OnlineMechanism(dist, population_curve(dist, objective, sellers))
    shown = market.menu(points)
    if figure is not None:
        from dpmarket.figures import draw_choices, draw_menu, new_figure, save

        canvas, axes = new_figure(2)
        dense = market.menu(400)
        draw_menu(axes[0], dense)
        draw_choices(axes[1], dense)
        save(canvas, figure, overwrite=force)
    choices = zip(shown.epsilons.tolist(), shown.payments.tolist(), shown.costs.tolist(), strict=True)
    if as_json:
        rows = [{"epsilon": e, "payment": t, "cost": c} for e, t, c in choices]
        typer.echo(to_json({"curve": market.curve.to_dict(), "menu": rows}), nl=False)
        return
    print_table(
        f"What {sellers:,} expected sellers may choose from",
        ["epsilon", "payment", "best for cost"],
        [[number(e), number(t), number(c) + (" or more" if e == 0.0 else "")] for e, t, c in choices],
        None if figure is None else f"The menu is drawn in {figure}.",
    )
