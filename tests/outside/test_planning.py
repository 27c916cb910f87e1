"""Plans, costs and audits: numbers that simulated campaigns confirm, and commands that print them."""

import json
import shlex

import numpy as np
import pytest

from outside.driver import write_rules, write_table
from outside.goods import GOODS
from outside.processes import run

COSTS = ("--costs", "uniform(1, 5)")
PLAN = ("plan", *COSTS, "--features", 4)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Run a command in a folder of its own and return what it printed as JSON."""
    folder = tmp_path_factory.mktemp("planning")

    def asked(*arguments, code=0):
        return run(*arguments, "--json", cwd=folder, code=code).json

    asked.folder = folder
    return asked


# --- plans ---


def test_a_target_and_a_budget_are_inverse_to_each_other(ask):
    target = ask(*PLAN, "--sellers", 1000, "--target", 0.05)
    prospect = target["prospect"]
    assert prospect["sampling_error"] + prospect["noise_error"] == pytest.approx(0.05, rel=5e-3)
    again = ask(*PLAN, "--sellers", 1000, "--budget", target["budget"])
    assert again["objective"]["payment_weight"] == pytest.approx(
        target["objective"]["payment_weight"], rel=0.02
    )


def test_every_plan_says_what_personal_prices_buy(ask):
    for shape in ((), ("--shape", "quadratic", "--max-epsilon", 5)):
        plan = ask(*PLAN, "--sellers", 2000, "--budget", 500, *shape)
        best = plan["prospect"]["sampling_error"] + plan["prospect"]["noise_error"]
        names = [rule["name"] for rule in plan["alternatives"]]
        assert names == ["best posted price", "price that half accept", "same for all"]
        assert all(rule["sampling_error"] + rule["noise_error"] > best for rule in plan["alternatives"])
        assert plan["changes"]["twice the money"] < 1.0
    shown = run(*PLAN, "--sellers", 2000, "--budget", 500, cwd=ask.folder).out
    for words in ("twice the people", "best posted price", "payment weight"):
        assert words in shown


def test_the_printed_init_command_has_the_costs_that_were_planned_for(ask):
    plan = ask(*PLAN, "--sellers", 300, "--budget", 40, "--weight-cap", 3)
    words = shlex.split(plan["init"])
    assert words[:2] == ["dpmarket", "init"]
    settings = dict(word.split("=", 1) for word in words[3::2])
    assert settings["costs.distribution"] == "uniform(1, 5)"
    assert settings["sellers.expected"] == "300"
    assert settings["objective.weight_cap"] == "3.0"
    assert plan["init"] in " ".join(
        run(*PLAN, "--sellers", 300, "--budget", 40, "--weight-cap", 3, cwd=ask.folder).out.split()
    )


# --- costs ---


def test_costs_are_shown_with_their_virtual_costs(ask):
    rows = ask("costs", "show", "lognorm(s=0.5, scale=2, high=20)")["quantiles"]
    virtual = [row["virtual_cost"] for row in rows]
    assert virtual == sorted(virtual)
    assert all(row["virtual_cost"] >= row["cost"] * (1.0 - 1e-12) for row in rows)


def test_costs_fitted_to_a_pilot_are_a_distribution_that_plans_take(ask):
    pilot = np.random.default_rng(0).uniform(1.0, 5.0, 80)
    write_table(ask.folder / "pilot.csv", {"cost": [f"{cost:.4f}" for cost in pilot]})
    data = ask("costs", "fit", "pilot.csv", "-o", "costs.json")
    assert "uniform" in json.dumps(data)
    shown = json.dumps(data)
    assert not any(f"{cost:.4f}" in shown for cost in pilot[1:40])
    plan = ask("plan", "--costs", "costs.json", "--sellers", 200, "--budget", 40, "--features", 4)
    assert plan["prospect"]["expected_payment"] == pytest.approx(40.0, rel=0.01)
    assert "costs.distribution=costs.json" in plan["init"]
    run("costs", "fit", "pilot.csv", "-o", "costs.json", cwd=ask.folder, code=1)  # never overwritten
    run("costs", "fit", "pilot.csv", "--column", "price", cwd=ask.folder, code=1)


# --- audits ---


def test_the_truthfulness_audit_passes_and_counts_what_it_tried(ask):
    options = (*COSTS, "--features", 4, "--payment-weight", 0.1, "--sellers", 4, "--markets", 1)
    options = (*options, "--misreports", 24)
    for mechanism in ("offline", "online"):
        data = ask("audit", "truthfulness", *options, "--mechanism", mechanism)
        assert data["passed"] is True
        assert 80 <= data["misreports_tried"] <= 140
    assert "passed" in run("audit", "truthfulness", *options, cwd=ask.folder).out
    run("audit", "truthfulness", *options, "--mechanism", "none", cwd=ask.folder, code=2)


def test_the_participation_audit_counts_quadratic_costs_where_the_rules_have_them(ask):
    """Epsilons below 1 cost less than linear ones: payments for them pass by the rules' own cost alone."""
    rules = GOODS["two classes"].rules(100, budget=10.0)
    for shape in ("quadratic", "linear"):
        rules["costs"]["shape"] = shape
        write_rules(ask.folder / f"{shape}.toml", rules)
    costs = [f"{cost:.4f}" for cost in np.random.default_rng(3).uniform(1.0, 5.0, 30)]
    write_table(ask.folder / "sellers.csv", {"seller": [f"seller {k}" for k in range(30)], "cost": costs})
    run("quote", "sellers.csv", "-o", "squared.csv", "-m", "quadratic.toml", "--yes", cwd=ask.folder)
    files = ("squared.csv", "sellers.csv", "-m")
    assert ask("audit", "participation", *files, "quadratic.toml")["passed"] is True
    done = run("audit", "participation", *files, "linear.toml", "--json", cwd=ask.folder, code=1)
    assert done.json["passed"] is False
    assert not any(cost in done.out + done.err for cost in costs)


def test_the_privacy_audit_passes_the_estimator(ask):
    """At the command's false-alarm rate for the sampled part, set to 1e-6."""
    data = ask("audit", "privacy", 0.5, 1, 4, "--fits", 400, "--false-alarm", 1e-6)
    assert data["passed"] is True


# --- refusals ---


@pytest.mark.parametrize(
    "arguments",
    [
        (*PLAN, "--sellers", 100, "--target", 1e-9, "--max-epsilon", 1),
        (*PLAN, "--sellers", 0, "--budget", 2),
        (*PLAN, "--sellers", 10),
        (*PLAN, "--sellers", 10, "--budget", 2, "--target", 1),
        (*PLAN, "--sellers", 10, "--budget", 2, "--shape", "quadratic"),
        ("audit", "privacy", 0.5, -1, 4, "--fits", 100),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_refused_in_one_line(arguments, ask):
    done = run(*arguments, cwd=ask.folder, code=None)
    assert done.code in (1, 2)
    assert done.out == ""
    assert 0 < len(done.err.strip()) < 1_000
