"""Plans, sweeps, costs and audits: numbers that simulated campaigns confirm, and commands that print them."""

import json
import re
import shlex

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.planning import plan_sellers, plan_target
from outside.driver import read_table, write_rules, write_table
from outside.goods import GOODS
from outside.processes import run

U = dpm.Uniform(1, 5)
COSTS = ("--costs", "uniform(1, 5)")
WANTED = dpm.BuyerObjective(1.0, 1.0, 1.0)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Run a command in a folder of its own and return what it printed as JSON."""
    folder = tmp_path_factory.mktemp("planning")

    def asked(*arguments, code=0):
        return run(*arguments, "--json", cwd=folder, code=code).json

    asked.folder = folder
    return asked


def simulated_payments(mechanism, sellers, campaigns, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([mechanism.run(U.sample(sellers, rng)).total_payment for _ in range(campaigns)])


# --- plans ---


def test_a_planned_budget_is_met_on_average_by_simulated_campaigns(ask):
    """200 campaigns; the seed is fixed, and five standard errors leave a false alarm of 1e-6."""
    plan = ask("plan", "budget", *COSTS, "--sellers", 200, "--budget", 40, "--features", 4)
    assert plan["expected_payment"] == pytest.approx(40.0, rel=0.01)
    mechanism = dpm.OfflineMechanism(U, dpm.BuyerObjective(**plan["objective"]))
    paid = simulated_payments(mechanism, 200, 200)
    assert abs(paid.mean() - 40.0) <= 5.0 * paid.std() / np.sqrt(200) + 0.01 * 40.0


def test_a_budget_with_a_confidence_suffices_that_often():
    """The share of 200 campaigns above the budget is at most .1, by five standard errors (rate 1e-6)."""
    rng = np.random.default_rng(1)
    plan = dpm.plan_payment_weight(U, WANTED, 100, 20.0, confidence=0.9, rng=rng)
    objective = dpm.BuyerObjective(1.0, 1.0, float(plan))
    paid = simulated_payments(dpm.OfflineMechanism(U, objective), 100, 200, seed=2)
    assert (paid > 20.0).mean() <= 0.1 + 5.0 * np.sqrt(0.09 / 200)
    assert paid.mean() > 0.7 * 20.0
    on_average = dpm.plan_payment_weight(U, WANTED, 100, 20.0)
    assert float(plan) > float(on_average)


def test_online_campaigns_meet_the_planned_budget_on_average():
    plan = dpm.plan_payment_weight(U, WANTED, 200, 40.0)
    curve = dpm.population_curve(U, dpm.BuyerObjective(1.0, 1.0, float(plan)), 200)
    paid = simulated_payments(dpm.OnlineMechanism(U, curve), 200, 200)
    assert abs(paid.mean() - 40.0) <= 5.0 * paid.std() / np.sqrt(200) + 0.03 * 40.0


def test_a_target_a_number_of_sellers_and_a_budget_are_inverse_to_each_other(ask):
    target = ask("plan", "target", *COSTS, "--sellers", 1000, "--target", 0.2)
    assert target["expected_excess_risk"] == pytest.approx(0.2, rel=5e-3)
    budget = target["expected_payment"]
    again = dpm.plan_payment_weight(U, WANTED, 1000, budget)
    assert float(again) == pytest.approx(target["payment_weight"], rel=0.02)
    assert again.expected_excess_risk == pytest.approx(0.2, rel=5e-3)
    enough = ask("plan", "sellers", *COSTS, "--budget", budget, "--target", 0.2)
    assert enough["sellers"] == pytest.approx(1000, rel=0.05)
    assert plan_sellers(U, WANTED, budget, 0.2).sellers == enough["sellers"]
    assert plan_target(U, WANTED, 1000, 0.2).expected_payment == pytest.approx(budget, rel=1e-9)


def test_a_table_of_budgets_falls_with_the_number_of_sellers(ask):
    table = ask("plan", "table", *COSTS, "--target", 0.2, "--sellers", "20,500,5000")
    assert table["plans"][0] is None  # out of reach: 20 sellers cannot reach .2
    few, many = (plan["expected_payment"] for plan in table["plans"][1:])
    assert few > many > table["limit"] > 0.0
    assert few == pytest.approx(plan_target(U, WANTED, 500, 0.2).expected_payment, rel=0.02)


def test_suggested_prices_have_a_smaller_error_than_plain_ones_at_the_same_budget():
    suggested = dpm.suggest_prices(U, 300, 100.0, n_features=11, row_bound=1.0)
    plain = dpm.BuyerObjective(1.0, 1.0, float(dpm.plan_payment_weight(U, WANTED, 300, 100.0)))

    def measured(objective):
        epsilons = dpm.OfflineMechanism(U, objective).run(U.sample(300, np.random.default_rng(0))).epsilons
        weights = epsilons / epsilons.sum()
        return 0.2 * float(weights @ weights) + 4 * 11 * 12 / epsilons.sum() ** 2

    assert measured(suggested) < 0.9 * measured(plain)


def test_one_price_for_all_is_recommended_where_it_costs_little(ask):
    """The best rule never errs more; at 3,000 sellers a posted price loses so little that it is suggested."""
    few, many = (
        ask("plan", "budget", *COSTS, "--sellers", sellers, "--budget", budget, "--features", 4)
        for sellers, budget in ((500, 60), (3000, 500))
    )
    for plan in (few, many):
        rules = plan["rules"]
        assert rules["best"]["total"] <= rules["posted"]["total"]
        assert rules["loss"] == pytest.approx(rules["posted"]["total"] / rules["best"]["total"] - 1.0)
        # What a posted price of this size is expected to pay: nearly the budget.
        accepting = plan["settings"]["sellers.expected"] * (rules["price"] - 1.0) / 4.0
        paid = accepting * rules["price"] * rules["epsilon"]
        assert paid == pytest.approx(plan["settings"]["objective.budget"], rel=0.02)
    assert few["rules"]["recommended"] != many["rules"]["recommended"] == "posted price"
    assert few["rules"]["loss"] > many["rules"]["loss"]


# --- tables ---


def test_a_sweep_buys_more_and_errs_less_with_every_larger_budget(ask):
    arguments = ("sweep", *COSTS, "--sellers", 200, "--features", 3, "--repetitions", 5)
    rows = ask(*arguments, "--budgets", "20,80,320")["rows"]
    paid = [row["payment"] for row in rows]
    assert paid == sorted(paid)
    np.testing.assert_allclose(paid, [20.0, 80.0, 320.0], rtol=0.2)
    assert rows == ask(*arguments, "--budgets", "20,80,320")["rows"]  # seeded
    shown = run(*arguments, "--budgets", "20,80", cwd=ask.folder).out
    assert shown.count("\n") >= 3


def test_a_sweep_goes_on_from_the_rows_that_it_kept(ask):
    arguments = (
        "sweep",
        *COSTS,
        "--sellers",
        100,
        "--features",
        3,
        "--repetitions",
        3,
        "--keep-in",
        "rows.json",
    )
    first = ask(*arguments, "--budgets", "20,40")["rows"]
    assert ask(*arguments, "--budgets", "20,40")["rows"] == first
    assert (ask.folder / "rows.json").exists()


def test_buyers_are_compared_at_the_same_expected_payment(ask):
    arguments = ("compare", *COSTS, "--data", "wine", "--budgets", 400, "--repetitions", 2)
    (table,) = ask(*arguments)["comparisons"]
    assert table["data"] == "wine"
    assert len(table["standings"]) == 4
    text = json.dumps(table)
    assert all(words in text for words in ("posted", "cheapest", "same"))
    assert "wine" in run(*arguments, cwd=ask.folder).out


def test_a_menu_is_what_sellers_who_pick_would_be_quoted(ask):
    arguments = ("menu", *COSTS, "--payment-weight", 0.01, "--sellers", 100)
    rows = ask(*arguments, "--points", 20)["menu"]
    assert rows[0]["epsilon"] == rows[0]["payment"] == 0.0
    curve = dpm.population_curve(U, dpm.BuyerObjective(1.0, 1.0, 0.01), 100)
    market = dpm.OnlineMechanism(U, curve)
    for row in rows[1:]:
        assert row["payment"] >= row["cost"] * row["epsilon"]
        assert market.quote(row["cost"]).epsilon == pytest.approx(row["epsilon"], rel=1e-9)
    assert "epsilon" in run(*arguments, cwd=ask.folder).out


def test_the_menu_of_a_market_file_is_its_own(ask):
    write_rules(ask.folder / "market.toml", GOODS["two classes"].rules(50))
    rows = ask("menu", "--market", "market.toml")["menu"]
    assert max(row["epsilon"] for row in rows) <= 1.0
    run("menu", "--market", "market.toml", "--sellers", 3, cwd=ask.folder, code=2)


# --- costs ---


@pytest.mark.parametrize(
    "text", ["uniform(1, 5)", "lognorm(s=0.5, scale=2, high=20)", "0.7*uniform(0, 1) + 0.3*uniform(2, 3)"]
)
def test_costs_are_shown_with_their_virtual_costs(ask, text):
    data = ask("costs", "show", text)
    assert all(name in json.dumps(data) for name in ("virtual", "support"))
    lists = [value for value in data.values() if isinstance(value, list) and value]
    (rows,) = (rows for rows in lists if isinstance(rows[0], dict) and "cost" in rows[0])
    virtual = [row["virtual_cost"] for row in rows]
    assert virtual == sorted(virtual)
    assert text.split("(")[0].split("*")[-1] in run("costs", "show", text, cwd=ask.folder).out
    for row in rows:
        assert row["virtual_cost"] >= row["cost"] * (1.0 - 1e-12)


def test_costs_fitted_to_a_pilot_are_a_distribution_that_plans_take(ask):
    pilot = np.random.default_rng(0).uniform(1.0, 5.0, 80)
    write_table(ask.folder / "pilot.csv", {"cost": [f"{cost:.4f}" for cost in pilot]})
    data = ask("costs", "fit", "pilot.csv", "-o", "costs.json")
    assert "uniform" in json.dumps(data)
    shown = json.dumps(data)
    assert not any(f"{cost:.4f}" in shown for cost in pilot[1:40])
    plan = ask("plan", "budget", "--costs", "costs.json", "--sellers", 200, "--budget", 40, "--features", 4)
    assert plan["expected_payment"] == pytest.approx(40.0, rel=0.01)
    run("costs", "fit", "pilot.csv", "-o", "costs.json", cwd=ask.folder, code=1)  # never overwritten
    run("costs", "fit", "pilot.csv", "--column", "price", cwd=ask.folder, code=1)


@pytest.mark.parametrize(
    "text",
    ["uniform(5, 1)", "uniform(1)", "nothing(1)", "__import__('os')", "uniform(1, 5", "-1*uniform(0, 1)"],
)
def test_a_formula_that_is_no_distribution_is_refused(ask, text):
    done = run("costs", "show", "--", text, cwd=ask.folder, code=1)
    assert done.err.strip()


# --- audits ---


def test_the_truthfulness_audit_passes_and_counts_what_it_tried(ask):
    options = (*COSTS, "--payment-weight", 0.1, "--sellers", 4, "--profiles", 1, "--misreports", 30)
    for mechanism in ("offline", "online"):
        data = ask("audit", "truthfulness", *options, "--mechanism", mechanism)
        assert data["passed"] is True
        assert 100 <= data["lies_tried"] <= 140
    assert "passed" in run("audit", "truthfulness", *options, cwd=ask.folder).out
    run("audit", "truthfulness", *options, "--mechanism", "none", cwd=ask.folder, code=2)


def test_the_participation_audit_finds_who_was_paid_too_little_and_names_no_cost(ask):
    good = GOODS["two classes"]
    costs = [f"{cost:.4f}" for cost in np.random.default_rng(3).uniform(1.0, 5.0, 30)]
    ids = [f"seller {k}" for k in range(30)]
    write_rules(ask.folder / "market.toml", good.rules(30))
    write_table(ask.folder / "reports.csv", {"seller": ids, "cost": costs})
    run("quote", "reports.csv", "-o", "quotes.csv", cwd=ask.folder)
    assert ask("audit", "participation", "quotes.csv", "reports.csv")["passed"] is True
    dear = [f"{3 * float(cost):.4f}" for cost in costs]
    write_table(ask.folder / "dear.csv", {"seller": ids[::-1], "cost": dear[::-1]})
    done = run("audit", "participation", "quotes.csv", "dear.csv", cwd=ask.folder, code=1)
    assert not any(cost in done.out + done.err for cost in dear)
    quotes = read_table(ask.folder / "quotes.csv")
    bought = next(row for row in quotes if float(row["epsilon"]) > 0.0)
    worth = float(bought["epsilon"]) * float(costs[ids.index(bought["seller"])])
    cents = int(100 * worth)  # rounded down: part of a cent is missing
    bought |= {"payment_minor_units": str(cents), "payment": f"{cents / 100:.2f}"}
    write_table(ask.folder / "less.csv", {name: [row[name] for row in quotes] for name in quotes[0]})
    data = ask("audit", "participation", "less.csv", "reports.csv", code=1)
    assert data["passed"] is False


def test_the_privacy_audit_passes_the_estimator(ask):
    """At the command's false-alarm rate for the sampled part, set to 1e-6."""
    data = ask("audit", "privacy", 0.5, 1, 4, "--fits", 400, "--processes", 1, "--false-alarm", 1e-6)
    assert data["passed"] is True


