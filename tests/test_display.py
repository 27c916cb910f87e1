"""What people see of a value: one short line, a table, a data frame; no individual by accident."""

import re

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.audit import PrivacyFindings
from dpmarket.display import html_table


@pytest.fixture(scope="module")
def outcome():
    return dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective(20.0, 1.0, 0.1)).run([1.5, 2.0, 4.9])


def audits(outcome):
    yield dpm.audit_participation(outcome.epsilons, outcome.payments, [1.5, 2.0, 4.9])
    schedule = dpm.posted_price(2.0, 1.0)
    yield dpm.audit_truthfulness(schedule, dpm.Uniform(1, 5), 2, 1, 20, np.random.default_rng(0))
    people, promises = np.array([0, 2]), np.array([1.0, 2.0])
    yield PrivacyFindings("density", people, promises, promises / 2, 0, 0.0, {})


def plan():
    return dpm.plan(dpm.Uniform(1, 5), dpm.Objective.for_model(3), sellers=500, budget=50.0)


def test_a_value_prints_as_one_line_without_an_array(outcome):
    for value in (outcome, plan(), *audits(outcome)):
        line = repr(value)
        assert "\n" not in line
        assert "array" not in line
        assert len(line) < 400
        assert line.startswith(type(value).__name__ + "(")


def test_neither_line_nor_table_of_an_outcome_shows_an_individual(outcome):
    for text in (repr(outcome), outcome._repr_html_()):
        for value in (*outcome.payments[:2], *outcome.epsilons[:2]):
            assert f"{value:.3g}" not in re.sub(r"\d+%", "", text)


def test_a_notebook_shows_every_row_of_the_summary_escaped(outcome):
    for value in audits(outcome):
        assert value._repr_html_().count("<tr>") == len(value.summary())
    assert "<tr>" in outcome._repr_html_()
    assert plan()._repr_html_().count("<tr>") == 10
    assert "<script>" not in html_table("<script>", [("<script>", "<script>")])


def test_values_are_data_frames(outcome):
    frame = outcome.to_frame()
    assert frame.columns == ["epsilon", "payment", "weight"]
    assert frame["payment"].to_list() == outcome.payments.tolist()
    assert frame["weight"].sum() == pytest.approx(1.0)
    rules = plan().to_frame()
    assert rules["name"].to_list()[:2] == ["optimal prices", "best posted price"]
    assert rules["error"].to_list() == sorted(rules["error"].to_list())
