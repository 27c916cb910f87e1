"""The command that redraws the paper."""

import json

from dpmarket.paper.experiments.catalogue import EXPERIMENTS
from support.commands import run


def test_without_a_name_the_experiments_are_listed():
    lines = run("reproduce").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [experiment.name for experiment in EXPERIMENTS]


def test_one_experiment_is_run_judged_and_kept(tmp_path):
    output = run(
        "reproduce", "budget-lie", "--quick", "-o", "paper", "--json", "--processes", "1", cwd=tmp_path
    )
    assert json.loads(output.stdout)["claims"] == []  # its claim needs the market's table, too
    assert {path.name for path in (tmp_path / "paper/tables").iterdir()} == {
        "budget-lie.csv",
        "budget-lie.json",
    }
    done = run("reproduce", "reports", "--quick", "-o", "paper", "--json", "--processes", "1", cwd=tmp_path)
    verdicts = {claim["claim"]: claim["verdict"] for claim in json.loads(done.stdout)["claims"]}
    assert verdicts == {"lemma-truth": "holds", "lemma-participation": "holds under a condition"}
    assert not (tmp_path / "paper/results.md").exists()


def test_an_unknown_experiment_is_one_line_and_exit_code_1(tmp_path):
    refusal = run("reproduce", "nosuch", "-o", tmp_path / "paper", code=1)
    assert refusal.stderr.count("\n") == 1
    assert "market" in refusal.stderr
    assert "both" in run("reproduce", "market", "--all", "-o", tmp_path / "paper", code=1).stderr
    assert not (tmp_path / "paper").exists()
