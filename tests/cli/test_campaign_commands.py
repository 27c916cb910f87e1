"""The commands of a campaign, with streams also through the installed entry point."""

import json
import subprocess
import sys

import polars as pl
import pytest

from dpmarket.files import write_table
from support.campaigns import MARKET, make_campaign, read_rows, seller_ids
from support.commands import run, run_installed


def test_a_campaign_from_the_command_line(tmp_path):
    """init, quote, withdraw, train, predict and show: what each says, for people and for machines."""
    costs = make_campaign(tmp_path)
    (tmp_path / "market.toml").unlink()
    said = [run("init", cwd=tmp_path).stdout]
    assert "market.toml" in said[0]
    (tmp_path / "market.toml").write_text(MARKET)
    said.append(run("quote", "reports.csv", "-o", "quotes.csv", cwd=tmp_path).stdout)
    assert "bought from" in said[1]
    assert "1 (new)" in said[1]
    lines = (tmp_path / "data.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "data.csv").write_text("".join(lines[:-3]), encoding="utf-8")
    leave = ("withdraw", "--quotes", "quotes.csv", "--absent-from", "data.csv", "--json")
    assert json.loads(run(*leave, cwd=tmp_path).stdout) == {"withdrawn": 3}
    done = run("train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json", "--json", cwd=tmp_path)
    trained = json.loads(done.stdout)
    assert trained["is_new"]
    assert trained["model"] == json.loads((tmp_path / "model.json").read_text())
    assert trained["model"]["records"] == 57
    done = run("predict", "model.json", "data.csv", "-o", "out.csv", "--quiet", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert {row["seller"] for row in read_rows(tmp_path / "out.csv")} < set(seller_ids(60))
    said.append(run("show", "market.ledger", cwd=tmp_path).stdout)
    assert "released" in said[2]
    assert not any(repr(float(cost))[:6] in text for cost in costs for text in said)


def test_quote_and_train_tell_the_total_promise_from_the_noise_rate_and_why_they_differ(tmp_path):
    make_campaign(tmp_path)
    said = run("quote", "reports.csv", "-o", "quotes.csv", cwd=tmp_path).stdout
    epsilons = {row["seller"]: float(row["epsilon"]) for row in read_rows(tmp_path / "quotes.csv")}
    assert f"{sum(epsilons.values()):.6g}" in said.split("total promise")[1].splitlines()[0]
    assert "training divides by its bound on rows" in said
    run("withdraw", "7", "--quotes", "quotes.csv", cwd=tmp_path)
    train = ("train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json", "--force")
    said = run(*train, cwd=tmp_path).stdout
    left = sum(epsilons.values()) - epsilons["7"]
    assert f"{left:.6g}" in said.split("total promise")[1].splitlines()[0]
    again = json.loads(run(*train, "--json", cwd=tmp_path).stdout)
    model = again["model"]
    assert f"{model['noise_rate']:.6g}" in said.split("noise rate")[1].splitlines()[0]
    assert "divided by the bound on rows (1.414)" in said
    assert "Who withdrew (1) is not in it" in said
    assert (again["withdrawn"], again["total_promise"]) == (1, pytest.approx(left))
    # No slack is left at the default penalty, and the reserve is a millionth of every promise.
    assert model["noise_rate"] * model["row_bound"] == pytest.approx(left, rel=1e-4)


def test_standard_input_and_output_take_the_place_of_files(tmp_path):
    make_campaign(tmp_path)
    reports = (tmp_path / "reports.csv").read_text(encoding="utf-8")
    done = run_installed("quote", "-", "-o", "-", cwd=tmp_path, input=reports)
    assert done.stdout.startswith("seller,epsilon,payment,payment_minor_units,currency,minor_units,round\n")
    assert "bought from" in done.stderr
    quotes = done.stdout
    train = ("train", "data.csv", "--quotes", "-", "-o", "-", "--json")
    done = run(*train, cwd=tmp_path, input=quotes)
    model = json.loads(done.stdout)
    assert json.loads(done.stderr)["model"] == model
    (tmp_path / "model.json").write_text(done.stdout)
    data = (tmp_path / "data.csv").read_text(encoding="utf-8")
    done = run("predict", "model.json", "-", "-q", cwd=tmp_path, input=data)
    assert len(done.stdout.splitlines()) == 61
    assert done.stderr == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "data.csv", "market.ledger", "market.toml", "model.json", "reports.csv",
    ]  # fmt: skip


def test_refusals_have_exit_code_1_one_line_per_problem_and_no_value(tmp_path):
    make_campaign(tmp_path)
    (tmp_path / "bad.csv").write_text("seller,cost\na,1.75\na,oops\nb,-2.75\n")
    refusal = run("quote", "bad.csv", "-o", "q.csv", cwd=tmp_path, code=1).stderr
    assert refusal.splitlines() == [
        "dpmarket: cannot use bad.csv: 3 problems.",
        "column 'cost': no number in 1 row: line 3.",
        "column 'cost': a cost below 0 in 1 row: line 4.",
        "column 'seller': a seller id that an earlier row has already in 1 row: line 3.",
    ]
    quoted = {"seller": ["a"], "epsilon": [0.5], "payment_minor_units": [50]}
    about = {"currency": ["EUR"], "minor_units": ["100"], "round": ["none"]}
    write_table(tmp_path / "q.csv", pl.DataFrame(quoted | about))
    refusal = run("train", "data.csv", "--quotes", "q.csv", "-o", "m.json", cwd=tmp_path, code=1).stderr
    assert "cannot find the ledger" in refusal
    refusal = run("predict", "reports.csv", "data.csv", cwd=tmp_path, code=1).stderr
    assert "JSON" in refusal
    assert "ending in" in run("show", "nothing.txt", cwd=tmp_path, code=1).stderr
    assert "the ledger" in run("withdraw", "a", "--quotes", "q.csv", cwd=tmp_path, code=1).stderr
    assert "--force" in run("init", cwd=tmp_path, code=1).stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix in (".json", ".ledger")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("quote", "reports.csv"),
        ("train", "data.csv", "-o", "m.json"),
        ("predict", "model.json"),
        ("withdraw", "--quotes", "quotes.csv"),
        ("init", "--nonsense"),
        ("show",),
    ],
)
def test_wrong_usage_has_exit_code_2(tmp_path, arguments):
    assert run(*arguments, cwd=tmp_path, code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_command_removes_its_unfinished_files(tmp_path):
    code = (
        "import sys, time, dpmarket.cli.app as cli\nfrom dpmarket.files import atomic_path\n"
        "def slow():\n    with atomic_path('out.csv') as t:\n        t.write_text('half')\n"
        "        print('writing', flush=True)\n        time.sleep(60)\n"
        "cli.only = lambda group, name: slow\ncli.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "work"], stdout=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        process.terminate()
        assert process.wait() == 128 + 15
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_told_before_anything_is_loaded():
    """How long it takes is measured by benchmarks/files.py."""
    code = (
        "import sys\nfrom dpmarket.cli import main\nsys.argv = ['dpmarket', '--version']\nmain()\n"
        "assert not {'typer', 'rich', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_init_writes_the_values_it_is_given(tmp_path):
    run("init", "--set", "objective.budget=500", "--set", "sellers.expected=40", cwd=tmp_path)
    said = run("show", "market.toml", "--json", cwd=tmp_path).stdout
    assert "500" in said
    wrong = run("init", "other.toml", "--set", "objective.money=1", code=1, cwd=tmp_path).stderr
    assert "objective.money" in wrong
    run("init", "other.toml", "--set", "objective", code=2, cwd=tmp_path)
    assert not (tmp_path / "other.toml").exists()
