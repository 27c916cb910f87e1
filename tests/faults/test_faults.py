"""The table of planted faults fits the source: `make faults` can plant every one of them."""

import ast
from collections import Counter

import pytest

from faults import plant

PACKAGE = plant.ROOT / "src" / "dpmarket"
FAULTS = plant.read_faults()


def test_every_fault_can_be_planted_where_it_belongs_and_leaves_python():
    for fault in FAULTS:
        texts = plant.planted(fault, PACKAGE)  # raises with the fault's name
        for path, text in texts.items():
            assert text != path.read_text(encoding="utf-8"), fault.name
            ast.parse(text, str(path))


def test_faults_have_names_of_their_own_tests_that_exist_and_come_from_every_room():
    assert [name for name, count in Counter(fault.name for fault in FAULTS).items() if count > 1] == []
    assert len(FAULTS) >= 30
    for fault in FAULTS:
        assert fault.tests, fault.name
        assert all((plant.ROOT / "tests" / name).is_file() for name in fault.tests), fault.name
    rooms = {name.split("/")[0] for fault in FAULTS for name, _, _ in fault.edits}
    assert rooms >= {
        *("files", "costs", "privacy", "learning", "mechanisms"),
        *("audit", "certificates", "campaign", "report", "cli"),
    }


def test_a_fault_whose_text_is_gone_or_there_twice_is_named(tmp_path):
    (tmp_path / "one.py").write_text("a = 1\nb = 1\n")
    for name, old in (("one.py", "c = 1"), ("one.py", "= 1"), ("two.py", "a")):
        with pytest.raises(plant.CannotPlant, match="'lost'"):
            plant.planted(plant.Fault("lost", ((name, old, "x"),), ()), tmp_path)
    two = plant.Fault("both", (("one.py", "a = 1", "a = 2"), ("one.py", "b = 1", "b = 2")), ())
    assert plant.planted(two, tmp_path) == {tmp_path / "one.py": "a = 2\nb = 2\n"}


def test_the_test_that_finds_a_fault_is_read_from_what_was_printed(monkeypatch, tmp_path):
    line = "FAILED tests/a/test_b.py::test_c[x - y] - AssertionError: no"
    monkeypatch.setattr(plant, "run_tests", lambda *_: (1, f"...\n{line}\n1 failed"))
    assert plant.found_by(tmp_path, []).startswith("tests/a/test_b.py::test_c")
    monkeypatch.setattr(plant, "run_tests", lambda *_: (0, "1 passed"))
    assert plant.found_by(tmp_path, []) is None
    monkeypatch.setattr(plant, "run_tests", lambda *_: (2, "ERROR tests/a/test_b.py - SyntaxError"))
    with pytest.raises(plant.CannotPlant, match="could not be run"):
        plant.found_by(tmp_path, [])
