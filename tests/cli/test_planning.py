"""The commands that plan: what they print, and what they refuse."""

import json

import pytest

from support.commands import run

UNIFORM = ("--costs", "uniform(1, 5)")


def test_plan_budget_prints_a_payment_weight_that_meets_the_budget():
    arguments = ("plan", "budget", *UNIFORM, "--sellers", 3000, "--budget", 50)
    data = json.loads(run(*arguments, "--json").stdout)
    assert data["expected_payment"] == pytest.approx(50.0, rel=2e-3)
    assert data["objective"]["payment_weight"] == data["payment_weight"]
    assert f"{data['payment_weight']:.6g}" in run(*arguments).stdout


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
        (("plan", "budget", *UNIFORM, "--sellers", 0, "--budget", 2), "sellers"),
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
    arguments = ("sweep", *UNIFORM, "--sellers", 1500, "--budgets", "5,20", "--repetitions", 3)
    table = json.loads(run(*arguments, "--json", "--keep-in", "rows.json", cwd=tmp_path).stdout)
    assert table["rows"][0]["payment"] < table["rows"][1]["payment"]
    assert (tmp_path / "rows.json").exists()
    assert "excess risk" in run(*arguments, "--keep-in", "rows.json", cwd=tmp_path).stdout
    arguments = ("compare", *UNIFORM, "--budgets", "400", "--payment-weight", "1e-5", "--repetitions", 2)
    shown = run(*arguments).stdout
    for buyer in ("dpmarket", "posted", "cheapest", "same"):
        assert buyer in shown
