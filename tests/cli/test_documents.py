"""The how-to page of a campaign: its commands run, top to bottom, and do what the page says."""

import shlex
from pathlib import Path

import pytest

from support.forking import Forks

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "campaign.md"


def _blocks(text):
    """Yield the language and the lines of every fenced block."""
    language, lines = None, []
    for line in text.splitlines():
        if line.startswith("```"):
            if language is not None:
                yield language, lines
            language, lines = (line[3:], []) if language is None else (None, [])
        elif language is not None:
            lines.append(line)


@pytest.fixture
def forks(tmp_path):
    opened = Forks(tmp_path)
    yield opened
    opened.close()


def test_the_commands_of_the_campaign_page_run(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = 0
    for language, lines in _blocks(PAGE.read_text(encoding="utf-8")):
        if language == "python":
            exec("\n".join(lines), {})
        for line in lines if language == "console" else ():
            prompt, command, *arguments = shlex.split(line)
            assert (prompt, command) == ("$", "dpmarket")
            forks.start(*arguments, "--quiet")
            assert forks.wait() == 0, line
            count += 1
    assert count >= 8
    assert {"quotes.csv", "model.json", "predictions.csv", "market.ledger"} <= {
        path.name for path in tmp_path.iterdir()
    }
