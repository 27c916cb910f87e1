"""The market file: every problem at once, and documents that cannot drift from the model."""

import json
import re
import tomllib

import pytest

from dpmarket import FileProblem
from dpmarket.campaign import check_market, market_template, read_market
from dpmarket.campaign.complaints import model_in
from dpmarket.campaign.market_file import Market, to_distribution
from support.campaigns import MARKET


def problems(text):
    with pytest.raises(FileProblem) as refusal:
        check_market(tomllib.loads(text))
    return {line.split(":")[0]: line for line in refusal.value.details}


def test_the_template_is_a_valid_market_with_every_key_in_it():
    text = market_template()
    check_market(tomllib.loads(text))
    every = re.sub(r"(?m)^# (\w+ = )", r"\1", text)
    tables = tomllib.loads(every)
    for name, field in Market.model_fields.items():
        keys = getattr(model_in(field.annotation), "model_fields", {})
        if name.startswith("statistic"):  # in place of features and label
            assert name not in tables
            continue
        assert set(keys) <= set(tables[name])
        for key, entry in keys.items():
            assert entry.description
            assert entry.json_schema_extra["expected"] in " ".join(text.replace("\n# ", " ").split()), key
    # All keys together contradict each other: a budget and a payment weight, the paper's prices and a delta.
    assert list(problems(every)) == ["objective", "objective.concentration"]


def test_wrong_keys_and_values_are_reported_all_at_once_with_path_and_expectation():
    found = problems(
        """
        [sellers]
        id_colum = "who"
        expected = 0
        [costs]
        distribution = "uniform(5, 1)"
        [objective]
        payment_weight = -1
        noise = nan
        concentration = true
        [money]
        minor_units = 1.5
        [features]
        age = { low = 90, high = 18 }
        height = { low = 1 }
        weight = 3
        cost = { low = 0, high = 1, hi = 2 }
        [label]
        values = ["no", "no"]
        [trainig]
        l2 = 3
        [training]
        outside_bounds = "ignore"
        """
    )
    assert found == {
        "sellers.id_colum": "sellers.id_colum: unknown key; did you mean id_column?",
        "sellers.expected": "sellers.expected: expected a whole number from 1 to 10,000,000,000, got 0.",
        "costs.distribution": "costs.distribution: expected low < high, got low=5.0, high=1.0.",
        "objective.payment_weight": "objective.payment_weight: expected a number from 1e-50 to 1e50, got -1.",
        "objective.noise": "objective.noise: expected a number > 0, got nan.",
        "objective.concentration": "objective.concentration: expected a number > 0, got True.",
        "money.minor_units": "money.minor_units: expected a whole number >= 1, got 1.5.",
        "features.age": "features.age: expected low < high, got low = 90, high = 18.",
        "features.height.high": "features.height.high: missing; expected a number above low.",
        "features.weight": "features.weight: expected { low = ..., high = ... } or { categories = [...] }, "
        "got 3.",
        "features.cost": "features.cost: expected another column than sellers.cost_column, got 'cost' in "
        "both.",
        "features.cost.hi": "features.cost.hi: unknown key; did you mean high?",
        "label.values": "label.values: expected two to 256 different texts or different whole numbers, in "
        "brackets, got ['no', 'no'].",
        "trainig": "trainig: unknown key; did you mean training?",
        "training.outside_bounds": 'training.outside_bounds: expected "clip" or "refuse", got \'ignore\'.',
    }


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("", "costs", "missing"),
        ("features = 3", "features", "at least one feature"),
        ("[features]", "features", "at least one feature"),
        ("[costs]\ndistribution = [1, 2]", "costs.distribution", "a formula such as"),
        ("[objective]\nnoise = 1", "objective", "found neither"),
        ("[objective]\nbudget = 1\npayment_weight = 1", "objective", "found both"),
        ("[objective]\nbudget = 1", "sellers.expected", "because objective.budget is set"),
        ("[objective]\npayment_weight = 1\nconfidence = 0.9", "objective.confidence", "a budget beside it"),
        ("[objective]\nbudget = 1\nconfidence = 1", "objective.confidence", "strictly between 0 and 1"),
        ("[label]\nvalues = [0, 'one']", "label.values", "different texts"),
        ("[label]\nvalues = [true, false]", "label.values", "different texts"),
        ("[label]\nvalues = [0]", "label.values", "two to 256"),
        ("[label]\nvalues = [0, 1, 0]", "label.values", "two to 256 different"),
        ("[sellers]\nid_column = 'epsilon'", "sellers.id_column", "none of epsilon"),
        ("[sellers]\nid_column = ''", "sellers.id_column", "name of a column"),
        ("[nonsense]", "nonsense", "expected one of sellers"),
    ],
)
def test_each_contradiction_has_a_clear_word(text, path, words):
    assert words in problems(text)[path]


