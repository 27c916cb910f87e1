"""Forecasts: what a plan will probably buy, by simulated campaigns on public rows of the same kind.

People are drawn from two thirds of the rows, each with a cost from the announced distribution; a plan's
prices quote them; what is bought is released with real noise, and scored on the other third. Costs are drawn
independently of the records: if they go together, the true campaign buys other records than these. The rows
must be public, or a pilot's whose people agreed: private records are never an argument here.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpmarket.costs import CostDistribution
    from dpmarket.mechanisms.plan import Plan

MOST_CLASSES = 20
"""A column of more different fractions is a number, not a label."""
LEAST_ROWS = 30
"""A smaller table says nothing."""
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of a budget: what is forecast if no budgets are given."""
PERSONAL = "personal prices"
HALF_WIDTH = "half width"
_SHOWN = {"best posted price": "posted price", "same for all": "one epsilon for all"}
CAMPAIGNS = 12


@dataclass(frozen=True)
class Prediction:
    """What one way to spend one budget will probably give.

    Attributes
    ----------
    budget, sellers, rule
        Money, how many people report, and by which rule they are bought from.
    score, standard_error, gain, gain_error
        The mean over simulated campaigns and by how much it beats guessing on the same rows, each with its
        standard error.
    spent
        What they paid on average.
    """

    budget: float
    sellers: int
    rule: str
    score: float
    standard_error: float
    gain: float
    gain_error: float
    spent: float


@dataclass(frozen=True, repr=False)
class Forecast:
    """What budgets will probably buy, beside guessing and the same model without privacy.

    Attributes
    ----------
    measure
        ``accuracy``, ``R squared``, ``pinball R`` (of quantiles: the share of a constant's pinball loss that
        is saved), or ``half width`` of the intervals of statistics, as a share of the public range: less
        is better.
    predictions
        One for each budget, number of sellers and rule.
    guessing, without_privacy
        The score without any record, and that of an ordinary model of all rows; None for statistics.
    """

    measure: str
    predictions: tuple[Prediction, ...]
    guessing: float
    without_privacy: float | None

    def beats_guessing_from(self, sellers: int) -> float | None:
        """Return the smallest budget from which on personal prices beat guessing by two standard errors."""
        found = None
        chosen = [one for one in self.predictions if (one.sellers, one.rule) == (sellers, PERSONAL)]
        for one in sorted(chosen, key=lambda one: -one.budget):
            if one.gain <= 2.0 * one.gain_error:
                break
            found = one.budget
        return found

    def sentence(self, sellers: int, currency: str) -> str:
        """Say from which budget on the result is better than a guess, and what is possible at all."""
        start = self.beats_guessing_from(sellers)
        least = min(one.budget for one in self.predictions)
        if start is None:
            words = "None of these budgets is sure to beat guessing"
        elif start == least:
            words = f"All of these budgets, from {start:,.6g} {currency} on, beat guessing"
        else:
            words = f"From about {start:,.6g} {currency} on it beats guessing"
        end = "." if self.without_privacy is None else f"; without privacy: {self.without_privacy:.3f}."
        return f"{words} ({self.guessing:.3f}){end}"

    def to_frame(self) -> pl.DataFrame:
        """Return a row per prediction."""
        import polars as pl

        return pl.DataFrame([asdict(one) for one in self.predictions])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __repr__(self) -> str:
        return short_repr(self, self._rows()[:6])

    def _repr_html_(self) -> str:
        return html_table("Forecast", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("measure", self.measure), ("guessing", f"{self.guessing:.3f}")]
        if self.without_privacy is not None:
            rows.append(("without privacy", f"{self.without_privacy:.3f}"))
        return rows + [
            (f"{one.budget:,.6g} for {one.sellers:,} sellers, {one.rule}", f"{one.score:.3f}")
            for one in self.predictions
        ]

    def plot(self) -> Figure:
        """Draw scores against budgets, a panel for each number of sellers."""
        from matplotlib.figure import Figure

        numbers = sorted({one.sellers for one in self.predictions})
        figure = Figure(figsize=(4.5 * len(numbers), 3.2), layout="constrained")
        for ax, sellers in zip(figure.subplots(1, len(numbers), squeeze=False)[0], numbers, strict=True):
            self.draw(ax, sellers)
            ax.set_title(f"{sellers:,} sellers")
        return figure

    def draw(self, ax: Axes, sellers: int, colours: Sequence[str] = ("C0", "C1", "C2")) -> None:
        """Draw scores against budgets for a number of sellers, with two standard errors."""
        for place, rule in enumerate(dict.fromkeys(one.rule for one in self.predictions)):
            line = [one for one in self.predictions if (one.sellers, one.rule) == (sellers, rule)]
            budgets, scores = [one.budget for one in line], [one.score for one in line]
            look: Any = {"color": colours[place], "marker": "os^"[place], "capsize": 2, "label": rule}
            ax.errorbar(budgets, scores, [2.0 * one.standard_error for one in line], **look)
        ax.axhline(self.guessing, color="k", linestyle=":", label="guessing")
        if self.without_privacy is not None:
            ax.axhline(self.without_privacy, color="k", linestyle="--", label="without privacy")
        ax.set(xscale="log", xlabel="budget", ylabel=self.measure)
        ax.legend(fontsize=7)

    def image(self, suffix: str) -> bytes:
        """Return the plot as the content of a .png, .svg or .pdf file."""
        if suffix not in (".png", ".svg", ".pdf"):
            raise InvalidInput(f"expected a .png, .svg or .pdf file for the plot, got {suffix!r}.")
        content = io.BytesIO()
        self.plot().savefig(content, format=suffix[1:], dpi=150)
        return content.getvalue()


