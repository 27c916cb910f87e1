"""The package as a whole: public names, lazy imports, what the documents say."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import dpmarket

HEAVY = ("numpy", "scipy", "polars", "numba", "sklearn", "matplotlib")


def test_every_public_name_can_be_had_and_is_listed_once():
    assert len(set(dpmarket.__all__)) == len(dpmarket.__all__)
    for name in dpmarket.__all__:
        assert getattr(dpmarket, name) is not None
    assert dir(dpmarket) == sorted(dpmarket.__all__)


def test_every_room_has_what_it_lists():
    rooms = [found.name for found in pkgutil.iter_modules(dpmarket.__path__) if found.ispkg]
    assert len(rooms) > 10
    for room in rooms:
        module = importlib.import_module(f"dpmarket.{room}")
        assert [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)] == [], room


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nosuch"):
        _ = dpmarket.nosuch


@pytest.mark.parametrize("code", ["import dpmarket", "import dpmarket.cli"])
def test_importing_takes_no_numerical_library_along(code):
    check = f"{code}\nimport sys\nprint([n for n in {HEAVY} if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_docstring_example_gives_what_it_says(tmp_path, monkeypatch, capsys):
    """In this process and an empty folder; what is wrong is printed."""
    monkeypatch.chdir(tmp_path)
    names = [found.name for found in pkgutil.walk_packages(dpmarket.__path__, "dpmarket.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    results = [doctest.testmod(module, optionflags=doctest.ELLIPSIS) for module in (dpmarket, *modules)]
    assert sum(result.failed for result in results) == 0, capsys.readouterr().out[-3000:]
    assert sum(result.attempted for result in results) > 500
