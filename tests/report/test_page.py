"""The page: every number is the outcome's, nobody can be told from it, and it stands alone."""

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from dpmarket import InvalidInput, Uniform
from dpmarket.costs import parse_distribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.mechanisms import Forecast, Prediction
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.report import Score, render_page
from dpmarket.report.charts import charts_of
from dpmarket.report.summary import Material, noted, summarise
from support.html_pages import Report


def value_at(data, path):
    """Return what stands at a dotted path of plain data."""
    for key in path.split("."):
        data = data[int(key) if key.isdigit() else key]
    return data


@pytest.fixture(scope="module")
def page(demo):
    return Report(demo.report.read_text(encoding="utf-8"))


def material(costs, objective=PaperObjective(1.0, 20.0, 1e-4), dist=Uniform(1, 5), units=100, **others):  # noqa: B008
    """Return what a report is made of: the exact mechanism's decision about these costs."""
    table = VirtualCost.of(dist)
    outcome = OfflineMechanism(table, objective).run(costs)
    rules = {
        "mechanism": "offline",
        "groups": [Group("all", 1.0, table).to_dict()],
        "distributions": [dist.to_dict()],
        "coverage": "hard",
        "objective": objective.to_dict(),
        "epsilon_cost": EpsilonCost.identity().to_dict(),
        "delta": 0.0,
    }
    given = {
        "title": "A market",
        "ceiling": 8.0,
        "amounts": whole_units(outcome.payments, units),
        "withdrawn": np.zeros(costs.size, dtype=bool),
        "members": np.zeros(costs.size, dtype=int),
        "weights": outcome.weights,
    }
    return Material(outcome=outcome, rules=rules, reported_costs=costs, minor_units=units, **given | others)


def simple_page(sellers=200, **others):
    costs = Uniform(1, 5).sample(sellers, np.random.default_rng(5))
    return render_page(summarise(material(costs, **others)))


@pytest.fixture
def without_charts(monkeypatch):
    """Leave out what takes longest, where it is not what is tested."""
    monkeypatch.setattr("dpmarket.report.charts.inline_svg", lambda *_, **__: "<svg></svg>")


def test_every_number_on_the_page_is_the_summarys_and_shown_as_what_it_is(demo, page):
    """Exact in the attribute; rounded correctly in the text that people read."""
    data = json.loads(json.dumps(demo.summary.to_dict()))
    assert len(page.numbers) > 200
    for name, style, value, shown in page.numbers:
        truth = value_at(data, name)
        if not isinstance(truth, int | float) or isinstance(truth, bool):
            assert value == ("" if truth is None else str(truth)), name
            assert shown == ("none" if truth is None else str(truth)), name
            continue
        assert float(value) == truth, name
        seen = float(shown.removesuffix(" EUR").rstrip("%").replace(",", ""))
        assert shown.endswith(" EUR") == (style in ("money", "cost")), name
        if style == "exact" or isinstance(truth, int):
            assert seen == truth, name
        elif style in ("percent", "share"):
            assert abs(seen - 100 * truth) <= (0.0501 if style == "percent" else 0.501), name
        elif style in ("money", "amount"):
            assert abs(seen - truth) <= 0.00501, name
        elif style.isdigit():
            assert abs(seen - truth) <= 0.501 * 10.0 ** -int(style), name
            assert shown.partition(".")[2].isdigit() or style == "0", name
        else:
            assert math.isclose(seen, truth, rel_tol=5.01e-4), name


