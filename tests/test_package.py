"""The package as a whole: public names, lazy imports, what the documents say."""

import doctest
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import dpmarket

ROOT = Path(__file__).parent.parent
HEAVY = ("numpy", "scipy", "polars", "numba", "sklearn", "matplotlib")


def test_every_public_name_can_be_had_and_is_listed_once():
    assert len(set(dpmarket.__all__)) == len(dpmarket.__all__)
    for name in dpmarket.__all__:
        assert getattr(dpmarket, name) is not None
    assert dir(dpmarket) == sorted(dpmarket.__all__)


def test_every_package_has_what_it_lists():
    packages = [found.name for found in pkgutil.iter_modules(dpmarket.__path__) if found.ispkg]
    assert len(packages) > 10
    for package in packages:
        module = importlib.import_module(f"dpmarket.{package}")
        assert [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)] == [], package


def test_the_files_whose_tests_take_longest_are_there_and_run_first(request):
    tests = ROOT / "tests"
    longest = (tests / "longest.txt").read_text(encoding="utf-8").split()
    assert [name for name in longest if not (tests / name).is_file()] == []
    run = list(dict.fromkeys(item.path.relative_to(tests).as_posix() for item in request.session.items))
    assert run[: len(set(run) & set(longest))] == [name for name in longest if name in run]


LOADS_NOT = {
    "import dpmarket": HEAVY,
    "import dpmarket.cli": HEAVY,
    "import dpmarket; dpmarket.VirtualCost.of(dpmarket.Uniform(1, 5))(2.0)": ("polars", "numba", "sklearn"),
    "import dpmarket; dpmarket.verify(b'')": ("scipy", "polars", "numba", "sklearn", "dpmarket.errors"),
    "from dpmarket.mechanisms import *": ("sklearn", "scipy.stats", "matplotlib"),
    "import dpmarket.campaign": HEAVY,
    "import dpmarket as d; d.PrivateLinearRegression(0, 1, epsilon=1.0).fit([[0.5], [-0.5]], [0, 1])": (
        "numba",  # the first fit waits for no compiler
    ),
}


@pytest.mark.parametrize(("code", "names"), LOADS_NOT.items(), ids=LOADS_NOT)
def test_what_is_used_loads_only_what_it_needs(code, names):
    check = f"{code}\nimport sys\nprint([n for n in {names} if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_each_public_name_is_written_once():
    for stub in (ROOT / "src" / "dpmarket").rglob("__init__.pyi"):
        names = [line.split(" as ")[1] for line in stub.read_text().splitlines()]
        assert len(set(names)) == len(names), stub
        assert "__all__ = [" not in stub.with_suffix(".py").read_text()


def test_at_the_top_level_is_only_what_most_people_need():
    values = [getattr(dpmarket, name) for name in dpmarket.__all__]
    names = [value for value in values if callable(value) and not isinstance(value, type(dpmarket))]
    errors = [value for value in names if isinstance(value, type) and issubclass(value, Exception)]
    assert len(names) - len(errors) <= 35


def test_the_figure_of_the_packages_is_drawn_from_their_imports():
    made = runpy.run_path(str(ROOT / "docs" / "make_packages_figure.py"))["draw"]()
    figure = ROOT / "docs" / "_static" / "packages.svg"
    (drawn, sizes), (now, counted) = (
        (re.sub(r">[\d,]+ lines<", "", text), re.findall(r">([\d,]+) lines<", text))
        for text in (figure.read_text(), made)
    )
    assert drawn == now, "run python docs/make_packages_figure.py"
    for old, new in zip(sizes, counted, strict=True):  # sizes may lag behind a little
        assert int(old.replace(",", "")) == pytest.approx(int(new.replace(",", "")), rel=0.25, abs=200)


def test_a_report_and_a_record_are_followed_by_names_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    steps = text[text.index("## One report, and one record") : text.index("## Where something new goes")]
    names = re.findall(r"`(\w+(?:\.\w+){2,})`", steps)
    assert len(names) > 15
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(f"dpmarket.{module}"), attribute), name


def test_every_docstring_example_gives_what_it_says(tmp_path, monkeypatch, capsys):
    """In this process and an empty folder; what is wrong is printed."""
    monkeypatch.chdir(tmp_path)
    names = [found.name for found in pkgutil.walk_packages(dpmarket.__path__, "dpmarket.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in (test for module in (dpmarket, *modules) for test in finder.find(module)):
        if test.examples:  # each run looks at every source file that was ever read
            runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out[-3000:]
    assert runner.tries > 200
