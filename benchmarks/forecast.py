"""How close forecasts on a public sample are to real campaigns. Writes ``docs/tables/forecast.md``.

Half of each set is the public sample: the forecast knows nothing else. Real campaigns buy from the other
half: 1,000 of its people report costs from U[1, 5] and are cross-priced; the model is scored
on those who were not asked. No default of forecasts was chosen looking at these sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from _markdown import write_tables
from _results import Table, at_most, tell
from _trials import _one_record_each
from dpmarket import datasets
from dpmarket.costs import Uniform
from dpmarket.datasets import PublicData, PublicTable
from dpmarket.learning import PrivateLogisticRegression, PublicEncoder
from dpmarket.mechanisms import CrossPricedMechanism, Objective
from dpmarket.mechanisms.plan import plan
from dpmarket.privacy import Release, logistic_loss
from dpmarket.report import forecast

COSTS = Uniform(1, 5)
LARGEST, SELLERS, CAMPAIGNS, SIMULATED = 8_000, 1_000, 30, 100
BUDGETS = (500.0, 1_000.0, 2_000.0, 4_000.0)
SETS: dict[str, Callable[[], PublicData | PublicTable]] = {
    "affairs": datasets.affairs,
    "batters": datasets.batters,
    "diamonds": datasets.diamonds,
    "free light chain": datasets.free_light_chain,
    "German health": lambda: _one_record_each(datasets.german_health()),
    "unemployment benefits": datasets.unemployment_benefits,
}


def compare(name: str) -> list[list[object]]:
    """Return the forecast and the mean of real campaigns for every budget."""
    data, rng = SETS[name](), np.random.default_rng(0)
    rows = rng.permutation(len(data))[:LARGEST]
    table = data.frame if isinstance(data, PublicTable) else pl.DataFrame(data.features)
    public, private = rows[: rows.size // 2], rows[rows.size // 2 :]
    encoder = PublicEncoder.from_public(table[public])
    norm = encoder.noise_norm()
    encoded = encoder.fit_transform(table)
    X, y = encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded), data.labels
    objective = Objective(*Release(logistic_loss(), norm, l2=1.0).error_constants(), 1.0)
    model = PrivateLogisticRegression(classes=data.classes, noise_norm=norm)
    plans = [plan(COSTS, objective, SELLERS, budget) for budget in BUDGETS]
    found = forecast(plans, COSTS, model, X[public], y[public], campaigns=SIMULATED, rng=rng)
    expected = {one.budget: one for one in found.predictions if one.rule == "personal prices"}
    lines: list[list[object]] = []
    for budget in BUDGETS:
        mechanism, scores = CrossPricedMechanism(COSTS, objective, budget), []
        for _ in range(CAMPAIGNS):
            order = rng.permutation(private)
            sellers, test = order[:SELLERS], order[SELLERS:]
            outcome, _ = mechanism.run(range(SELLERS), COSTS.sample(SELLERS, rng), salt=rng.bytes(16))
            sold = outcome.epsilons > 0.0
            bought = sellers[sold]
            scores.append(model.fit(X[bought], y[bought], outcome.epsilons[sold]).score(X[test], y[test]))
        one, real = expected[budget], float(np.mean(scores))
        error = float(np.std(scores, ddof=1) / np.sqrt(CAMPAIGNS))
        lines.append([
            f"{name}, {budget:,.0f}", f"{one.score:.3f} ± {one.standard_error:.3f}",
            f"{real:.3f} ± {error:.3f}", at_most(0.02, abs(one.score - real), ".3f"),
            f"{found.guessing:.3f}",
        ])  # fmt: skip
    return lines


def tables() -> Iterator[Table]:
    lines = []
    for name in SETS:
        tell(name)
        lines += compare(name)
    yield Table(
        f"Accuracy with {SELLERS:,} sellers: forecast from a public sample, "
        f"and mean of {CAMPAIGNS} campaigns",
        ["set, budget", "forecast", "real", "difference", "guessing"],
        lines,
    )


if __name__ == "__main__":
    write_tables(__file__, list(tables()))