def test_the_summary_is_the_outcomes_by_another_computation(demo):
    """Counts, totals, means and groups, recomputed from the campaign's files with plain numpy."""
    quotes, reports, test = (
        pl.read_csv(demo.folder / name) for name in ("quotes.csv", "reports.csv", "public-test.csv")
    )
    both = quotes.join(reports, on="seller")
    epsilons, cents, costs = (both[x].to_numpy() for x in ("epsilon", "payment_minor_units", "cost"))
    totals, bought = demo.summary.totals, epsilons > 0
    assert (totals.sellers, totals.bought, totals.priced_out) == (456, bought.sum(), (~bought).sum())
    assert totals.paid_minor_units == cents.sum()
    assert totals.paid == cents.sum() / 100
    assert totals.total_epsilon == pytest.approx(math.fsum(epsilons), rel=1e-12)
    assert totals.mean_epsilon == pytest.approx(math.fsum(epsilons) / bought.sum(), rel=1e-12)
    assert totals.mean_payment == pytest.approx(cents.sum() / bought.sum() / 100, rel=1e-12)
    for groups, some in ((demo.summary.bought_groups, bought), (demo.summary.other_groups, ~bought)):
        assert sum(group.sellers for group in groups) == some.sum()
        for group in groups:
            inside = some & (costs >= group.low) & (costs < group.high)
            assert group.sellers == inside.sum()
            assert group.mean_epsilon == pytest.approx(epsilons[inside].mean(), rel=1e-9)
            assert group.mean_payment == pytest.approx(cents[inside].mean() / 100, rel=1e-9)
    # Each part of the sellers has prices of its own: the page's cutoff is about theirs.
    assert epsilons[costs > 1.05 * demo.summary.rule.cutoff].max() == 0.0
    assert epsilons[costs < 0.95 * demo.summary.rule.cutoff].min() > 0.0
    model = json.loads((demo.folder / "model.json").read_text())
    bounds, radius = model["encoder"]["columns"], model["encoder"]["radius"]
    low, high = (np.array([column[end] for column in bounds.values()]) for end in ("low", "high"))
    rows = np.clip((2.0 * test.select(list(bounds)).to_numpy() - low - high) / (high - low), -1, 1)
    rows /= radius * np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / radius)
    cells = np.array(model["description"]["cells"][0])
    margins = rows @ cells[:-1] + cells[-1] * model["intercept_scaling"]
    wrong = ((margins > 0) != (test["diagnosis"] == model["predicts"]["values"][1]).to_numpy()).sum()
    assert (demo.summary.score.wrong, demo.summary.score.records) == (wrong, 113)


def test_the_certificate_is_that_of_the_file_and_all_audits_passed(demo):
    data = (demo.folder / "certificate.json").read_bytes()
    body = data.split(b"\n")[0].removeprefix(b'{"body":').removesuffix(b",")
    assert demo.summary.digest == hashlib.sha256(body).hexdigest()
    assert [audit.passed for audit in demo.summary.audits] == [True] * 4


def test_the_page_stands_alone_and_every_chart_has_a_text_alternative(page, demo):
    text = demo.report.read_text(encoding="utf-8")
    assert "<script" not in text
    assert [address for address in page.addresses if not address.startswith(("#", "data:,"))] == []
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []
    assert len(page.charts) == 3
    for chart in page.charts:
        assert chart["role"] == "img"
        assert chart["aria-label"] == f"{chart['title']}. {chart['desc']}"
        assert len(chart["desc"]) > 40
    assert demo.report.stat().st_size < 300_000


def test_the_page_reads_well(demo, page):
    """Contents lead to every section, audits are told in words, and numbers stand where they belong."""
    text = demo.report.read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="([a-z]+)">([^<]+)</h2>', text)
    assert len(headings) == text.count("<h2") == 11
    assert re.findall(r'<li><a href="#([a-z]+)">([^<]+)</a></li>', text) == headings
    assert text.count("<details>") == 5  # four audits, and the parameters
    assert all(len(audit.words) > 60 and audit.words[:40] in text for audit in demo.summary.audits)
    assert re.findall(r"\d", page.prose) == []  # every number is from the summary
    assert "-0.0%" not in [shown for *_, shown in page.numbers]
    ranges = [shown for name, *_, shown in page.numbers if re.search(r"groups.\d+.(low|high)", name)]
    assert len({len(shown.partition(".")[2]) for shown in ranges}) == 1
    assert 0.0 < dict(demo.summary.changes)["twice the money"] < 1.0


def test_a_page_without_model_test_data_or_certificate_says_so_and_its_title_is_no_markup(without_charts):
    page = Report(simple_page(title="<script>alert(1)</script> & more"))
    assert "<script>alert(1)</script> & more" in page.text
    assert "Nothing has been released from their records yet" in page.prose
    assert "No certificate was given" in page.prose
    assert [name for name, *_ in page.numbers if name.startswith(("score", "digest"))] == []


@pytest.mark.parametrize(("wrong", "is_doubtful"), [(20, False), (35, True)])
def test_a_model_that_may_be_no_better_than_guessing_is_told_to_be_so(wrong, is_doubtful, without_charts):
    """Of 100 test cases; guessing errs in 40 of them."""
    low, high = binomtest(wrong, 100).proportion_ci(0.95, method="exact")
    confusion = ((60, 0), (wrong, 40 - wrong))
    score = Score("public.csv", 100, wrong, wrong / 100, low, high, 0.95, 0.4, ("no", "yes"), confusion)
    costs = Uniform(1, 5).sample(200, np.random.default_rng(5))
    summary = summarise(material(costs, score=score))
    text = render_page(replace(summary, has_model=True))
    assert ("is not shown to be better than a constant guess" in text) == is_doubtful
    words = " ".join(re.sub("<[^>]*>", "", text).split())
    assert f"The model is wrong in {wrong} of 100 public test cases" in words


