"""Every line of the page about faults names tests, and they exist."""

import re

import pytest

from support.documents import ROOT

PAGE = ROOT / "docs" / "explanation" / "outcomes.md"
LINES = [
    line
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "held by" not in line and "tests/" in line
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_the_page_has_all_its_lines():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    headers = [line for line in rows if "held by" in line]
    assert len(headers) == 4
    assert len(LINES) == len(rows) - len(headers) >= 44


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(" |")[0].strip("| "))
def test_every_test_that_a_line_names_exists(line):
    named = NAMED.findall(line)
    assert named
    assert len(named) == line.count("tests/")
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name
