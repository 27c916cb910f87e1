"""Every claim's verdict, recomputed with the quick settings."""

import pytest

from dpmarket.paper.claims import CLAIMS
from dpmarket.paper.experiments.catalogue import EXPERIMENTS, experiment_named
from dpmarket.paper.experiments.running import Work

HOLDS, CONSISTENT = "holds", "consistent with"
CONDITION, FAILS = "holds under a condition", "does not hold"
VERDICTS = {
    "fig2-costs": HOLDS,
    "fig2a-tradeoff": HOLDS,
    "fig2b-regularisation": CONDITION,
    "fig2b-baseline": HOLDS,
    "fig2-guarantee": CONDITION,
    "contributions-budget": CONDITION,
    "fig2a-budget": CONDITION,
    "fig3a-disparity": CONDITION,
    "fig3a-loss": CONDITION,
    "fig3b-ratio": CONDITION,
    "lemma-rate": HOLDS,
    "lemma-probability": HOLDS,
    "footnote-density": HOLDS,
    "thm-perf-bounds-arrivals": HOLDS,
    "fig4a-eta": HOLDS,
    "fig4b-errors": HOLDS,
    "fig4b-loss": HOLDS,
    "fig4b-terms": HOLDS,
    "sec2-equal-weights": HOLDS,
    "gen-loss": CONDITION,
    "thm-asymptotic": CONSISTENT,
    "thm-perf-bounds-online": CONSISTENT,
    "fig1-order": HOLDS,
    "remark-cap": HOLDS,
    "discussion-learner": HOLDS,
    "discussion-loss": HOLDS,
    "lemma-expectation": HOLDS,
    "lemma-truth": HOLDS,
    "lemma-participation": CONDITION,
    "prop-bound": HOLDS,
    "prop-slack": CONDITION,
    "appendix-privacy": FAILS,
    "convexify-convex": HOLDS,
    "convexify-linear": HOLDS,
    "contributions-fast": HOLDS,
    "convexify-starts": CONDITION,
    "contributions-variables": HOLDS,
    "algorithm4-minimum": CONDITION,
}
FIRST = [e.name for e in EXPERIMENTS if any(claim.experiments[0] == e.name for claim in CLAIMS)]
MADE = {}


def _quick(name):
    """Return the table of an experiment's quick settings, made once for all tests of this file."""
    if name not in MADE:
        experiment = experiment_named(name)
        MADE[name] = experiment.compute(experiment.quick, Work())
    return MADE[name]


def test_every_claim_has_an_expected_verdict_and_every_experiment_a_claim():
    assert [claim.key for claim in CLAIMS] == list(VERDICTS)
    assert {name for claim in CLAIMS for name in claim.experiments} == {e.name for e in EXPERIMENTS}


def test_every_claim_quotes_the_paper_or_says_that_it_is_implied():
    for claim in CLAIMS:
        assert "“" in claim.sentence
        assert claim.sentence.count("“") == claim.sentence.count("”")
        assert claim.sentence.startswith("“") or claim.sentence.startswith("Implied")


@pytest.mark.parametrize("name", FIRST)
def test_the_quick_settings_give_the_published_verdicts(name):
    """All randomness is seeded, so that a false alarm is impossible: the tables are the same in every run."""
    mine = [claim for claim in CLAIMS if claim.experiments[0] == name]
    tables = {table: _quick(table) for claim in mine for table in claim.experiments}
    found = {claim.key: claim.judge(tables) for claim in mine}
    assert {key: judged.verdict for key, judged in found.items()} == {key: VERDICTS[key] for key in found}
    for claim in mine:
        measured = found[claim.key].measured
        assert any(letter.isdigit() for letter in measured), "a judgement states what was measured"
        assert "nan" not in measured
        assert any(letter.isdigit() for letter in claim.setting(tables)), "a setting has numbers"
        sheet = claim.robustness(tables)
        assert sheet.rows
        for row in sheet.rows:
            assert len(row) == len(sheet.columns)
            assert "nan" not in " ".join(row)


def test_a_claim_that_needs_a_repair_does_not_simply_hold():
    for claim in CLAIMS:
        if claim.repair:
            assert VERDICTS[claim.key] == CONDITION
