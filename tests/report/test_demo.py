"""The demonstration: the same market every time, other noise, and nobody's files overwritten."""

import json
import re
import runpy
from pathlib import Path

import pytest

from dpmarket.errors import FileProblem
from dpmarket.report.demo import run_demo
from support.commands import run

SAME = ("market.toml", "reports.csv", "data.csv", "public-test.csv", "quotes.csv", "quotes-online.csv")


def _but_round(data):
    return re.sub(rb",[0-9a-f]{32}\n", b",\n", data)


def test_two_runs_have_the_same_market_and_other_noise(demo, tmp_path):
    """The second run is the command's, as a newcomer calls it."""
    done = run("demo", "--repetitions", "2", cwd=tmp_path)
    folder = tmp_path / "dpmarket-demo"
    for name in SAME:
        # A round's identity is by the key of its own ledger.
        assert _but_round((folder / name).read_bytes()) == _but_round((demo.folder / name).read_bytes()), name
    one, two = (
        json.loads((place / "model.json").read_text())["coef_grid"] for place in (demo.folder, folder)
    )
    assert one != two
    totals = demo.summary.totals
    for words in (f"{totals.sellers}", f"{totals.paid:,.2f}", "posted price", "same for all", "one by one"):
        assert words in done.stdout
    assert f"The report is in {Path('dpmarket-demo') / 'report.html'}" in done.stdout


def test_everybody_gets_an_offer_online_at_nearly_the_same_total(demo):
    assert demo.online_paid == pytest.approx(demo.summary.totals.paid, rel=0.1)
    assert demo.online_bought == pytest.approx(demo.summary.totals.bought, rel=0.1)


def test_the_demo_nearly_meets_its_budget_and_says_what_guessing_gets(demo):
    assert demo.summary.score.guessing == pytest.approx(42 / 113)
    assert demo.summary.totals.paid == pytest.approx(demo.summary.budget, rel=0.05)


def test_the_figure_of_the_readme_is_drawn_from_the_demonstrations_table(demo, tmp_path):
    script = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_market_figure.py"))
    script["draw"](json.loads((demo.folder / "summary.json").read_text()), tmp_path / "market.svg")
    text = (tmp_path / "market.svg").read_text()
    assert "epsilon promised" in text
    assert "cost to the seller" in text
    assert json.loads(json.dumps(demo.summary.to_dict())) == json.loads(
        (demo.folder / "summary.json").read_text()
    )


def test_a_folder_with_other_files_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(FileProblem, match="not a demonstration's"):
        run_demo(tmp_path, 2)
    (tmp_path / "demo.json").write_text('{"schema": "mine"}')
    with pytest.raises(FileProblem, match="not a demonstration's"):
        run_demo(tmp_path, 2)
    assert (tmp_path / "report.html").read_text() == "mine"
    with pytest.raises(FileProblem, match="to be a folder"):
        run_demo(tmp_path / "report.html", 2)


def test_a_second_demonstration_replaces_the_first_and_nothing_else(demo, tmp_path, monkeypatch):
    """Only what it wrote itself is removed; checked up to the moment at which work begins."""
    import shutil

    import dpmarket.report.demo as module

    folder = tmp_path / "again"
    shutil.copytree(demo.folder, folder)
    (folder / "notes.txt").write_text("mine")

    class Stop(Exception):
        pass

    def stop():
        raise Stop

    monkeypatch.setattr(module, "breast_cancer", stop)
    with pytest.raises(Stop):
        run_demo(folder, 2)
    assert sorted(path.name for path in folder.iterdir()) == ["demo.json", "notes.txt"]