class Careless:
    """A learner that releases a sum of records with noise of a fixed size, whatever was promised."""

    rng = np.random.default_rng(0)

    def fit(self, x, y, epsilons):
        self.coef_ = np.where(y > 0, 1.0, -1.0) @ x + self.rng.laplace(scale=0.1, size=x.shape[1])
        return self


def test_the_sampled_audit_catches_a_learner_with_too_little_noise():
    found = dpm.audit_privacy_sampled(Careless(), [0.5, 1.0, 1.0], people=[0], fits=400, false_alarm=1e-6)
    assert not found.passed
    assert found.found[0] > 0.5


# --- every command ---


def commands(*path, folder):
    """Return the path of every command, by the lists in the help of the groups."""
    shown = run(*path, "--help", cwd=folder).out
    _, listed, names = shown.partition("Commands:")
    if not listed:
        return [path]
    names = re.findall(r"^  ([a-z][a-z-]+)(?:  |$)", names.split("\n\n")[0], re.MULTILINE)
    return [found for name in names for found in commands(*path, name, folder=folder)]


@pytest.fixture(scope="module")
def every_command(ask):
    return commands(folder=ask.folder)


def test_every_command_has_help_with_an_example_of_its_own(every_command, ask):
    assert len(every_command) > 30
    for path in every_command:
        shown = " ".join(run(*path, "--help", cwd=ask.folder).out.split())
        assert "Usage:" in shown
        example = shown.rpartition("Example:")[2].replace("- ", "-")
        assert shlex.split(example)[: len(path) + 1] == ["dpmarket", *path]


def test_every_command_exits_with_2_and_a_sentence_on_wrong_usage(every_command, ask):
    for path in every_command:
        done = run(*path, "--no-such-option", cwd=ask.folder, code=2)
        assert "no-such-option" in done.err
    for wrong in (("no-such-command",), ("plan", "no-such-plan"), ("plan", "target", *COSTS), ("sweep",)):
        assert run(*wrong, cwd=ask.folder, code=2).err.strip()


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "target", *COSTS, "--sellers", 100, "--target", 0.05),
        ("plan", "sellers", *COSTS, "--budget", 2, "--target", 0.4),
        ("plan", "budget", *COSTS, "--sellers", 0, "--budget", 2, "--features", 2),
        ("plan", "budget", *COSTS, "--sellers", 10, "--budget", 2),
        ("sweep", *COSTS, "--budgets", "1,x", "--sellers", 10, "--features", 2),
        ("sweep", *COSTS, "--budgets", "1"),
        ("audit", "privacy", 0.5, -1, 4, "--fits", 100),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_refused_in_one_line(arguments, ask):
    done = run(*arguments, cwd=ask.folder, code=None)
    assert done.code in (1, 2)
    assert done.out == ""
    assert 0 < len(done.err.strip()) < 1_000
