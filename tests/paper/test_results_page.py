"""The published pages say what the published tables say."""

import re
from pathlib import Path

import pytest

from dpmarket.paper.claims import CLAIMS
from dpmarket.paper.experiments.catalogue import EXPERIMENTS
from dpmarket.paper.experiments.results_page import (
    PARTS,
    SUMMARY,
    anchor,
    judge,
    page_of,
    read_tables,
    result_pages,
)
from dpmarket.paper.experiments.running import plain
from dpmarket.paper.experiments.verdicts import REPRODUCED, counted

PUBLISHED = Path(__file__).parents[2] / "docs/paper"
PAGES = [SUMMARY, *(part.file for part in PARTS)]


@pytest.fixture(scope="module")
def tables():
    return read_tables(PUBLISHED)


@pytest.fixture(scope="module")
def pages(tables):
    return result_pages(tables)


@pytest.mark.parametrize("name", PAGES)
def test_a_published_page_is_rebuilt_from_the_stored_tables(name, pages):
    assert (PUBLISHED / name).read_text() == pages[name]


def test_no_results_page_is_left_that_the_tables_do_not_make(pages):
    assert {path.name for path in PUBLISHED.glob("results*.md")} == set(pages) == set(PAGES)
    assert {path.stem for path in (PUBLISHED / "tables").glob("*.csv")} == {e.name for e in EXPERIMENTS}
    assert {path.stem for path in (PUBLISHED / "figures").glob("*.svg")} == {e.name for e in EXPERIMENTS}


def test_the_published_tables_were_made_with_the_full_settings(tables):
    for experiment in EXPERIMENTS:
        assert dict(tables[experiment.name].configuration) == plain(experiment.full)


def test_every_experiment_is_on_one_page():
    assert [name for part in PARTS for name in part.experiments] == [e.name for e in EXPERIMENTS]


def test_every_claim_is_printed_with_sentence_setting_evidence_other_settings_and_verdict(tables, pages):
    judged = judge(tables)
    assert [claim for claim, _ in judged] == list(CLAIMS)
    for claim, judgement in judged:
        page = pages[page_of(claim).file]
        section = page.split(f"\n### {claim.statement}\n")[1].split("\n### ")[0].split("\n## ")[0]
        assert f"> {claim.sentence} ({claim.where})" in section
        assert f"**{judgement.verdict.capitalize()}.** {judgement.measured}" in section
        assert f"*Setting.* {claim.setting(tables)}" in section
        assert not re.search(r"\b(nan|inf)\b", section)
        assert f"]({page_of(claim).file}#{anchor(claim.statement)})" in pages[SUMMARY]


def test_every_verdict_that_is_not_holds_has_a_table_of_other_settings(tables, pages):
    for claim, judgement in judge(tables):
        sheet = claim.robustness(tables)
        if judgement.verdict != "holds":
            assert len(sheet.rows) >= 3, claim.key
        page = pages[page_of(claim).file]
        assert "| " + " | ".join(cell.replace("|", "\\|") for cell in sheet.rows[-1]) + " |" in page


def test_the_summary_begins_with_what_reproduces_and_sets_slips_apart_from_findings(tables, pages):
    summary = pages[SUMMARY]
    places = [summary.index(f"## {title}") for title in ("What reproduces", "Slips", "Findings")]
    assert places == sorted(places)
    for claim, judgement in judge(tables):
        at = summary.index(f"#{anchor(claim.statement)})")
        if judgement.verdict in REPRODUCED:
            assert places[0] < at < places[1]
        elif claim.repair:
            assert places[1] < at < places[2]
        else:
            assert places[2] < at


def test_the_summary_counts_its_verdicts(tables, pages):
    judged = judge(tables)
    counts = counted([judgement for _, judgement in judged])
    assert sum(counts.values()) == len(CLAIMS)
    assert f"{len(CLAIMS)} statements: {counts['holds']} *holds*" in pages[SUMMARY]


def test_a_page_of_quick_tables_says_so(tables, pages):
    changed = dict(tables)
    name = EXPERIMENTS[0].name
    old = tables[name]
    changed[name] = type(old)(old.name, old.columns, plain(EXPERIMENTS[0].quick), old.versions)
    assert "Not the published settings" in result_pages(changed)[SUMMARY]
    assert "Not the published settings" not in pages[SUMMARY]


def test_every_link_to_a_results_page_finds_its_heading(pages):
    for path in PUBLISHED.glob("*.md"):
        for file, place in re.findall(r"\]\((results[\w-]*\.md)#([^)]*)\)", path.read_text()):
            headings = [line.lstrip("# ") for line in pages[file].splitlines() if line.startswith("#")]
            assert [anchor(heading) for heading in headings].count(place) == 1, f"{path.name}: {place}"


def test_no_section_is_empty(pages):
    for part in PARTS:
        for name in part.experiments:
            title = next(e.title for e in EXPERIMENTS if e.name == name)
            section = pages[part.file].split(f"\n## {title}\n")[1].split("\n## ")[0]
            decided = [claim for claim in CLAIMS if name in claim.experiments]
            assert decided
            assert any(claim.statement in section for claim in decided)
