"""Forecasts on public tables: what is scored, on which rows, and what is said about it."""

import json

import numpy as np
import polars as pl
import pytest
from sklearn import linear_model

import dpmarket as dpm
from dpmarket.campaign.rules.rules_file import check_rules
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.mechanisms import Forecast, Prediction
from dpmarket.mechanisms.forecasts import PublicArrays, forecast
from dpmarket.report import forecast_rules
from outside.driver import run, write_rules
from outside.goods import GOODS, sellers, tables

COSTS, OBJECTIVE = dpm.Uniform(1, 5), dpm.Objective.for_model(3)


def public_table(folder, good, rows=240):
    """Write a public table of a good's columns: other people than those who sell."""
    _, data = tables(*sellers(GOODS[good], rows, seed=7))
    data.pop("seller", None)
    path = folder / "public.csv"
    pl.DataFrame({name: list(map(str, column)) for name, column in data.items()}).write_csv(path)
    return path


def rules(good):
    return check_rules(GOODS[good].rules(sellers=200, budget=200.0))


class Watcher:
    """An estimator that remembers which rows it saw, with which epsilons."""

    def __init__(self):
        self.fitted, self.scored = [], []

    def fit(self, X, y, epsilons):
        self.fitted.append((X[:, 0].copy(), np.array(epsilons)))
        return self

    def score(self, X, y):
        self.scored.append(X[:, 0].copy())
        return 0.75


def watched(budget=100.0, people=150, rows=300, campaigns=2):
    """Return a forecast of a watched estimator on numbered rows, of which half have each label."""
    watcher, rng = Watcher(), np.random.default_rng(3)
    X, y = np.arange(rows, dtype=float)[:, None], np.arange(rows) % 2
    plans = [dpm.plan(COSTS, OBJECTIVE, people, budget)]
    ordinary = linear_model.LogisticRegression()
    found = forecast(plans, COSTS, PublicArrays(watcher, ordinary, X, y), campaigns, rng)
    return found, watcher, plans[0]


def test_no_row_is_both_sold_and_scored_and_what_is_sold_follows_from_the_plans_prices():
    found, watcher, plan = watched()
    for (sold, _), scored in zip(watcher.fitted, watcher.scored, strict=True):
        assert not set(sold) & set(scored)
        assert len(set(sold)) == len(sold)  # fewer sellers than rows: each row is one person
    shown = {one.rule: one for one in found.predictions}
    assert set(shown) == {"personal prices", "posted price", "one epsilon for all"}
    assert shown["personal prices"].spent == pytest.approx(100.0, rel=0.3)
    sold = [epsilons for _, epsilons in watcher.fitted]
    assert max(epsilons.max() for epsilons in sold) <= plan.prospect.largest_epsilon * 2
    equal = sold[2]  # the third rule of the first campaign
    assert equal.size == 150
    assert np.ptp(equal) == 0.0
    assert all((epsilons > 0.0).all() for epsilons in sold)
    _, watcher, _ = watched(people=1_000, rows=60)
    assert max(len(sold) for sold, _ in watcher.fitted) > 60  # more sellers than rows: with replacement


def test_a_budget_that_buys_nothing_does_not_beat_guessing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 2, 90)
    plan = dpm.plan(COSTS, OBJECTIVE, 120, 1e-3, minor_unit=1e-6)
    trials = PublicArrays(Watcher(), linear_model.LogisticRegression(), X, y)
    found = forecast([plan], dpm.Uniform(50, 60), trials, 3, rng)
    assert {one.gain for one in found.predictions} == {0.0}
    assert found.beats_guessing_from(120) is None


def test_the_least_budget_is_that_from_which_on_all_beat_guessing():
    def found(*lines):
        predictions = [
            Prediction(budget, 100, "personal prices", 0.5 + gain, error, gain, error, budget)
            for budget, gain, error in lines
        ]
        return Forecast("accuracy", tuple(predictions), 0.5, 0.9)

    some = found((10, 0.2, 0.01), (20, 0.0, 0.01), (40, 0.1, 0.01), (80, 0.2, 0.01))
    assert some.beats_guessing_from(100) == 40
    assert "From about 40 EUR on it beats guessing (0.500)" in some.sentence(100, "EUR")
    none = found((10, 0.2, 0.15))
    assert "None of these budgets is sure to beat guessing" in none.sentence(100, "EUR")


