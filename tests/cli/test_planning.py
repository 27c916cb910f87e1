"""The commands that plan: what they print, and what they refuse."""

import json

import pytest

from dpmarket.costs import Uniform
from dpmarket.planning import plan_prices, statistic_error
from dpmarket.statistics import PrivateMean
from support.commands import run
from support.statistics import MEAN

UNIFORM = ("--costs", "uniform(1, 5)")


def test_plan_budget_suggests_prices_and_recommends_a_rule():
    arguments = ("plan", "budget", *UNIFORM, "--sellers", 3000, "--budget", 500, "--features", 4)
    data = json.loads(run(*arguments, "--json").stdout)
    assert data["expected_payment"] == pytest.approx(500.0, rel=2e-3)
    assert data["objective"]["payment_weight"] == data["payment_weight"]
    assert data["prices_are_suggested"]
    assert data["rules"]["recommended"] == "posted price"
    assert data["settings"]["objective.mechanism"] == "posted price"
    assert data["advice"] is None
    shown = run(*arguments).stdout
    assert f"{data['payment_weight']:.6g}" in shown
    assert "of it noise" in shown
    assert "Of the expected error" in shown
    assert "an even guess about one of them" in shown
    assert "One price for all" in shown
    assert "dpmarket init --set objective.budget=500 --set sellers.expected=3000" in shown
    assert "--set 'objective.mechanism=posted price'" in shown


def test_plan_budget_keeps_prices_that_are_given_and_warns_where_noise_dominates():
    shown = run("plan", "budget", *UNIFORM, "--sellers", 3000, "--budget", 50, "--noise", 20).stdout
    assert "expected excess risk" in shown
    assert "--set objective.noise=20" in shown
    assert "--set objective.payment_weight=" in shown
    shown = run("plan", "budget", *UNIFORM, "--sellers", 500, "--budget", 60, "--features", 30).stdout
    assert "Noise dominates" in shown
    assert "It would not with a budget of" in shown


