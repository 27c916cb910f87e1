"""What people see of a value: one short line, a table, a data frame; no individual by accident."""

import re

import numpy as np
import polars as pl
import pytest

import dpmarket as dpm
from dpmarket.audit import PrivacyFindings
from dpmarket.display import html_table
from dpmarket.planning import Comparison, Tuning
from dpmarket.planning.comparison import Standing
from dpmarket.planning.tuning import Candidate


@pytest.fixture(scope="module")
def outcome():
    mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    return mechanism.run([1.5, 2.0, 4.9], seller_ids=["<b>a", "b", "c"])


def audits(outcome):
    yield dpm.audit_participation(outcome, [1.5, 2.0, 4.9])
    mechanism = dpm.mechanisms.PostedPrice(dpm.Uniform(1, 5), price=2.0, epsilon=1.0)
    yield dpm.audit_truthfulness(mechanism, dpm.Uniform(1, 5), 2, 1, 20, np.random.default_rng(0))
    people, promises = np.array([0, 2]), np.array([1.0, 2.0])
    yield PrivacyFindings("exact", people, promises, promises / 2, 0, 0.0, {})


def test_a_value_prints_as_one_line_without_an_array(outcome):
    for value in (outcome, *audits(outcome)):
        line = repr(value)
        assert "\n" not in line
        assert "array" not in line
        assert len(line) < 250
        assert line.startswith(type(value).__name__ + "(")


def test_neither_line_nor_table_of_an_outcome_shows_an_individual(outcome):
    for text in (repr(outcome), outcome._repr_html_()):
        assert "<b>a" not in text
        for value in (*outcome.payments[:2], *outcome.epsilons[:2]):
            assert f"{value:.3g}" not in re.sub(r"\d+%", "", text)


def test_a_notebook_shows_every_row_of_the_summary_escaped(outcome):
    for value in (outcome, *audits(outcome)):
        table = value._repr_html_()
        assert table.count("<tr>") == len(value.summary())
    assert "<script>" not in html_table("<script>", [("<script>", "<script>")])


def test_an_outcome_is_a_data_frame_with_a_row_per_seller(outcome):
    frame = outcome.to_frame()
    assert frame.columns == ["seller", "epsilon", "payment", "planned_weight"]
    assert frame["seller"].to_list() == ["<b>a", "b", "c"]
    assert frame["payment"].to_list() == outcome.payments.tolist()
    assert frame["planned_weight"].sum() == pytest.approx(1.0)


def test_audits_are_data_frames(outcome):
    participation, truthfulness, privacy = (audit.to_frame() for audit in audits(outcome))
    assert participation["found"][0] == "passed"
    assert truthfulness.columns == ["distance", "largest_gain", "mean_gain"]
    assert privacy.equals(
        pl.DataFrame({"method": ["exact"] * 2, "person": [0, 2], "promise": [1.0, 2.0], "found": [0.5, 1.0]})
    )


# --- plans and tables ----------------------------------------------------------------------------

DIST, OBJECTIVE = dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 1e-2)


def standing(buyer, budget):
    numbers = dict.fromkeys(Standing.__dataclass_fields__, 0.25) | {"buyer": buyer, "budget": budget}
    return Standing(**numbers)


def planned():
    """Values of planning, each with the number of rows that its table has."""
    yield dpm.plan_payment_weight(DIST, OBJECTIVE, sellers=50, budget=5.0), 1
    yield dpm.planning.plan_budget(DIST, 50, 5.0, 3), 1
    yield dpm.planning.plan_budget(DIST, 50, 5.0, 3, concentration=1.0, noise=1.0), 1
    yield dpm.planning.budget_for_loss(DIST, OBJECTIVE, target=0.3, sellers=(10, 100)), 2
    objectives = [OBJECTIVE, dpm.BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0)]
    yield dpm.planning.sweep(DIST, objectives, 30, repetitions=2), 2
    standings = tuple(standing(buyer, budget) for budget in (1.0, 2.0) for buyer in ("<i>a", "b"))
    yield Comparison(standings, 0.1, 7, 30), 4
    yield (
        Tuning(
            (Candidate(OBJECTIVE, None, 0.2, 0.01, 5.0), Candidate(OBJECTIVE, 0.5, 0.1, 0.02, 4.0)), 5.0, 3
        ),
        2,
    )


def test_plans_and_tables_print_as_one_line_and_are_frames_with_their_rows():
    for value, rows in planned():
        line, frame = repr(value), value.to_frame()
        assert line.startswith(type(value).__name__ + "(")
        assert "\n" not in line
        assert len(line) < 250
        assert "BuyerObjective" not in line
        assert frame.height == rows
        if "concentration" in frame.columns and "recommended_rule" not in frame.columns:
            assert frame["concentration"].drop_nulls().to_list()[0] == 1.0


def test_a_notebook_shows_a_line_for_every_row_of_a_table_and_escapes_it():
    for value, rows in planned():
        table = value._repr_html_()
        assert "<i>" not in table
        assert table.count("<tr>") == (len(value.summary()) if hasattr(value, "summary") else rows + 1)


def test_what_a_budget_buys_is_shown_with_the_budget_and_the_rule_to_announce():
    suggested = dpm.planning.plan_budget(DIST, 50, 5.0, 3)
    given = dpm.planning.plan_budget(DIST, 50, 5.0, 3, concentration=1.0, noise=1.0)
    assert repr(suggested).startswith("BudgetPlan(budget: 5, recommended rule: ")
    assert "rule" not in repr(given)
    frame = suggested.to_frame()
    assert frame["budget"].to_list() == [5.0]
    assert frame["recommended_rule"].to_list() == [suggested.rules.recommended]
    assert frame["expected_payment"].to_list() == [suggested.plan.expected_payment]
    assert given.to_frame()["recommended_rule"].to_list() == [None]
    names = [name for name, _ in suggested.summary()]
    assert len(set(names)) == len(names)


def test_what_cannot_be_planned_is_an_empty_line():
    table = dpm.planning.budget_for_loss(DIST, OBJECTIVE, target=0.3, sellers=(10, 100)).to_frame()
    assert table["sellers"].to_list() == [10, 100]
    assert table["expected_payment"][0] is None
    assert table["expected_payment"][1] > 0.0


def test_an_allocation_shows_individuals_only_in_its_frame():
    allocation = dpm.allocate([1.0, 2.0, 9.0], dpm.BuyerObjective(1.0, 1.0, 0.1))
    for text in (repr(allocation), allocation._repr_html_()):
        assert "array" not in text
        assert f"{allocation.epsilons[0]:.3f}" not in text
    assert allocation.to_frame()["epsilon"].to_list() == allocation.epsilons.tolist()
    assert allocation.to_frame()["loss_weight"].sum() == pytest.approx(1.0)