# The others are forecast by the same code.
QUICK = ("two classes", "softmax, categories", "delta", "quantile regression", "several statistics")


@pytest.mark.parametrize(
    "good", [pytest.param(good, marks=() if good in QUICK else pytest.mark.slow) for good in GOODS]
)
def test_everything_that_rules_ask_for_is_forecast_and_more_money_is_better(good, tmp_path):
    public = public_table(tmp_path, good)
    found = forecast_rules(rules(good), public, budgets=[10.0, 4_000.0], campaigns=4)
    poor, rich = (one for one in found.predictions if one.rule == "personal prices")
    assert rich.gain > poor.gain
    assert rich.gain > 0.0
    if found.without_privacy is not None:
        assert rich.score < found.without_privacy + 0.1


def test_the_same_seed_gives_the_same_forecast(tmp_path):
    public = public_table(tmp_path, "two classes", rows=60)
    one, two, other = (
        forecast_rules(rules("two classes"), public, budgets=[50.0], campaigns=2, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


def test_a_forecast_has_a_frame_a_plot_and_plain_data():
    found, _, _ = watched()
    assert found.to_frame().height == 3
    assert found.image(".png")[:4] == b"\x89PNG"
    assert json.loads(json.dumps(found.to_dict()))["predictions"][0]["rule"] == "personal prices"
    assert "accuracy" in repr(found)
    assert "<table" in found._repr_html_()
    with pytest.raises(InvalidInput, match=r"expected a \.png, \.svg or \.pdf file"):
        found.image(".txt")


def test_tables_that_cannot_be_used_are_refused_by_line_and_column(tmp_path):
    public = public_table(tmp_path, "two classes", rows=40)
    lines = public.read_text().splitlines()
    public.write_text("\n".join([*lines[:3], lines[3].replace(lines[3].split(",")[0], "many"), *lines[4:]]))
    with pytest.raises(FileProblem, match="line 4") as refused:
        forecast_rules(rules("two classes"), public)
    assert "many" not in str(refused.value)
    public.write_text("\n".join(lines[:20]))
    with pytest.raises(InvalidInput, match="at least 30 rows, got 19"):
        forecast_rules(rules("two classes"), public)


def test_the_command_prints_what_budgets_buy(tmp_path):
    public = public_table(tmp_path, "two classes", rows=60)
    write_rules(tmp_path / "rules.toml", GOODS["two classes"].rules(sellers=200, budget=200.0))
    asked = ("plan", "-m", "rules.toml", "--public", public, "--campaigns", 2)
    done = run(*asked, "--plot", "plot.png", cwd=tmp_path)
    assert "beats guessing" in done.out or "beat guessing" in done.out
    assert "one epsilon for all" in done.out
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_a_plan_forecasts_itself_on_a_public_data_frame():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"age": rng.uniform(18, 90, 300), "job": rng.choice(["baker", "smith"], 300)})
    frame = frame.with_columns(bought=pl.when(pl.col("age") > 50).then(pl.lit("yes")).otherwise(pl.lit("no")))
    plan = dpm.plan(COSTS, OBJECTIVE, 400, 100.0)
    found = plan.forecast(frame, "bought", budgets=[0.5, 2_000.0], campaigns=2, rng=rng)
    poor, rich = (one for one in found.predictions if one.rule == "personal prices")
    assert rich.score > 0.85 > poor.score
    assert found.measure == "accuracy"
    number = plan.forecast(frame.drop("bought"), "age", budgets=[2_000.0], campaigns=2, rng=rng)
    assert number.measure == "R squared"
    with pytest.raises(InvalidInput, match="a column 'none' and others"):
        plan.forecast(frame, "none")