def test_plan_table_ends_near_its_limit():
    arguments = ("plan", "table", *UNIFORM, "--target", 0.2, "--sellers", "20,5000")
    data = json.loads(run(*arguments, "--json").stdout)
    assert data["plans"][0] is None
    assert data["limit"] == 5.0
    assert "out of reach" in run(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "target", *UNIFORM, "--sellers", 100, "--target", 0.05), "above 0.1"),
        (("plan", "sellers", *UNIFORM, "--budget", 2, "--target", 0.4), "above 0.5"),
        (("plan", "budget", *UNIFORM, "--sellers", 0, "--budget", 2, "--features", 2), "sellers"),
        (("plan", "budget", *UNIFORM, "--sellers", 10, "--budget", 2), "number of features"),
        (("sweep", *UNIFORM, "--budgets", "1", "--sellers", 10), "number of features"),
        (("plan", "table", *UNIFORM, "--target", 0.2, "--sellers", "a,b"), "commas"),
        (("sweep", *UNIFORM, "--budgets", "1,x", "--sellers", 10), "commas"),
        (("sweep", *UNIFORM, "--budgets", "1"), "--sellers or --data"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(arguments, words):
    refusal = run(*arguments, code=1).stderr
    assert words in refusal
    assert refusal.count("\n") == 1


def test_sweep_and_compare_print_tables_and_go_on_after_a_stop(tmp_path):
    arguments = (
        "sweep",
        *UNIFORM,
        "--sellers",
        500,
        "--budgets",
        "50,200",
        "--repetitions",
        3,
        "--features",
        3,
    )
    table = json.loads(run(*arguments, "--json", "--keep-in", "rows.json", cwd=tmp_path).stdout)
    assert table["rows"][0]["payment"] < table["rows"][1]["payment"]
    assert (tmp_path / "rows.json").exists()
    assert "expected error" in run(*arguments, "--keep-in", "rows.json", cwd=tmp_path).stdout
    given = run(*arguments[:-2], "--noise", 20).stdout
    assert "excess risk" in given
    small = ("--data", "wine", "--budgets", "400", "--payment-weight", "1e-5", "--repetitions", 2)
    shown = run("compare", *UNIFORM, *small, "--keep-in", "kept", cwd=tmp_path).stdout
    for words in ("dpmarket", "posted", "cheapest", "same", "log loss", "overall", "wine, 143 sellers"):
        assert words in shown
    assert (tmp_path / "kept" / "wine-0.json").exists()
    (table,) = json.loads(run("compare", *UNIFORM, *small, "--json").stdout)["comparisons"]
    assert (table["data"], table["costs"], len(table["standings"])) == ("wine", "uniform(1, 5)", 4)


def test_the_menu_of_a_market_file_is_its_own(tmp_path):
    settings = ("objective.budget=200", "sellers.expected=300", "objective.mechanism=posted price")
    run("init", *(part for text in settings for part in ("--set", text)), cwd=tmp_path)
    rows = json.loads(run("menu", "--market", "market.toml", "--json", cwd=tmp_path).stdout)["menu"]
    assert len(rows) == 2
    assert rows[0]["epsilon"] == rows[0]["payment"] == 0.0
    assert rows[1]["payment"] == pytest.approx(rows[1]["epsilon"] * rows[1]["cost"])
    assert "name a market file" in run("menu", code=2).stderr
    assert "leave out" in run("menu", "--market", "market.toml", "--sellers", 3, code=2, cwd=tmp_path).stderr


def test_a_pilot_is_named_by_the_file_that_was_fitted_to_it(tmp_path):
    (tmp_path / "pilot.csv").write_text("cost\n" + "\n".join(str(1 + k / 20) for k in range(60)))
    run("costs", "fit", tmp_path / "pilot.csv", "-o", "costs.json", cwd=tmp_path)
    written = (tmp_path / "costs.json").read_text()
    assert json.loads(written)["pilot"] == {"file": "pilot.csv", "column": "cost"}
    assert str(tmp_path) not in written


def test_plan_budget_knows_what_a_market_file_asks_for(tmp_path):
    (tmp_path / "market.toml").write_text(MEAN)
    asked = ("plan", "budget", "--costs", "uniform(1, 5)", "--sellers", 1000, "--budget", 20, "--json")
    done = run(*asked, "--market", "market.toml", cwd=tmp_path)
    planned = json.loads(done.stdout)
    expected = plan_prices(Uniform(1, 5), 1000, 20.0, statistic_error(PrivateMean(18, 90)))
    assert planned["expected_error"]["total"] == pytest.approx(expected.expected_error.total, rel=1e-9)
    assert planned["prices_are_suggested"]
    run(*asked, "--market", "market.toml", "--features", 2, cwd=tmp_path, code=2)


def test_plan_budget_knows_the_number_of_labels(tmp_path):
    asked = ("plan", "budget", "--costs", "uniform(1, 5)", "--sellers", 1000, "--budget", 2000, "--json")
    two, three = (
        json.loads(run(*asked, "--features", 2, "--classes", count, cwd=tmp_path).stdout) for count in (2, 3)
    )
    assert three["expected_error"]["noise_part"] > two["expected_error"]["noise_part"]


@pytest.mark.parametrize(("features", "told"), [(3, "gain nothing here"), (60, "With a delta of 0.0001")])
def test_the_plan_of_a_market_with_a_delta_says_which_noise_is_the_smaller_one(tmp_path, features, told):
    columns = "\n".join(f"x{k} = {{ low = 0, high = 1 }}" for k in range(features))
    (tmp_path / "market.toml").write_text(
        '[sellers]\nexpected = 60\n[costs]\ndistribution = "uniform(1, 5)"\n'
        "[objective]\nbudget = 300.0\ndelta = 1e-4\n"
        f"[features]\n{columns}\n[label]\nvalues = [0, 1]\n"
    )
    market = ("--market", tmp_path / "market.toml")
    shown = run("plan", "budget", "--sellers", 60, "--budget", 300, *market).stdout
    assert told in " ".join(shown.split())
    refused = run("plan", "budget", *UNIFORM, "--sellers", 60, "--budget", 300, *market, code=2).stderr
    assert "leave out --costs" in " ".join(refused.split())


def test_plan_budget_takes_costs_from_the_market_file_unless_others_are_given(tmp_path):
    (tmp_path / "market.toml").write_text(MEAN)
    asked = ("plan", "budget", "--sellers", 1000, "--budget", 20, "--json")
    market = ("--market", "market.toml")
    own, same, other = (
        json.loads(run(*asked, *market, *costs, cwd=tmp_path).stdout)["payment_weight"]
        for costs in ((), UNIFORM, ("--costs", "uniform(2, 5)"))
    )
    assert own == same != other
    assert "by --costs or by a market file" in " ".join(run(*asked, cwd=tmp_path, code=2).stderr.split())


def test_plan_budget_takes_budget_and_people_from_the_market_file_unless_others_are_given(tmp_path):
    run("init", "market.toml", "--set", "sellers.expected=90", "--set", "objective.budget=70", cwd=tmp_path)
    asked = ("plan", "budget", "--market", "market.toml", "--json")
    own, same, other = (
        json.loads(run(*asked, *options, cwd=tmp_path).stdout)["payment_weight"]
        for options in ((), ("--sellers", 90, "--budget", 70), ("--sellers", 200))
    )
    assert own == same != other
    sure = ("--set", "objective.confidence=0.9", "--set", "objective.weight_cap=3")
    run(
        "init",
        "sure.toml",
        "--set",
        "sellers.expected=90",
        "--set",
        "objective.budget=70",
        *sure,
        cwd=tmp_path,
    )
    told = ("--market", "sure.toml", "--json")
    said = json.loads(run("plan", "budget", *told, cwd=tmp_path).stdout)["payment_weight"]
    options = ("--budget", 70, "--confidence", 0.9, "--weight-cap", 3)
    assert said == json.loads(run("plan", "budget", *told, *options, cwd=tmp_path).stdout)["payment_weight"]
    assert said != own
    refusal = run("plan", "budget", *UNIFORM, "--sellers", 200, code=2).stderr
    assert "--sellers and --budget, or name a market file" in " ".join(refusal.split())
