"""Distributions written as text."""

import pytest

from dpmarket import CostDistribution, InvalidInput, Uniform
from dpmarket.costs.text import distribution_from_dict, parse_distribution


def test_formulas_give_the_distributions_they_name():
    assert parse_distribution("uniform(1, 5)") == Uniform(1, 5)
    assert parse_distribution(" uniform(low=1, high=5) ") == Uniform(1, 5)
    mixture = parse_distribution("0.25*uniform(0, 1) + 0.75 * lognorm(s=0.5, scale=2, high=20)")
    assert mixture.to_dict()["weights"] == [0.25, 0.75]
    assert mixture.support == (0.0, 20.0)
    tail = parse_distribution("expon(low=1, high=inf)")
    assert isinstance(tail, CostDistribution)
    assert tail.support == (1.0, float("inf"))
    assert parse_distribution("gamma(2, scale=3)").to_dict()["parameters"] == {"a": 2, "loc": 0, "scale": 3}


@pytest.mark.parametrize(
    "text",
    [
        "", "uniform", "uniform(1)", "uniform(1, 2, 3)", "nosuch(1)", "uniform(1, x)", "norm(0, 1) +", "1",
        "uniform(1, 5) + uniform(2, 3)", "0.5*uniform(0,1) + 0.4*uniform(1,2)", "lognorm(q=3)",
        "__import__('os').system('true')", "uniform(*[1, 2])", "uniform(**{})", "poisson(3)",
        "rv_continuous()",
        "uniform(1, 5", "uniform(True, 5)", "(" * 500, "uniform('1', 5)", None,
    ],
)  # fmt: skip
def test_anything_else_is_refused_and_never_run(text):
    with pytest.raises(InvalidInput, match="expected"):
        parse_distribution(text)


@pytest.mark.parametrize("data", [{}, {"kind": "nosuch"}, {"kind": "uniform", "low": 1}, {"kind": "scipy"}])
def test_plain_data_that_describes_nothing_is_refused(data):
    with pytest.raises(InvalidInput, match="expected"):
        distribution_from_dict(data)
