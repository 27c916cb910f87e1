"""``dpmarket menu``: what sellers who arrive one by one may choose from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    ConcentrationOption,
    ForceFlag,
    JsonFlag,
    MaxMeanEpsilonOption,
    NoiseOption,
    WeightCapOption,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.mechanisms import Curve, OnlineGaussianMechanism


def menu(
    market: Annotated[
        Path | None,
        typer.Option("--market", "-m", help="A market file: its own menu, in place of the options below."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option("--costs", help="How costs per unit of epsilon are distributed. " + DISTRIBUTION_HELP),
    ] = None,
    payment_weight: Annotated[
        float | None,
        typer.Option(help="Error units per unit of money (the paper's gamma): higher buys less."),
    ] = None,
    sellers: Annotated[int | None, typer.Option(help="How many sellers are expected.")] = None,
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
    from dpmarket.campaign import read_market
    from dpmarket.campaign.deciding import online_curve
    from dpmarket.cli.render import number, print_table
    from dpmarket.files import to_json
    from dpmarket.mechanisms import population_curve
    from dpmarket.mechanisms.quotes import menu_of

    if market is not None:
        if (costs, payment_weight, sellers) != (None, None, None):
            raise typer.BadParameter("leave out --costs, --payment-weight and --sellers: the file says it.")
        curve, _ = online_curve(read_market(market))
    elif costs is None or payment_weight is None or sellers is None:
        raise typer.BadParameter("name a market file, or --costs, --payment-weight and --sellers.")
    else:
        objective = BuyerObjective(concentration, noise, payment_weight, weight_cap, max_mean_epsilon)
        curve = population_curve(read_distribution(costs), objective, sellers)
    shown = menu_of(curve, points)
    if figure is not None:
        from dpmarket.figures import draw_choices, draw_menu, new_figure, save

        canvas, axes = new_figure(2)
        dense = menu_of(curve, 400)
        draw_menu(axes[0], dense)
        draw_choices(axes[1], dense)
        save(canvas, figure, overwrite=force)
    choices = zip(shown.epsilons.tolist(), shown.payments.tolist(), shown.costs.tolist(), strict=True)
    if as_json:
        rows = [{"epsilon": e, "payment": t, "cost": c} for e, t, c in choices]
        typer.echo(to_json({"curve": curve.to_dict(), "menu": rows}), nl=False)
        return
    print_table(
        f"What {curve.expected_sellers:,} expected sellers may choose from",
        ["epsilon", "payment", "best for cost"],
        [[number(e), number(t), number(c) + (" or more" if e == 0.0 else "")] for e, t, c in choices],
        _note(curve, figure),
    )


def _note(curve: Curve | OnlineGaussianMechanism, figure: Path | None) -> str | None:
    lines = [] if figure is None else [f"The menu is drawn in {figure}."]
    delta = getattr(curve.objective, "delta", 0.0)
    if delta:
        lines.append(f"Each epsilon comes with a delta of {delta:g}.")
    return "\n".join(lines) or None
