"""Benchmarks keep what they measured, and the performance page is made of that and of nothing else."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
PAGE = ROOT / "docs" / "performance.md"


@pytest.fixture
def results(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("_results")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "kept")
    return module


@pytest.fixture
def page(results):
    return importlib.import_module("_performance_page")


def test_tables_and_aims_stay_on_the_page_until_a_script_has_measured_anew(results, page, capsys):
    def measured():
        rows = [["ten", results.at_most(2, 1.5)], ["hundred", results.at_most(2, 2.5)]]
        yield results.Table("Sorting a|b", ["size", "passes"], rows)

    def failing():
        yield results.Table("New", ["a"], [["b"]])
        raise SystemExit("no")

    results.measure("audit.py", measured)
    assert "  hundred    2.50  at most 2, missed\n" in capsys.readouterr().out
    kept = json.loads((results.FOLDER / "audit.json").read_text())
    assert set(kept) == {"script", "date", "seconds", "processor", "cores", "versions", "tables"}
    with pytest.raises(SystemExit):
        results.measure("audit.py", failing)
    text = page.performance_page(results.results())
    assert r"**Sorting a\|b**" in text
    assert "| ten | 1.50 | at most 2 |\n| hundred | 2.50 | at most 2, missed |" in text
    assert "Not measured yet: run `python benchmarks/privacy.py`." in text
    (results.FOLDER / "audit.json").unlink()  # a section stays on the page until it is measured again
    assert page.performance_page(results.results(), text) == text


def test_the_committed_page_names_every_benchmark():
    text = PAGE.read_text(encoding="utf-8")
    missing = [path.name for path in SCRIPTS if f"`{path.name}`" not in text]
    assert missing == [], "write docs/performance.md anew: python benchmarks/NAME, then _performance_page.py"


def test_every_benchmark_keeps_its_tables_or_writes_a_page(page):
    for path in SCRIPTS:
        own_page = page.QUALITY.get(path.name)
        assert "measure(__file__" in path.read_text(encoding="utf-8") or own_page, path.name
        assert own_page is None or (ROOT / "docs" / own_page.partition("#")[0]).exists(), path.name
