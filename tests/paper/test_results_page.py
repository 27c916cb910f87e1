"""The published page says what the published tables say."""

from pathlib import Path

import pytest

from dpmarket.paper.claims import CLAIMS
from dpmarket.paper.experiments.catalogue import EXPERIMENTS
from dpmarket.paper.experiments.results_page import judge, read_tables, results_page
from dpmarket.paper.experiments.running import plain

PUBLISHED = Path(__file__).parents[2] / "docs/paper"


@pytest.fixture(scope="module")
def tables():
    return read_tables(PUBLISHED)


def test_the_page_is_generated_from_the_tables(tables):
    assert (PUBLISHED / "results.md").read_text() == results_page(tables)


def test_the_published_tables_were_made_with_the_full_settings(tables):
    for experiment in EXPERIMENTS:
        assert dict(tables[experiment.name].configuration) == plain(experiment.full)


def test_every_claim_is_judged_and_printed_with_its_verdict(tables):
    page = (PUBLISHED / "results.md").read_text()
    found = judge(tables)
    assert [claim for claim, _ in found] == list(CLAIMS)
    for claim, judgement in found:
        assert (
            f"- **{claim.statement}** ({claim.where})\n  *{judgement.verdict}*. {judgement.measured}" in page
        )
        assert "nan" not in judgement.measured
    for experiment in EXPERIMENTS:
        assert f"(figures/{experiment.name}.svg)" in page
        assert f"dpmarket reproduce {experiment.name}`" in page


def test_a_page_of_quick_tables_says_so(tables):
    changed = dict(tables)
    name = EXPERIMENTS[0].name
    old = tables[name]
    changed[name] = type(old)(old.name, old.columns, plain(EXPERIMENTS[0].quick), old.versions)
    assert "Not the published settings" in results_page(changed)
    assert "Not the published settings" not in results_page(tables)


def test_no_section_is_empty(tables):
    for experiment in EXPERIMENTS:
        section = results_page(tables).split(f"\n## {experiment.title}\n")[1].split("\n## ")[0]
        decided = [claim for claim in CLAIMS if experiment.name in claim.experiments]
        assert decided
        assert any(claim.statement in section for claim in decided)
