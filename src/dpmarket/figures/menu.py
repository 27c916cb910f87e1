"""Draw a menu: what is paid for how much epsilon, and which costs choose it."""

from __future__ import annotations

from matplotlib.axes import Axes

from dpmarket.figures.canvas import COLOURS, STYLES
from dpmarket.mechanisms import Menu


def draw_menu(axes: Axes, menu: Menu) -> None:
    """Draw payments against epsilons, with the ray of one cost per unit of epsilon as a guide.

    Parameters
    ----------
    axes
        Where to draw.
    menu
        What was offered; the ray is what its epsilons are worth to the lowest cost.
    """
    axes.plot(menu.epsilons, menu.payments, color=COLOURS[0], linestyle=STYLES[0], label="menu")
    lowest = float(menu.costs[-1])
    axes.plot(
        menu.epsilons,
        lowest * menu.epsilons,
        color=COLOURS[1],
        linestyle=STYLES[1],
        label=f"worth to cost {lowest:.3g}",
    )
    axes.set_xlabel("epsilon")
    axes.set_ylabel("payment")
    axes.legend()


def draw_choices(axes: Axes, menu: Menu) -> None:
    """Draw which epsilon each cost chooses.

    Parameters
    ----------
    axes
        Where to draw.
    menu
        What was offered.
    """
    axes.plot(menu.costs, menu.epsilons, color=COLOURS[0], linestyle=STYLES[0])
    axes.set_xlabel("cost per unit of epsilon")
    axes.set_ylabel("epsilon chosen")
