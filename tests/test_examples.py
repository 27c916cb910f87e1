"""The scripts and notebooks of ``examples`` do what they say."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def read_until(stream, words):
    """Return the lines up to the one with these words."""
    lines = []
    while not lines or words not in lines[-1]:
        lines.append(stream.readline())
        assert lines[-1], lines
    return "".join(lines)


@pytest.mark.slow
def test_a_live_market_has_a_link_for_every_role_trains_pays_and_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "live_market.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        told = read_until(process.stdout, "Enter ends")
        links = re.findall(r"^  (\w+): (http\S+)", told, re.MULTILINE)
        assert {role for role, _ in links} == {"seller", "buyer", "paymaster", "operator", "auditor"}
        for role, link in links:
            with urllib.request.urlopen(link, timeout=30) as answer:
                assert ("You are invited" if role == "seller" else "Sign in") in answer.read().decode()
        process.stdin.write("\n")
        process.stdin.flush()
        told = read_until(process.stdout, "Look at the pages")
        assert "Valid receipts: 25 of 25." in told
        assert "Payments made: 25." in told
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(path, tmp_path, monkeypatch):
    """Every cell, in a kernel of its own on loopback, in an empty folder."""
    import nbclient
    import nbformat

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_each_reader_has_a_notebook_that_shows_its_results():
    notebooks = {path.stem: json.loads(path.read_text()) for path in EXAMPLES.glob("*.ipynb")}
    assert sorted(notebooks) == ["auditor", "buyer", "engineer", "researcher", "seller"]
    for name, notebook in notebooks.items():
        assert any(cell.get("outputs") for cell in notebook["cells"]), name
        assert (EXAMPLES / f"{name}.ipynb").stat().st_size < 100_000
