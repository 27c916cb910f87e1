"""The documents: what they show is run, and does what they say."""

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