def test_a_market_too_small_to_hide_in_is_refused():
    with pytest.raises(InvalidInput, match="at least 10 sellers"):
        simple_page(9)


def test_a_failed_audit_is_said_loudly(without_charts):
    rows = [("verdict", "FAILED"), ("first at positions", "17"), ("promises broken", "3")]
    text = simple_page(audits=(noted("Is it so?", False, rows),))
    assert "FAILED: do not rely on this market" in text
    assert "first at positions" not in text


def test_few_withdrawals_leave_no_trace_of_what_they_were_promised():
    """With one withdrawn, the difference of two totals would be one seller's promise, hence their cost."""
    costs = Uniform(1, 5).sample(300, np.random.default_rng(8))
    objective = PaperObjective(1.0, 20.0, 1e-2)
    outcome = material(costs, objective).outcome
    withdrawn = np.zeros(300, dtype=bool)
    gone = int(outcome.epsilons.argmax())
    withdrawn[gone] = True
    few, everybody = (
        summarise(material(costs, objective, withdrawn=gone)) for gone in (withdrawn, np.zeros(300, bool))
    )
    assert everybody.expected_error == outcome.sampling_error + outcome.noise_error
    assert f"{everybody.expected_error!r}" in render_page(everybody)
    assert (few.totals.sellers, few.totals.withdrawn) == (299, 1)
    assert few.totals.total_epsilon == pytest.approx(np.delete(outcome.epsilons, gone).sum())
    assert few.rule.is_planned
    assert few.expected_error is few.noise_share is None
    text = render_page(few)
    for value in (outcome.total, outcome.noise_error, outcome.sampling_error):
        assert repr(value) not in text
    nothing = outcome.epsilons == 0.0  # hides nobody
    assert 10 <= nothing.sum() < 280
    assert summarise(material(costs, objective, withdrawn=withdrawn | nothing)).rule.is_planned
    beforehand = "Beforehand it was to be expected that nobody is bought from above"
    assert beforehand in Report(text).prose
    assert "The rule is the one that was to be expected" in charts_of(few)["sellers"]
    whole = material(costs, objective)
    parts = replace(whole, rules=whole.rules | {"mechanism": "cross-priced"})
    for made, said in ((whole, "Nobody is bought from above"), (parts, "each part's own differ, nobody is")):
        page = Report(render_page(summarise(made))).prose
        assert said in page
        assert beforehand not in page
        assert ("brought the model: above" in page) == (made is whole)
    fixed = whole.rules | {"schedules": [PriceSchedule([1.0, 4.0], [1.0, 0.0]).to_dict()]}
    one_gone = replace(material(costs, objective, withdrawn=withdrawn), rules=fixed)
    assert not summarise(one_gone).rule.is_planned  # a schedule tells of nobody
    withdrawn[np.flatnonzero(~nothing)[:10]] = True
    assert not summarise(material(costs, objective, withdrawn=withdrawn)).rule.is_planned


@pytest.mark.parametrize(
    ("formula", "objective"),
    [
        ("uniform(1, 5)", PaperObjective(50.0, 1.0, 1e-6)),
        ("uniform(0, 1)", PaperObjective(1.0, 1.0, 1e-3, max_mean_epsilon=0.1)),
        ("expon()", Objective.for_model(5, 1e-4, weight_cap=5.0)),
    ],
)
def test_unusual_markets_have_a_page_too(formula, objective, without_charts):
    """Everybody bought from; a bound that binds; costs without an upper end."""
    dist = parse_distribution(formula)
    costs = dist.sample(200, np.random.default_rng(2))
    made = material(costs, objective, dist, 1000)
    outcome, summary = made.outcome, summarise(made)
    assert sum(group.sellers for group in summary.bought_groups) == (outcome.epsilons > 0).sum()
    assert summary.totals.paid == int(whole_units(outcome.payments, 1000).sum()) / 1000
    page = Report(render_page(summary))
    assert [value for _, _, value, _ in page.numbers if value in ("nan", "inf")] == []
    if (outcome.epsilons > 0).all():
        assert "Nobody's cost was too high" in page.prose


def test_a_forecast_is_shown_with_every_budget_and_what_beats_guessing():
    each = [Prediction(money, 200, "personal prices", 0.7, 0.01, 0.2, 0.01, money) for money in (10.0, 20.0)]
    found = Forecast("accuracy", tuple(each), 0.5, 0.9)
    page = simple_page(currency="EUR", forecast=found)
    assert "All of these budgets, from 10 EUR on, beat guessing (0.500)" in page
    assert 'data-name="forecast.predictions.1.score"' in page
