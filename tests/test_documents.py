"""The documents: what they show is run, and does what they say."""

import re
import runpy
import subprocess
import sys

import pytest

from support.documents import PAGES, ROOT, blocks, run_page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_the_page_shows_runs(path, tmp_path, monkeypatch):
    """All code and commands of a page run top to bottom, in an empty folder, with the output shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page(path, tmp_path)


@pytest.mark.slow
def test_the_page_about_the_paper_runs_with_all_its_experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "how-to" / "reproduce-the-paper.md", tmp_path, patient=True)
    assert (tmp_path / "out" / "paper" / "results.md").exists()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_command_is_shown_where_it_is_not_run(path):
    """Commands and code stand in blocks that are run, not in indented or unnamed ones."""
    known = {"python", "console", "toml", "json", "text", "html"}
    for block in blocks(path):
        if not block.language.startswith("{"):
            assert block.language in known, f"{path.name}, line {block.start}"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        assert not line.startswith(("    dpmarket ", "    $ ", "    python ")), f"{path.name}, line {number}"


def test_the_accuracies_in_the_readme_are_those_that_were_measured():
    measured = (ROOT / "docs" / "reference" / "accuracy.md").read_text()
    table = measured[measured.index("## breast cancer") : measured.index("| log loss at")]
    readme = (ROOT / "README.md").read_text()
    for shown, level in (
        ("log-uniform on [0.05, 5]", "log-uniform on [0.05, 5]"),
        ("promise 1 for all", "1"),
    ):
        row = next(line for line in table.splitlines() if line.startswith(f"| {level} |"))
        values = [cell.split("(")[0].strip() for cell in row.split("|")[2:-1]]
        line = next(line for line in readme.splitlines() if line.startswith("| accuracy") and shown in line)
        ours, library, tuned = re.findall(r"0\.\d{3}", line)
        assert (ours, library, tuned) == (values[0], values[-2], values[-1])


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorials_script_is_its_page(page):
    made = runpy.run_path(str(ROOT / "docs" / "make_tutorial_scripts.py"))["script"]
    path = page.with_name(page.stem.replace("-", "_") + ".py")
    assert path.read_text() == made(page.read_text()), "run python docs/make_tutorial_scripts.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorials_script_runs_alone(page, tmp_path):
    path = page.with_name(page.stem.replace("-", "_") + ".py")
    run = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) >= 5