def forecast(
    plans: Iterable[Plan], distribution: CostDistribution, trials: Any, campaigns: int,
    rng: np.random.Generator,
) -> Forecast:  # fmt: skip
    """Simulate campaigns of plans on public rows: ``trials``, with the methods of :class:`PublicArrays`."""
    rows = len(trials)
    if rows < LEAST_ROWS:
        raise InvalidInput(f"expected a public table of at least {LEAST_ROWS} rows, got {rows}.")
    if campaigns < 2:
        raise InvalidInput(f"expected at least 2 campaigns, got {campaigns}.")
    found = [one for plan in plans for one in _simulate(plan, distribution, trials, campaigns, rng)]
    if not found:
        raise Infeasible("None of these budgets buys anything. Raise them, or expect lower costs.")
    ordinary = trials.without_privacy(list(splits(rows, campaigns, rng)))
    return Forecast(trials.measure, tuple(found), trials.guessing(), ordinary)


def _simulate(
    plan: Plan, distribution: CostDistribution, trials: Any, campaigns: int, rng: np.random.Generator
) -> list[Prediction]:
    """Return what personal prices and simpler ones give for a plan: on the same people, costs and tests."""
    better = -1.0 if trials.measure == HALF_WIDTH else 1.0
    offers = {PERSONAL: plan.schedules[0]}
    offers |= {_SHOWN[rule.name]: rule.schedules[0] for rule in plan.alternatives if rule.name in _SHOWN}
    found: dict[str, list[tuple[float, float, float]]] = {rule: [] for rule in offers}
    for campaign, (pool, test) in enumerate(splits(len(trials), campaigns, rng)):
        people = pool[: plan.sellers]
        if pool.size < plan.sellers:
            people = rng.choice(pool, plan.sellers)
        costs = np.asarray(distribution.sample(plan.sellers, rng))
        for rule, schedule in offers.items():
            epsilons, payments = schedule.quote(costs)
            sold = epsilons > 0.0
            score = trials.score(people[sold], epsilons[sold], test, campaign)
            gain = better * (score - trials.guessing(test))
            found[rule].append((score, gain, float(payments.sum())))
    predictions = []
    for rule, campaign_values in found.items():
        values = np.array(campaign_values)
        score, gain, spent = values.mean(axis=0).tolist()
        score_error, gain_error, _ = (values.std(axis=0, ddof=1) / math.sqrt(campaigns)).tolist()
        predictions.append(
            Prediction(plan.budget, plan.sellers, rule, score, score_error, gain, gain_error, spent)
        )
    return predictions


class PublicArrays:
    """Public arrays as trials of an estimator, which is fitted anew for every campaign."""

    def __init__(self, estimator: Any, ordinary: Any, X: Any, y: Any) -> None:
        self._estimator, self._ordinary, self._X, self._y = estimator, ordinary, X, y
        self.measure = "R squared" if is_number(y) else "accuracy"

    def __len__(self) -> int:
        return len(self._y)

    def score(self, rows: IntArray, epsilons: FloatArray, test: IntArray, campaign: int) -> float:
        """Return the score of a release from these rows; that of guessing if nothing can be released."""
        with contextlib.suppress(Infeasible):
            if rows.size:
                fitted = self._estimator.fit(self._X[rows], self._y[rows], epsilons)
                return float(fitted.score(self._X[test], self._y[test]))
        return self.guessing(test)

    def guessing(self, test: IntArray | slice = slice(None)) -> float:
        """Return the score without any record."""
        return guess(self._y[test], is_number=self.measure != "accuracy")

    def without_privacy(self, splits: Sequence[tuple[IntArray, IntArray]]) -> float:
        """Return the mean score of the ordinary estimator."""
        fit, X, y = self._ordinary.fit, self._X, self._y
        return float(np.mean([fit(X[pool], y[pool]).score(X[test], y[test]) for pool, test in splits]))


def is_number(y: Any) -> bool:
    """Say whether a column is a number to predict: fractions, more of them than labels can be."""
    return bool(np.issubdtype(y.dtype, np.floating)) and np.unique(y).size > MOST_CLASSES


def splits(rows: int, campaigns: int, rng: np.random.Generator) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield people to draw sellers from, and rows to score on, each a part of the table."""
    for _ in range(campaigns):
        order = rng.permutation(rows)
        yield order[rows // 3 :], order[: rows // 3]


def guess(truth: Any, *, is_number: bool) -> float:
    """Return the score of always saying the commonest label, or the mean."""
    if is_number:
        return 0.0
    return float(np.unique(truth, return_counts=True)[1].max() / len(truth))
