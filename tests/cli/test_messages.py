"""What people meet when a file is not what it should be: one line that says where, and no value."""

import csv
import json
import re
import tomllib

import pytest

from outside.driver import FileCampaign
from outside.goods import GOODS, sellers, tables
from support.commands import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    good = GOODS["two classes"]
    rules = good.rules(100)
    rules["sellers"]["minimum"] = 2
    FileCampaign(tmp_path, rules, *tables(*sellers(good, 12)))
    return tmp_path


QUOTE = ("-o", "quotes.csv")


def test_blank_lines_at_the_end_do_no_harm_and_elsewhere_they_do(folder):
    (folder / "blank.csv").write_text("seller,cost\na,1.5\nb,2.5\n\n\n")
    run("quote", "blank.csv", *QUOTE, cwd=folder)
    (folder / "hole.csv").write_text("seller,cost\na,1.5\n\nb,2.5\n")
    said = run("quote", "hole.csv", "-o", "other.csv", cwd=folder, code=1).stderr
    assert "an empty cell in 1 row" in said
    (folder / "hole.csv").write_text("seller,cost\na,x\nb,y\n")
    said = run("quote", "hole.csv", "-o", "other.csv", cwd=folder, code=1).stderr
    assert "1 problem.\ncolumn 'cost': no number in 2 rows" in said


def test_init_takes_whatever_the_file_takes(tmp_path):
    run("init", "--set", "features.yearly visits.low=0", "--set", "features.yearly visits.high=50",
        "--set", "features.since.first=2000-01-01", "--set", "features.since.last=2020-01-01",
        "--set", 'features.job.categories=["a", "b"]', cwd=tmp_path)  # fmt: skip
    features = tomllib.loads((tmp_path / "rules.toml").read_text())["features"]
    assert features["yearly visits"] == {"low": 0, "high": 50}
    assert features["job"] == {"categories": ["a", "b"]}
    assert str(features["since"]["first"]) == "2000-01-01"
    said = run("init", "wrong.toml", "--set", "features.height.low=1", cwd=tmp_path, code=1).stderr
    assert "features.height.high: missing" in said
    assert not (tmp_path / "wrong.toml").exists()
    asked = ("--set", "statistics.age.kind=mean", "--set", "statistics.age.low=18", "--set")
    run("init", "asks.toml", *asked, "statistics.age.high=90", cwd=tmp_path)
    assert "features" not in tomllib.loads((tmp_path / "asks.toml").read_text())


def test_what_is_no_id_or_no_address_is_said_in_one_line(folder):
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    for arguments, words in (
        (("statement", "\udcff"), "that nobody sees"),
        (("withdraw", "\udcff"), "that nobody sees"),
        (("withdraw", "007", "nobody"), "No quote for 'nobody'."),
        (("statement", "7", "--database", "postgresql://h:notaport/x"), "address"),
        (("statement", "7", "--database", "://"), "address"),
    ):
        said = run(*arguments, cwd=folder, code=1).stderr
        assert words in said
        assert len(said.splitlines()) == 1


def test_a_dry_run_enters_nothing_and_says_what_quote_says(folder):
    dry = json.loads(run("quote", "reports.csv", "--dry-run", "--json", cwd=folder).stdout)
    assert not (folder / "rules.db").exists()
    run("check", "reports.csv", "data.csv", cwd=folder)
    assert not (folder / "rules.db").exists()
    done = json.loads(run("quote", "reports.csv", *QUOTE, "--json", cwd=folder).stdout)
    assert {name: dry[name] for name in dry if name != "state"} == {
        name: done[name] for name in done if name != "state"
    }


def test_money_is_shown_with_its_currency(folder):
    text = (folder / "rules.toml").read_text().replace("EUR", "CHF")
    (folder / "rules.toml").write_text(text)
    said = run("quote", "reports.csv", *QUOTE, cwd=folder)
    assert " CHF" in said.stdout
    run("train", "data.csv", "-o", "model.json", cwd=folder)
    assert " CHF" in run("payouts", "-o", "payouts.csv", cwd=folder).stdout
    assert " CHF" in run("statement", "007", cwd=folder).stdout
    assert re.search(r"left, '.* CHF", run("show", "rules.db", cwd=folder).stdout)
    assert "adds up" in run("check", cwd=folder).stdout
    assert "nothing was missing" in run("repair", cwd=folder).stdout


