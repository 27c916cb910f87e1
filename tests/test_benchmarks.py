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


def sorting(results):
    def sorting():
        yield results.Table(
            "Sorting a|b, in passes",
            ["size", "time", "passes"],
            [
                ["ten", "1 ms", results.at_most(2, 1.5)],
                ["hundred", "3 ms", results.at_most(2, 2.5)],
                ["thousand", "30 ms", "9.00"],
            ],
            "With `a_b` counted.",
        )
        yield results.Table("Speed-up", ["size", "ratio"], [["ten", results.at_least(50, 60, ".0f")]])

    return sorting


def test_a_script_keeps_its_tables_with_date_and_machine_and_prints_them(results, capsys):
    tables = results.measure("somewhere/audit.py", sorting(results))
    printed = capsys.readouterr()
    assert "  hundred    3 ms    2.50  at most 2, missed\n" in printed.out
    assert "  thousand  30 ms    9.00\n" in printed.out
    assert "With a_b counted." in printed.out
    assert "audit.py, sorting" in printed.err
    kept = json.loads((results.FOLDER / "audit.json").read_text())
    assert set(kept) == {"script", "date", "seconds", "processor", "cores", "versions", "tables"}
    assert kept["script"] == "audit.py"
    assert set(kept["versions"]) == {"Python", "numpy", "numba"}
    assert results.results()["audit.py"].tables == tables


def test_a_script_that_fails_keeps_its_older_results(results):
    def failing():
        yield results.Table("New", ["a"], [["b"]])
        raise SystemExit("no")

    results.measure("audit.py", sorting(results))
    with pytest.raises(SystemExit):
        results.measure("audit.py", failing)
    assert results.results()["audit.py"].tables[0].title == "Sorting a|b, in passes"


def test_the_page_tells_aims_and_whether_they_are_met(results, page, capsys):
    results.measure("audit.py", sorting(results))
    text = page.performance_page(results.results())
    title = r"Sorting a\|b, in passes"
    assert f"**{title}**" in text
    assert "| size | time | passes | aim |" in text
    assert "| ten | 1 ms | 1.50 | at most 2 |\n| hundred | 3 ms | 2.50 | at most 2, missed |" in text
    assert "| thousand | 30 ms | 9.00 |  |" in text
    assert "With `a_b` counted." in text
    assert "Not measured yet: run `python benchmarks/privacy.py`." in text
    assert "python benchmarks/audit.py" not in text


def test_each_script_has_its_own_date_and_stays_on_the_page_until_it_is_measured_again(results, page):
    text = ""
    for name, date in (("audit", "2001-02-03"), ("privacy", "2004-05-06")):
        results.measure(f"{name}.py", sorting(results))
        path = results.FOLDER / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"date": date}))
        text = page.performance_page(results.results(), text)
        path.unlink()
    sections = {section.partition("`")[0]: section for section in text.split("\n## `")}
    assert "Measured on 2001-02-03" in sections["audit.py"]
    assert "Measured on 2004-05-06" in sections["privacy.py"]
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