def test_numbers_in_text_are_no_numbers():
    assert "expected a number" in problems(MARKET.replace("0.001", '"0.001"'))["objective.payment_weight"]


def test_a_fitted_distribution_is_read_from_beside_the_market_file(tmp_path):
    data = {"distribution": {"kind": "uniform", "low": 2.0, "high": 3.0}}
    (tmp_path / "costs.json").write_text(json.dumps(data))
    (tmp_path / "market.toml").write_text(MARKET.replace("uniform(1, 5)", "costs.json"))
    market = read_market(tmp_path / "market.toml")
    assert to_distribution(market.costs.distribution).support == (2.0, 3.0)
    (tmp_path / "costs.json").unlink()
    with pytest.raises(FileProblem, match="no such file"):
        read_market(tmp_path / "market.toml")


def test_a_market_file_that_is_no_toml_says_where(tmp_path):
    (tmp_path / "market.toml").write_text("[costs\n")
    with pytest.raises(FileProblem, match="line 1"):
        read_market(tmp_path / "market.toml")


def test_the_command_prints_one_line_for_each_problem(tmp_path, capsys):
    from dpmarket.cli.app import _tell

    with pytest.raises(FileProblem) as refusal:
        check_market(
            tomllib.loads(MARKET.replace("0.001", "-1").replace("uniform", "uniforn")), "market.toml"
        )
    _tell(refusal.value)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "dpmarket: cannot use market.toml: 2 problems."
    assert [line.split(": ")[0] for line in lines[1:]] == ["costs.distribution", "objective.payment_weight"]


def test_a_template_says_what_it_is_told():
    values = {"objective.budget": 500.0, "sellers.expected": 1000, "costs.distribution": "uniform(2, 3)"}
    market = check_market(tomllib.loads(market_template(values)))
    assert (market.objective.budget, market.objective.payment_weight) == (500.0, None)
    assert market.sellers.expected == 1000
    assert market.costs.distribution == "uniform(2, 3)"


def test_a_template_has_a_budget_so_that_prices_are_planned_unless_it_is_told_a_payment_weight():
    plain = check_market(tomllib.loads(market_template()))
    assert plain.objective.budget is not None
    assert plain.sellers.expected is not None
    assert (plain.objective.payment_weight, plain.objective.concentration) == (None, None)
    weighed = check_market(tomllib.loads(market_template({"objective.payment_weight": 0.002})))
    assert (weighed.objective.budget, weighed.objective.payment_weight) == (None, 0.002)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"objective.nosuch": 1}, "objective.nosuch"),
        ({"budget": 1}, "budget"),
        ({"objective.budget": -1.0, "sellers.expected": 10}, "objective.budget"),
        ({"objective.budget": 10.0}, "sellers.expected"),
        ({"costs.distribution": "nosuch(1)"}, "costs.distribution"),
    ],
)
def test_a_template_with_wrong_values_is_refused(values, told):
    with pytest.raises(FileProblem) as refusal:
        market_template(values)
    assert any(told in line for line in refusal.value.details)
