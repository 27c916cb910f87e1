"""Forecasts: what a budget will probably buy, by simulated campaigns on a public table of the same kind.

A campaign is simulated in four steps: people are drawn from two thirds of the table, each with a cost from
the announced distribution; a plan's prices quote them; what is bought is released with real noise; the result
is scored on the other third. Costs are drawn independently of the records: if they go together, the true
campaign buys other records than these. The table must be public, or a pilot whose people agreed: private
records are never an argument here.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.release import released_by
from dpmarket.campaign.rules.columns import (
    OUTCOME,
    Field,
    Records,
    columns_by_type,
    encoder_of,
    fields_of,
    read_codes,
    records_of,
)
from dpmarket.campaign.rules.pricing import plan_for
from dpmarket.campaign.rules.released import Released, StatisticsFile
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.files import read_table, refuse
from dpmarket.mechanisms.plan import Plan
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.privacy.noise import SeededNoise
from dpmarket.progress import StageProgress

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from dpmarket.costs import CostDistribution
    from dpmarket.statistics import ReleasedStatistic

LEAST_ROWS = 30
"""A smaller table says nothing."""
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of a rules file's budget: what is forecast if no budgets are given."""
PERSONAL = "personal prices"
_SHOWN = {"best posted price": "posted price", "same for all": "one epsilon for all"}
_CAMPAIGNS = 12


class Trials(Protocol):
    """A public table, some rows of which sell while others score."""

    def score(self, rows: IntArray, epsilons: FloatArray, test: IntArray, campaign: int) -> float:
        """Return the score of a release from these rows; that of guessing if nothing can be released."""
        ...

    def gain(self, score: float, test: IntArray) -> float:
        """Return by how much a score is better than that of guessing on the same rows."""
        ...