def test_options_that_the_rules_file_decides_are_refused_beside_it(folder):
    decided = {
        "--max-epsilon": "1", "--probability": "0.9", "--weight-cap": "3", "--delta": "1e-6",
        "--classes": "2", "--shape": "linear", "--max-mean-epsilon": "1", "--costs": "uniform(1, 5)",
    }  # fmt: skip
    for option, value in decided.items():
        said = run("plan", "-m", "rules.toml", option, value, cwd=folder, code=2).stderr
        assert f"leave out {option}: the rules file decides it." in " ".join(said.split())
    said = run("plan", "-m", "rules.toml", "--features", 3, "--weight-cap", 2, cwd=folder, code=2).stderr
    assert "leave out --features, --weight-cap:" in " ".join(said.split())


def test_the_menu_is_that_of_rules_toml_in_its_currency(folder):
    rules = folder / "rules.toml"
    text = rules.read_text().replace("minimum = 2", "expected = 60")
    rules.write_text(text.replace("EUR", "CHF"))
    assert run("menu", cwd=folder).stdout == run("menu", "-m", "rules.toml", cwd=folder).stdout
    said = run("menu", "--points", 5, cwd=folder).stdout
    assert "payment (CHF)" in said
    assert "nothing is bought" in said
    choices = json.loads(run("menu", "--points", 5, "--json", cwd=folder).stdout)["menu"]
    payments = [choice["payment"] for choice in choices]
    assert payments == sorted(payments, reverse=True)
    assert len(payments) == 5
    assert "A plan for 20 CHF" in run("plan", "-m", "rules.toml", "--budget", 20, cwd=folder).stdout


def test_digests_and_keys_are_unbroken_so_that_they_can_be_copied(folder):
    for command in (("commit",), ("signing-key", "k.pem"), ("receipts", "--page", "page.html")):
        assert re.search(r"^[a-z' ]+: [0-9a-f]{64}$", run(*command, cwd=folder).stdout, re.MULTILINE)


def test_an_auditor_checks_the_very_table_that_was_quoted(folder):
    """Semicolons, decimal commas, capitals in an address, and columns in any order."""
    for name in ("reports.csv", "data.csv"):
        path = folder / name
        path.write_text(path.read_text().replace("true", "Zoe.X@Example.ORG"))
    with (folder / "reports.csv").open(newline="") as file:
        rows = [[cost.replace(".", ","), who] for who, cost in csv.reader(file)]
    with (folder / "reports.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["price", "who"], *rows[1:]])
    rules = (folder / "rules.toml").read_text()
    rules = rules.replace("[sellers]", '[sellers]\nid_column = "who"\ncost_column = "price"')
    (folder / "rules.toml").write_text(rules)
    (folder / "data.csv").write_text((folder / "data.csv").read_text().replace("seller", "who", 1))
    run("quote", "reports.csv", *QUOTE, cwd=folder)
    assert "passed" in run("audit", "participation", "quotes.csv", "reports.csv", cwd=folder).stdout
    run("train", "data.csv", "-o", "model.json", cwd=folder)
    run("certify", "-o", "certificate.json", "--openings", "openings.json", cwd=folder)
    shown = ("verify", "certificate.json", "--openings", "openings.json", "--reports")
    done = run(*shown, "reports.csv", "-m", "rules.toml", cwd=folder)
    assert "holds     every quote" in done.stdout
    for price, words in ((None, "holds     every quote"), ("99", "A CHECK FAILED")):
        with (folder / "costs.csv").open("w", newline="") as file:
            lines = [[who, price or cost.replace(",", ".")] for cost, who in rows[1:]]
            csv.writer(file).writerows([["id", "cost"], *lines])
        assert words in run(*shown, "costs.csv", cwd=folder, code=int(price is not None)).stdout


def test_how_a_file_was_read_is_said_once(folder):
    text = (folder / "data.csv").read_text().replace("a;b", "a:b").replace(",", ";").replace(".", ",")
    (folder / "data.csv").write_text(text)
    assert run("check", "data.csv", cwd=folder).stderr.count("was read with") == 1


def test_a_word_that_is_no_role_is_answered_with_the_roles(folder):
    run("init", "--service", "service", cwd=folder)
    said = run("member", "add", "service", "Ann", "byer", cwd=folder, code=1).stderr
    assert "Expected roles to be 'buyer', 'operator', 'paymaster' or 'auditor'." in said
