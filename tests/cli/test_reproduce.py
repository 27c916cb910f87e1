"""The command that redraws the paper."""

import json

from dpmarket.paper.experiments.catalogue import EXPERIMENTS
from support.commands import run


def test_without_a_name_the_experiments_are_listed_with_the_papers_figures():
    lines = run("reproduce").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [experiment.name for experiment in EXPERIMENTS]
    figures = {line.split()[0]: line.split()[1].strip(",") for line in lines}
    assert figures["market"] == "fig2"
    assert figures["interaction"] == "fig1"


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
    said = json.loads(done.stdout)
    verdicts = {claim["claim"]: claim["verdict"] for claim in said["claims"]}
    assert verdicts == {"lemma-truth": "holds", "lemma-participation": "holds under a condition"}
    assert said["counts"]["holds"] == 1
    assert said["seconds"] > 0.0
    assert not (tmp_path / "paper/results.md").exists()


def test_a_figure_of_the_paper_is_known_by_its_number_and_told_with_numbers_counts_and_time(tmp_path):
    said = run("reproduce", "fig1", "--quick", "-o", "paper", cwd=tmp_path).stdout
    assert (tmp_path / "paper/figures/interaction.svg").exists()
    assert "before any data is handed over" in said
    assert "holds: Algorithm 2 decides" in said
    assert "1 claims: 1 holds. " in said
    assert said.split("1 claims: 1 holds. ")[1].split()[1].startswith("s.")


def test_an_unknown_experiment_is_one_line_and_exit_code_1(tmp_path):
    refusal = run("reproduce", "nosuch", "-o", tmp_path / "paper", code=1)
    assert refusal.stderr.count("\n") == 1
    assert "market" in refusal.stderr
    assert "fig2" in refusal.stderr
    assert "both" in run("reproduce", "market", "--all", "-o", tmp_path / "paper", code=1).stderr
    assert not (tmp_path / "paper").exists()