@dataclass(frozen=True)
class Prediction:
    """What one way to spend one budget will probably give.

    Attributes
    ----------
    budget, sellers, rule
        Money, how many people report, and by which rule they are bought from.
    score, standard_error
        The mean over simulated campaigns, and its standard error.
    gain, gain_error
        By how much it beats guessing on the same rows, and the standard error of that.
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

    def beats_guessing_from(self, sellers: int, rule: str = PERSONAL) -> float | None:
        """Return the smallest budget from which on the score beats guessing by two standard errors."""
        found = None
        chosen = [one for one in self.predictions if (one.sellers, one.rule) == (sellers, rule)]
        for one in sorted(chosen, key=lambda one: -one.budget):
            if one.gain <= 2.0 * one.gain_error:
                break
            found = one.budget
        return found

    def sentence(self, sellers: int, currency: str, rule: str = PERSONAL) -> str:
        """Say from which budget on the result is better than a guess, and what is possible at all."""
        start = self.beats_guessing_from(sellers, rule)
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
        return {
            "measure": self.measure,
            "guessing": self.guessing,
            "without_privacy": self.without_privacy,
            "predictions": [asdict(one) for one in self.predictions],
        }

    def summary(self) -> list[tuple[str, str]]:
        """Return the rows of a table: what was asked for, and the score of each rule."""
        rows = [("measure", self.measure), ("guessing", f"{self.guessing:.3f}")]
        if self.without_privacy is not None:
            rows.append(("without privacy", f"{self.without_privacy:.3f}"))
        return rows + [
            (f"{one.budget:,.6g} for {one.sellers:,} sellers, {one.rule}", f"{one.score:.3f}")
            for one in self.predictions
        ]

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:6])

    def _repr_html_(self) -> str:
        return html_table("Forecast", self.summary())

    def plot(self) -> Figure:
        """Draw scores against budgets, a panel for each number of sellers."""
        from matplotlib.figure import Figure

        numbers = sorted({one.sellers for one in self.predictions})
        figure = Figure(figsize=(4.5 * len(numbers), 3.2), layout="constrained")
        for ax, sellers in zip(figure.subplots(1, len(numbers), squeeze=False)[0], numbers, strict=True):
            for rule in dict.fromkeys(one.rule for one in self.predictions):
                line = [one for one in self.predictions if (one.sellers, one.rule) == (sellers, rule)]
                points = [(one.budget, one.score, 2.0 * one.standard_error) for one in line]
                ax.errorbar(*zip(*points, strict=True), marker="o", capsize=2, label=rule)
            ax.axhline(self.guessing, color="k", linestyle=":", label="guessing")
            if self.without_privacy is not None:
                ax.axhline(self.without_privacy, color="k", linestyle="--", label="without privacy")
            ax.set(xscale="log", xlabel="budget", ylabel=self.measure, title=f"{sellers:,} sellers")
            ax.legend(fontsize=7)
        return figure

    def image(self, suffix: str) -> bytes:
        """Return the plot as the content of a .png, .svg or .pdf file."""
        if suffix not in (".png", ".svg", ".pdf"):
            raise InvalidInput(f"expected a .png, .svg or .pdf file for the plot, got {suffix!r}.")
        content = io.BytesIO()
        self.plot().savefig(content, format=suffix[1:], dpi=150)
        return content.getvalue()


def forecast(
    plans: Sequence[Plan],
    distribution: CostDistribution,
    estimator: Any,
    X: Any,
    y: Any,
    *,
    without_privacy: Any = None,
    campaigns: int = _CAMPAIGNS,
    rng: np.random.Generator | None = None,
) -> Forecast:
    """Simulate campaigns of these plans on public rows; return the score that each will probably have.

    Parameters
    ----------
    plans
        As :func:`~dpmarket.mechanisms.plan` made them: any budgets and numbers of sellers.
    distribution
        Of costs, as announced.
    estimator
        With ``fit(X, y, epsilons)`` and ``score(X, y)``; fitted anew for every campaign.
    X, y
        Public rows of the same kind as the sellers' (never private records), shape (rows, features), (rows,).
    without_privacy
        An ordinary estimator for comparison, for example scikit-learn's ``LogisticRegression()``.
    campaigns
        How many are simulated for each plan and rule.
    rng
        Draws people and costs.

    Raises
    ------
    InvalidInput
        Fewer than 30 rows, or fewer than 2 campaigns.

    Examples
    --------
    >>> import numpy as np
    >>> import dpmarket as dpm
    >>> from dpmarket.report import forecast
    >>> data, costs = dpm.datasets.breast_cancer(), dpm.Uniform(1, 5)
    >>> X = dpm.PublicScaler(data.low, data.high).fit_transform(data.features)
    >>> objective = dpm.Objective.for_model(X.shape[1] + 1)
    >>> plans = [dpm.plan(costs, objective, 400, budget) for budget in (20.0, 2000.0)]
    >>> model = dpm.PrivateLogisticRegression(classes=data.classes)
    >>> rng = np.random.default_rng(1)
    >>> found = forecast(plans, costs, model, X, data.labels, campaigns=4, rng=rng)
    >>> found.beats_guessing_from(400)
    2000.0
    """
    X, y = np.asarray(X), np.asarray(y)
    _refuse_few(len(y), campaigns)
    rng = np.random.default_rng() if rng is None else rng
    is_number = np.issubdtype(y.dtype, np.floating) and np.unique(y).size > 20

    trials = _Arrays(estimator, X, y, is_number)
    found = [one for each in plans for one in _simulate(each, distribution, trials, len(y), campaigns, rng)]
    ordinary = None
    if without_privacy is not None:
        ordinary = float(np.mean([
            without_privacy.fit(X[rows], y[rows]).score(X[test], y[test])
            for rows, test in _splits(len(y), campaigns, rng)
        ]))  # fmt: skip
    measure = "R squared" if is_number else "accuracy"
    return Forecast(measure, tuple(found), _guess(y, is_number=is_number), ordinary)


@dataclass(frozen=True, eq=False)
class _Arrays:
    """Public arrays, and the estimator that is fitted anew for every campaign."""

    estimator: Any
    X: Any
    y: Any
    is_number: bool

    def score(self, rows: IntArray, epsilons: FloatArray, test: IntArray, campaign: int) -> float:
        with contextlib.suppress(Infeasible):
            if rows.size:
                fitted = self.estimator.fit(self.X[rows], self.y[rows], epsilons)
                return float(fitted.score(self.X[test], self.y[test]))
        return _guess(self.y[test], is_number=self.is_number)

    def gain(self, score: float, test: IntArray) -> float:
        return score - _guess(self.y[test], is_number=self.is_number)


def forecast_rules(
    rules: Rules,
    public: str | os.PathLike[str],
    *,
    budgets: Sequence[float] | None = None,
    sellers: Sequence[int] | None = None,
    campaigns: int = _CAMPAIGNS,
    seed: int = 0,
    progress: StageProgress = lambda what, share: None,
) -> Forecast:
    """Simulate campaigns of a rules file on a public table with its columns.

    Every row counts as one person's. The same seed gives the same forecast.

    Parameters
    ----------
    rules
        Of the campaign.
    public
        .csv or .parquet with the rules' features and its label or target, or the columns of its statistics;
        other columns are not read.
    budgets, sellers
        What to forecast; None: a quarter of the rules' budget to four times as much, ``sellers.expected``.
    campaigns
        How many are simulated for each.
    seed
        Of people, costs and noise.
    progress
        Called with each step.

    Raises
    ------
    FileProblem
        The table cannot be used, by line and column.
    InvalidInput
        Neither the rules nor the arguments name a budget or a number of sellers; fewer than 30 rows.
    """
    budgets, sellers = _asked(rules, budgets, sellers)
    fields = fields_of(rules)
    codes = _read(public, fields)
    _refuse_few(len(codes), campaigns)
    public_rows = _PublicRows(rules, fields, codes, seed)
    distribution = _distribution(rules)
    rng = np.random.default_rng(seed)
    found: list[Prediction] = []
    steps = [(number, budget) for number in sellers for budget in budgets]
    for done, (number, budget) in enumerate(steps):
        progress(f"Simulating campaigns of {budget:,.6g}", done / len(steps))
        try:
            each = plan_for(rules, number, budget)
        except Infeasible:
            continue  # this budget buys nothing
        found += _simulate(each, distribution, public_rows, len(codes), campaigns, rng)
    if not found:
        raise Infeasible("None of these budgets buys anything. Raise them, or expect lower costs.")
    splits = list(_splits(len(codes), campaigns, rng))
    return Forecast(
        public_rows.measure, tuple(found), public_rows.guessing(), public_rows.without_privacy(splits)
    )


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


def _distribution(rules: Rules) -> CostDistribution:
    from dpmarket.campaign.rules.pricing import terms_of

    return terms_of(rules).distribution


def _refuse_few(rows: int, campaigns: int) -> None:
    if rows < LEAST_ROWS:
        raise InvalidInput(f"expected a public table of at least {LEAST_ROWS} rows, got {rows}.")
    if campaigns < 2:
        raise InvalidInput(f"expected at least 2 campaigns, got {campaigns}.")


def _simulate(
    plan: Plan,
    distribution: CostDistribution,
    trials: Trials,
    rows: int,
    campaigns: int,
    rng: np.random.Generator,
) -> list[Prediction]:
    """Return what personal prices and simpler ones give for a plan: on the same people, costs and tests."""
    offers = {PERSONAL: plan.schedules[0]}
    offers |= {_SHOWN[rule.name]: rule.schedules[0] for rule in plan.alternatives if rule.name in _SHOWN}
    found: dict[str, list[tuple[float, float, float]]] = {rule: [] for rule in offers}
    for campaign, (pool, test) in enumerate(_splits(rows, campaigns, rng)):
        people = pool[: plan.sellers]
        if pool.size < plan.sellers:
            people = rng.choice(pool, plan.sellers)
        costs = np.asarray(distribution.sample(plan.sellers, rng))
        for rule, schedule in offers.items():
            epsilons, payments = _quoted(schedule, costs)
            sold = epsilons > 0.0
            score = trials.score(people[sold], epsilons[sold], test, campaign)
            found[rule].append((score, trials.gain(score, test), float(payments.sum())))
    return [_prediction(plan, rule, np.array(values)) for rule, values in found.items()]


def _quoted(schedule: PriceSchedule, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    epsilons, payments = schedule.quote(costs)
    return np.asarray(epsilons), np.asarray(payments)


def _prediction(plan: Plan, rule: str, values: FloatArray) -> Prediction:
    score, gain, spent = values.mean(axis=0).tolist()
    score_error, gain_error, _ = (values.std(axis=0, ddof=1) / math.sqrt(len(values))).tolist()
    return Prediction(plan.budget, plan.sellers, rule, score, score_error, gain, gain_error, spent)


def _splits(rows: int, campaigns: int, rng: np.random.Generator) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield people to draw sellers from, and rows to score on, each a part of the table."""
    for _ in range(campaigns):
        order = rng.permutation(rows)
        yield order[rows // 3 :], order[: rows // 3]


def _guess(truth: Any, *, is_number: bool) -> float:
    """Return the score of always saying the commonest label, or the mean."""
    if is_number:
        return 0.0
    return float(np.unique(truth, return_counts=True)[1].max() / len(truth))


def _read(public: str | os.PathLike[str], fields: Sequence[Field]) -> FloatArray:
    """Return the codes of a public table, or refuse it with all that is wrong with it."""
    texts, numbers = columns_by_type(fields)
    table = read_table(public, [*texts, *numbers], texts, numbers)
    codes, problems = read_codes(fields, table, np.arange(table.height))
    refuse(table, public, problems)
    return codes


class _PublicRows:
    """A public table as the rules' releases take it."""

    def __init__(self, rules: Rules, fields: Sequence[Field], codes: FloatArray, seed: int) -> None:
        self._rules, self._fields, self._codes, self._seed = rules, fields, codes, seed
        every = self._records(np.arange(len(codes)))
        self._features = {name: every.columns[name] for name in rules.features}
        self._truth = None if rules.statistics else np.asarray(every.columns[OUTCOME])
        self.measure = "half width" if rules.statistics else "accuracy"
        if rules.target is not None:
            self.measure = "R squared" if rules.target.quantile is None else "pinball R"

    def _records(self, rows: IntArray) -> Records:
        return records_of(self._fields, self._codes[rows], np.arange(rows.size))

    def gain(self, score: float, test: IntArray) -> float:
        """Return by how much a score beats guessing; of statistics, less is better."""
        more = score - self.guessing(test)
        return -more if self.measure == "half width" else more

    def score(self, rows: IntArray, epsilons: FloatArray, test: IntArray, campaign: int) -> float:
        """Release from some rows with the rules' own estimator; score on others."""
        noise = SeededNoise(self._seed * 1_000_003 + campaign)
        with contextlib.suppress(Infeasible):  # epsilons too small for what is asked: nothing is released
            if rows.size:
                released, _, _ = released_by(self._rules, self._records(rows), epsilons, noise)
                return self._score(released, test)
        return self.guessing(test)

    def _score(self, released: Released, test: IntArray) -> float:
        if isinstance(released, StatisticsFile):
            return float(np.mean([_half_width(one) for one in released.releases().values()]))
        features = self._records(test).columns
        found = {name: features[name] for name in self._rules.features}
        assert self._truth is not None
        if self._rules.target is not None:
            return _explained(released.numbers(found), self._truth[test], self._rules.target.quantile)
        predicted = released.likeliest(released.probabilities(found))
        return float((predicted == self._truth[test]).mean())

    def guessing(self, test: IntArray | None = None) -> float:
        """Return the score without any record."""
        if self._truth is None:
            return 0.5  # the middle of the range, whose ends are half of it away
        truth = self._truth if test is None else self._truth[test]
        return _guess(truth, is_number=self._rules.target is not None)

    def without_privacy(self, splits: Sequence[tuple[IntArray, IntArray]]) -> float | None:
        """Return the mean score of an ordinary model of the encoded features."""
        if self._truth is None:
            return None
        # They take scikit-learn along, which most commands do not need.
        from sklearn import linear_model  # type: ignore[import-untyped]

        rows, target = encoder_of(self._rules).fit_transform(self._features), self._rules.target
        if target is None:
            model: Any = linear_model.LogisticRegression(C=100.0, max_iter=1_000)
        elif target.quantile is None:
            model = linear_model.LinearRegression()
        else:
            model = linear_model.QuantileRegressor(quantile=target.quantile, alpha=0.0)
        scores = []
        for pool, test in splits:
            truth = self._truth[test]
            predicted = model.fit(rows[pool], self._truth[pool]).predict(rows[test])
            quantile = None if target is None else target.quantile
            right = predicted == truth if target is None else _explained(predicted, truth, quantile)
            scores.append(float(np.mean(right)))
        return float(np.mean(scores))


def _explained(predicted: FloatArray, truth: FloatArray, quantile: float | None) -> float:
    """Return the share of the loss of a constant that predictions save: squared loss, or pinball loss."""

    def loss(errors: FloatArray) -> float:
        if quantile is None:
            return float((errors**2).sum())
        return float(np.maximum(quantile * errors, (quantile - 1.0) * errors).sum())

    constant = truth.mean() if quantile is None else np.quantile(truth, quantile)
    worst = loss(truth - constant)
    return 1.0 - loss(truth - predicted) / worst if worst > 0.0 else 0.0


def _half_width(released: ReleasedStatistic) -> float:
    """Return half of the mean interval, as a share of the public range."""
    question = released.question
    if released.radius is not None:
        return float(released.radius / (2.0 * question["bound"]))
    if released.lows is None or released.highs is None:
        return 0.5
    places: list[float] = question.get("candidates") or [question.get("low", 0.0), question.get("high", 1.0)]
    return float(np.mean(np.subtract(released.highs, released.lows)) / (2.0 * (max(places) - min(places))))
