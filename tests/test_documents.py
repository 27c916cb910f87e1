"""The documents: what they show is run, and does what they say."""

import itertools
import re
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.web.app import make_routes
from dpmarket.web.settings import Settings
from outside.goods import write_table
from support.commands import all_commands, examples_of
from support.documents import PAGES, ROOT, blocks, pages_to_run, run_page


@pytest.mark.parametrize("path", pages_to_run(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_the_page_shows_runs(path, tmp_path, monkeypatch):
    """All code and commands of a page run top to bottom, in an empty folder, with the output shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_page(path, tmp_path)


def test_no_command_is_shown_where_it_is_not_run():
    """Commands and code stand in blocks that are run, not in indented or unnamed ones."""
    known = {"python", "console", "toml", "json", "text", "html", "sh"}
    for path in PAGES:
        for block in blocks(path):
            if not block.language.startswith("{"):
                assert block.language in known, f"{path.name}, line {block.start}"
            # A script of the shell, from an empty machine on: tests/deploy/test_how_to.py runs it.
            assert block.language != "sh" or path.name == "keep-a-service.md"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path.name}, line {number}"
            assert not line.startswith(("    dpmarket ", "    $ ", "    python ")), where


def test_what_contributors_copy_and_edit_is_there():
    """Files, and names said to be of one: `KINDS` of `statistics/kinds.py`."""
    roots = [ROOT, ROOT / "src/dpmarket", ROOT / "src/dpmarket/certificates"]
    for page in ("CONTRIBUTING.md", "docs/architecture.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for path in re.findall(r"`((?!out/|site/)(?:[\w-]+/)+[\w.-]*)`", text):
            assert any((root / path).exists() for root in roots), f"{page}: {path}"
        named = re.findall(r"`(\w+)`(?: and `(\w+)`)? (?:of|in) `([\w/-]+\.\w+)`", text)
        assert len(named) > 3
        for *names, path in named:
            content = next((root / path).read_text() for root in roots if (root / path).exists())
            assert [name for name in names if name not in content] == [], f"{page}: {path}"


def test_tables_are_those_that_their_scripts_write_now():
    """A script that was given other columns and not run again would leave a table that its page misreads."""
    tables = sorted((ROOT / "docs" / "tables").glob("*.md"))
    assert tables
    for table in tables:
        lines = table.read_text(encoding="utf-8").splitlines()
        script = ROOT / re.search(r"written by (benchmarks/\w+\.py)", lines[0])[1]
        heads = [head for head, marks in itertools.pairwise(lines) if marks.startswith("| ---")]
        words = set(re.findall(r"[A-Za-z]{3,}", " ".join(heads))) - {"aim"}
        assert words
        unknown = [word for word in words if word not in script.read_text(encoding="utf-8")]
        assert not unknown, f"{table.name}: run {script.name} again"


def test_the_documentation_stays_short():
    """Words of tables count, their bars do not. Search leaves out pages of tables that scripts write."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    words = [word for text in (readme, *texts) for word in text.split() if re.search(r"\w", word)]
    assert len(words) <= 40_000
    assert sum(text.startswith("---\nnosearch: true") for text in texts) == 3
    assert len(readme.splitlines()) <= 120
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## 0.2.0 ")[0]
    assert len(newest.splitlines()) <= 60


def readme_row(words):
    """Return the numbers of the row of the README's comparison that begins with these words."""
    lines = (ROOT / "README.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {words}"))
    return re.findall(r"\d+\.\d+", line.partition("|")[2].partition("|")[2])


def measured_row(page, words, after=""):
    """Return the cells of the first row of a table that begins with these words, below a heading."""
    text = (ROOT / "docs" / page).read_text()
    rows = text[text.index(after) :].splitlines()
    row = next(line for line in rows if line.startswith(f"| {words} |"))
    return [cell.strip() for cell in row.split("|")[2:-1]]


def test_what_the_readme_compares_was_measured():
    def row(words):
        return [cell.split("(")[0] for cell in measured_row("tables/accuracy.md", words)]

    for shown, words in (
        ("accuracy, breast cancer, epsilons log-uniform", r"breast cancer, log-uniform on \[0.05, 5\]"),
        ("accuracy, breast cancer, epsilon 1", "breast cancer, 1"),
    ):
        ours, *_, library, tuned, _, _ = row(words)
        assert readme_row(shown) == [ours, library, tuned]
    digits = row("digits (10 classes), 3")
    assert readme_row("accuracy, ten classes") == [digits[0], digits[2]]
    norm, euclidean, commoner = row("unemployment benefits, 0.1")
    assert readme_row("accuracy, 91 columns") == [norm, euclidean]
    assert f"the commoner label: {commoner})" in (ROOT / "README.md").read_text()
    without, descent = row("logistic, 101 coefficients, 1")[:2]
    assert readme_row("test error, 101 coefficients") == [without, descent]


def test_the_audit_of_another_library_in_the_readme_was_measured():
    assert "rows of norm 1000 |" in (ROOT / "README.md").read_text()
    page = (ROOT / "docs" / "performance.md").read_text()
    section = page[page.index("## `audit_diffprivlib.py`") :]
    row = next(line for line in section.splitlines() if line.startswith("| 1000 |"))
    assert "| refuted |" in row


@pytest.mark.slow
def test_the_examples_of_all_commands_run_one_after_the_other(tmp_path, monkeypatch):
    """In the order of the help they are a whole campaign, given the files that people bring."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ids = ["Zoë K.", *(f"seller {k}" for k in range(299))]
    costs, ages, incomes = rng.uniform(1, 5, 300), rng.uniform(18, 90, 300), rng.uniform(0, 1e5, 300)
    labels = np.where(ages / 90 + incomes / 1e5 > 1.0, "yes", "no")
    public = {"age": ages.tolist(), "income": incomes.tolist(), "label": labels.tolist()}
    write_table("reports.csv", {"seller": ids, "cost": costs.tolist()})
    write_table("data.csv", {"seller": ids, **public})
    Path("records").mkdir()
    pl.DataFrame({"seller": ids, **public}).write_parquet("records/all.parquet")
    write_table("public.csv", public)
    write_table("accounts.csv", {"id": ids, "name": ids, "iban": ["DE89370400440532013000"] * 300})
    write_table("pilot.csv", {"cost": rng.gamma(3.0, 0.8, 200).tolist()})
    examples = [example for command in all_commands().values() for example in examples_of(command)]
    shown = [f"$ {example}" for example in ("dpmarket init --service hospital", *examples)]
    page = tmp_path / "examples.md"
    page.write_text("\n".join(["```console", *shown, "```"]), encoding="utf-8")
    run_page(page, tmp_path)


def test_reference_pages_have_every_command_setting_call_and_key():
    filled = runpy.run_path(str(ROOT / "docs" / "_extensions" / "reference.py"))["filled"]
    pages = {path.stem: filled(path.read_text()) for path in (ROOT / "docs" / "reference").glob("*.md")}
    assert not [name for name, page in pages.items() if "% table" in page]
    for name, command in all_commands().items():
        section = pages["commands"].partition(f"# `{name}`\n")[2].partition("\n## ")[0]
        assert all(f"$ {example}\n" in section for example in examples_of(command)), name
        assert all(one.opts[0] in section for one in command.params if not getattr(one, "hidden", False))
    assert all(f"| `{name}` |" in pages["settings"] for name in Settings.model_fields)
    assert all(f"[{name}]" in pages["rules-file"] for name in Rules.model_fields)
    calls = [
        (method, path) for path, item in make_routes().state.document["paths"].items() for method in item
    ]
    assert all(f"| `{method.upper()} {path}` |" in pages["api"] for method, path in calls)
