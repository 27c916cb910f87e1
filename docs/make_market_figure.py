"""Draw docs/_static/market.svg from a demonstration's table: python docs/make_market_figure.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

from dpmarket.files import read_json
from dpmarket.report.charts import LOOK, draw_rule, new_figure

TARGET = Path(__file__).parent / "_static" / "market.svg"


def draw(summary: dict[str, Any], target: Path) -> None:
    """Draw promises and payments against cost: the rule, and the means of groups of sellers."""
    rule, groups = summary["rule"], summary["bought_groups"]
    costs, cutoff = rule["costs"], rule["cutoff"]
    worth = [cost * epsilon for cost, epsilon in zip(costs, rule["epsilons"], strict=True)]
    places = [group["mean_cost"] for group in groups]
    epsilons, payments = ([group[key] for group in groups] for key in ("mean_epsilon", "mean_payment"))
    figure, (left, right) = new_figure(panels=2)
    draw_rule(left, costs, rule["epsilons"], places, epsilons, cutoff=cutoff, unit="epsilon promised")
    draw_rule(right, costs, rule["payments"], places, payments, cutoff=cutoff, unit="payment", worth=worth)
    with matplotlib.rc_context(LOOK):
        figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    TARGET.parent.mkdir(exist_ok=True)
    draw(read_json(Path(sys.argv[1]) / "summary.json"), TARGET)
    print(f"The figure is in {TARGET}")
