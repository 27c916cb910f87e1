"""Letters: an offer for everybody who is offered something, in a text that names nothing else."""

import pytest

from dpmarket import FileProblem
from dpmarket.campaign.letters import TEMPLATE, read_template, write_letters
from dpmarket.campaign.rules.rules_file import check_rules
from outside.driver import read_table, write_table
from outside.goods import GOODS


@pytest.fixture
def quotes(tmp_path):
    write_table(
        tmp_path / "quotes.csv",
        {
            "seller": ["007", "=1+1", "none"], "epsilon": [0.473, 2.0, 0.0],
            "payment": [12.5, 3.0, 0.0], "payment_minor_units": [1250, 300, 0], "currency": ["EUR"] * 3,
        },
    )  # fmt: skip
    return tmp_path / "quotes.csv"


def test_everybody_who_is_offered_something_has_a_letter(quotes):
    rules, output = check_rules(GOODS["two classes"].rules()), quotes.with_name("letters.csv")
    text = "{seller}: {payment} for {epsilon}, {guess}%"
    assert write_letters(rules, quotes, output, text) == 2
    assert output.stat().st_mode & 0o777 == 0o600
    first, second = read_table(output)
    # exp(0.473) / (1 + exp(0.473)) = 0.6161, rounded up
    assert first["letter"] == "007: 12.50 EUR for 0.473, 62%"
    assert (second["seller"], second["payment"], second["guess"]) == ("=1+1", "3.00 EUR", "89")
    write_letters(rules, quotes, output, TEMPLATE, overwrite=True)
    assert "12.50 EUR" in read_table(output)[0]["letter"]


@pytest.mark.parametrize("text", ["{cost}", "{seller.x}", "{payment:>10}", "{", "{0}", "{seller!r}"])
def test_a_template_that_names_anything_else_is_refused(tmp_path, text):
    (tmp_path / "letter.txt").write_text(f"Dear {text}")
    with pytest.raises(FileProblem, match=r"letter\.txt: expected"):
        read_template(tmp_path / "letter.txt")
