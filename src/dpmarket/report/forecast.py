"""What budgets would probably buy: :mod:`~dpmarket.mechanisms.forecasts` of a rules file's campaigns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.release import released_by
from dpmarket.campaign.rules import columns
from dpmarket.campaign.rules.pricing import plan_for, terms_of
from dpmarket.campaign.rules.released import Released, StatisticsFile
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.files import read_table, refuse
from dpmarket.mechanisms import forecasts
from dpmarket.mechanisms.forecasts import BUDGETS, CAMPAIGNS, Forecast
from dpmarket.privacy.noise import SeededNoise
from dpmarket.progress import StageProgress

if TYPE_CHECKING:
    from dpmarket.mechanisms.plan import Plan
    from dpmarket.statistics import ReleasedStatistic


def forecast_rules(
    rules: Rules, public: str | os.PathLike[str], *, budgets: Sequence[float] | None = None,
    sellers: Sequence[int] | None = None, campaigns: int = CAMPAIGNS, seed: int = 0,
    progress: StageProgress = lambda what, share: None,
) -> Forecast:  # fmt: skip
    """Simulate campaigns of a rules file on a public table with its columns.

    ``public`` is a .csv or .parquet file with at least 30 rows, each of one person. ``budgets`` are a quarter
    of the rules' budget to four times as much, ``sellers`` those expected, where None. The same seed, of
    people, costs and noise, gives the same forecast.
    """
    budgets, sellers = _asked(rules, budgets, sellers)
    fields = columns.fields_of(rules)
    texts, numbers = columns.columns_by_type(fields)
    table = read_table(public, [*texts, *numbers], texts, numbers)
    codes, problems = columns.read_codes(fields, table, np.arange(table.height))
    refuse(table, public, problems)
    steps = [(number, budget) for number in sellers for budget in budgets]

    def plans() -> Iterator[Plan]:
        for done, (number, budget) in enumerate(steps):
            progress(f"Simulating campaigns of {budget:,.6g}", done / len(steps))
            with contextlib.suppress(Infeasible):  # this budget buys nothing
                yield plan_for(rules, number, budget)

    trials, rng = _PublicRows(rules, fields, codes, seed), np.random.default_rng(seed)
    return forecasts.forecast(plans(), terms_of(rules).distribution, trials, campaigns, rng)


def _asked(
    rules: Rules, budgets: Sequence[float] | None, sellers: Sequence[int] | None
) -> tuple[Sequence[float], Sequence[int]]:
    own = rules.objective.budget
    if budgets is None:
        if own is None:
            raise InvalidInput("expected budgets: the rules name none.")
        budgets = [own * factor for factor in BUDGETS]
    if sellers is None:
        if rules.sellers.expected is None:
            raise InvalidInput("expected how many sellers: the rules have no sellers.expected.")
        sellers = [rules.sellers.expected]
    if min(budgets) <= 0.0 or min(sellers) < 2:
        raise InvalidInput("expected budgets above 0 and at least 2 sellers.")
    return budgets, sellers


class _PublicRows:
    """A public table as the rules' releases take it."""

    def __init__(self, rules: Rules, fields: Sequence[columns.Field], codes: FloatArray, seed: int) -> None:
        self._rules, self._fields, self._codes, self._seed = rules, fields, codes, seed
        every = columns.records_of(fields, codes, np.arange(len(codes))).columns
        self._features = {name: np.asarray(every[name]) for name in rules.features}
        self._truth = np.zeros(0) if rules.statistics else np.asarray(every[columns.OUTCOME])
        self._quantile = None if rules.target is None else rules.target.quantile
        self.measure = forecasts.HALF_WIDTH if rules.statistics else "accuracy"
        if rules.target is not None:
            self.measure = "R squared" if self._quantile is None else "pinball R"

    def __len__(self) -> int:
        return len(self._codes)

    def score(self, rows: IntArray, epsilons: FloatArray, test: IntArray, campaign: int) -> float:
        """Release from some rows with the rules' own estimator; score on others."""
        noise = SeededNoise(self._seed * 1_000_003 + campaign)
        with contextlib.suppress(Infeasible):  # epsilons too small for what is asked: nothing is released
            if rows.size:
                records = columns.records_of(self._fields, self._codes[rows], np.arange(rows.size))
                released, _, _ = released_by(self._rules, records, epsilons, noise)
                return self._score(released, test)
        return self.guessing(test)

    def _score(self, released: Released, test: IntArray) -> float:
        if isinstance(released, StatisticsFile):
            return float(np.mean([_half_width(one) for one in released.releases().values()]))
        features = {name: values[test] for name, values in self._features.items()}
        if self._rules.target is not None:
            return self._right(released.numbers(features), test)
        return self._right(released.probabilities(features).argmax(axis=1), test)

    def _right(self, predicted: Any, test: IntArray) -> float:
        """Return the share of right labels, or of a constant's squared or pinball loss that is saved."""
        truth, quantile = self._truth[test], self._quantile
        if self._rules.target is None:
            return float((predicted == truth).mean())

        def loss(errors: FloatArray) -> float:
            if quantile is None:
                return float((errors**2).sum())
            return float(np.maximum(quantile * errors, (quantile - 1.0) * errors).sum())

        worst = loss(truth - (truth.mean() if quantile is None else np.quantile(truth, quantile)))
        return 1.0 - loss(truth - predicted) / worst if worst > 0.0 else 0.0

    def guessing(self, test: IntArray | slice = slice(None)) -> float:
        """Return the score without any record."""
        if self._rules.statistics:
            return 0.5  # the middle of the range, whose ends are half of it away
        return forecasts.guess(self._truth[test], is_number=self._rules.target is not None)

    def without_privacy(self, splits: Sequence[tuple[IntArray, IntArray]]) -> float | None:
        """Return the mean score of an ordinary model of the encoded features."""
        if self._rules.statistics:
            return None
        # They take scikit-learn along, which most commands do not need.
        from sklearn import linear_model  # type: ignore[import-untyped]

        model: Any = linear_model.LinearRegression()
        if self._rules.target is None:
            model = linear_model.LogisticRegression(C=100.0, max_iter=1_000)
        elif self._quantile is not None:
            model = linear_model.QuantileRegressor(quantile=self._quantile, alpha=0.0)
        rows = columns.encoder_of(self._rules).fit_transform(self._features)
        predicted = ((model.fit(rows[pool], self._truth[pool]).predict(rows[test]), test)
                     for pool, test in splits)  # fmt: skip
        return float(np.mean([self._right(*each) for each in predicted]))


def _half_width(released: ReleasedStatistic) -> float:
    """Return half of the mean interval, as a share of the public range."""
    question = released.question
    if released.radius is not None:
        return float(released.radius / (2.0 * question["bound"]))
    if released.lows is None or released.highs is None:
        return 0.5
    places: list[float] = question.get("candidates") or [question.get("low", 0.0), question.get("high", 1.0)]
    return float(np.mean(np.subtract(released.highs, released.lows)) / (2.0 * (max(places) - min(places))))
