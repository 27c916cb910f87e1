"""Benchmarks keep what they measured, and the performance page is made of that and of nothing else."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("alternate.py", "quoting_trees.py")
SCRIPTS = sorted(path for path in (ROOT / "benchmarks").glob("[a-z]*.py") if path.name not in TOOLS)
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
    tables = results.measure("somewhere/economics.py", sorting(results))
    printed = capsys.readouterr()
    assert "  hundred    3 ms    2.50  at most 2, missed\n" in printed.out
    assert "  thousand  30 ms    9.00\n" in printed.out
    assert "With a_b counted." in printed.out
    assert "economics.py, sorting" in printed.err
    kept = json.loads((results.FOLDER / "economics.json").read_text())
    assert set(kept) == {"script", "date", "seconds", "processor", "cores", "versions", "tables"}
    assert kept["script"] == "economics.py"
    assert set(kept["versions"]) == {"Python", "numpy", "numba"}
    assert results.results()["economics.py"].tables == tables


def test_a_script_that_fails_keeps_its_older_results(results):
    def failing():
        yield results.Table("New", ["a"], [["b"]])
        raise SystemExit("no")

    results.measure("economics.py", sorting(results))
    with pytest.raises(SystemExit):
        results.measure("economics.py", failing)
    assert results.results()["economics.py"].tables[0].title == "Sorting a|b, in passes"


def test_the_page_tells_aims_and_whether_they_are_met(results, page, capsys):
    results.measure("economics.py", sorting(results))
    text = page.performance_page(results.results())
    title, link = r"Sorting a\|b, in passes", "[`economics.py`](#performance-economics)"
    assert f"| {link} | {title}: passes | 2.50 (hundred) | at most 2 | **no** |" in text
    assert f"| {link} | Speed-up: ratio | 60 (ten) | at least 50 | yes |" in text
    assert f"**{title}**" in text
    assert "| size | time | passes | aim |" in text
    assert "| ten | 1 ms | 1.50 | at most 2 |\n| hundred | 3 ms | 2.50 | at most 2, missed |" in text
    assert "| thousand | 30 ms | 9.00 |  |" in text
    assert "With `a_b` counted." in text
    assert "Not measured yet: run `python benchmarks/privacy.py`." in text
    assert "python benchmarks/economics.py" not in text


def test_each_script_has_its_own_date_on_the_page(results, page):
    for name, date in (("economics", "2001-02-03"), ("privacy", "2004-05-06")):
        results.measure(f"{name}.py", sorting(results))
        path = results.FOLDER / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"date": date}))
    text = page.performance_page(results.results())
    sections = text.split("\n## ")
    (economics,) = [section for section in sections if section.startswith("`economics.py`")]
    (privacy,) = [section for section in sections if section.startswith("`privacy.py`")]
    assert "Measured on 2001-02-03" in economics
    assert "Measured on 2004-05-06" in privacy


def test_what_was_not_measured_again_stays_on_the_page(results, page):
    results.measure("economics.py", sorting(results))
    before = page.performance_page(results.results())
    (results.FOLDER / "economics.json").unlink()
    results.measure("privacy.py", sorting(results))
    text = page.performance_page(results.results(), before)
    assert text.count("passes | 2.50 (hundred) | at most 2 | **no** |") == 2
    assert text.count("| thousand | 30 ms | 9.00 |  |") == 2
    assert "run `python benchmarks/economics.py`" not in text
    assert page.performance_page(results.results(), text) == text


def test_the_committed_page_names_every_benchmark():
    text = PAGE.read_text(encoding="utf-8")
    missing = [path.name for path in SCRIPTS if f"`{path.name}`" not in text]
    assert missing == [], "write docs/performance.md anew: python benchmarks/NAME, then _performance_page.py"


def test_every_benchmark_keeps_its_tables_or_writes_a_page(page):
    for path in SCRIPTS:
        own_page = page.QUALITY.get(path.name)
        assert "measure(__file__" in path.read_text(encoding="utf-8") or own_page, path.name
        assert own_page is None or (ROOT / "docs" / own_page).exists(), path.name


def test_the_tools_are_no_benchmarks(page):
    assert page.TOOLS == TOOLS
    assert not set(TOOLS) & set(page.scripts())


def test_times_are_read_from_the_cells_of_a_table(results):
    alternate = importlib.import_module("alternate")
    assert alternate.times("1,250 ms") == 1.25
    assert alternate.times("2.50 s") == 2.5
    assert alternate.times("2.50") is None
    assert alternate.times({"text": "2 s"}) is None
    assert alternate.verdict([1.0, 1.2], [1.3, 1.4]) == "slower"
    assert alternate.verdict([1.0, 1.2], [1.1, 1.4]) == "the same"
    assert alternate.verdict([1.0, 1.2], [0.8, 0.9]) == "faster"
