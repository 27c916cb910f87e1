"""Honest certificates of every release and every mechanism verify, by the verifier and by the page alike."""

import functools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates import certify, receipt_page, verify
from dpmarket.certificates.canonical import canonical
from dpmarket.certificates.certificate import make_certificate
from dpmarket.errors import DpmarketError, InvalidInput, NotCertifiable
from dpmarket.mechanisms.groups import Group
from dpmarket.privacy import SeededNoise
from support import forging
from support.certificates import (
    COSTS,
    HONEST,
    IDS,
    OBJECTIVE,
    M,
    cross_priced,
    failing,
    honest,
    market,
    model,
    papers_of,
    reports_file,
)  # fmt: skip
from support.forging import FILES, Papers
from support.receipt_page import NODE, page_verdicts

NAMES = [*HONEST, "cross-priced"]
cross_priced_once = functools.cache(cross_priced)


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_certificate_still_verifies_and_names_nobody(name):
    certificate, openings = ((FILES / f"{name}{end}.json").read_bytes() for end in ("", ".openings"))
    found = verify(certificate, openings=openings)
    assert failing(found) == set()
    assert not any(
        line["id"].encode() in certificate for line in Papers.stored(name).lines if len(line["id"]) > 4
    )


@pytest.mark.parametrize("name", ["two-classes", "softmax", "delta-online", "several", "two-classes-groups"])
def test_a_fresh_certificate_verifies_with_openings_reports_and_receipts(name):
    made = honest(name)
    reports = reports_file(dict(zip(IDS, COSTS.tolist(), strict=True)))
    assert failing(verify(made, openings=made.openings(), reports=reports, digest=made.digest)) == set()
    for k in (0, M - 1):
        assert verify(bytes(made), receipt=made.receipt(IDS[k]), cost=float(COSTS[k])).passed


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_page_and_the_verifier_say_the_same_of_every_stored_receipt():
    cases = []
    for name in NAMES:
        papers = Papers.stored(name)
        lowest = min(papers.lines, key=lambda line: line["payment"])
        cases += [(papers.certificate(), papers.receipt(line), 1.0) for line in (papers.best, lowest)]
    by_page = page_verdicts(cases)
    for (certificate, receipt, cost), page in zip(cases, by_page, strict=True):
        first = certificate.split(b"\n")[0] + b"\n"
        found = [(check.name, check.verdict) for check in verify(first, receipt=receipt, cost=cost).checks]
        assert found == page
        assert {name for name, verdict in page if verdict == "FAILS"} <= {"quote at your cost"}


@pytest.mark.parametrize("coverage", [0.0, 0.5, 5.0])
def test_soft_quotas_are_stated_and_only_then_may_shares_differ(coverage):
    groups = [Group("town", 0.7, dpm.VirtualCost.of(dpm.Uniform(1, 5))),
              Group("country", 0.3, dpm.VirtualCost.of(dpm.Uniform(0.5, 6)))]  # fmt: skip
    mechanism = dpm.OfflineMechanism(None, OBJECTIVE, groups=groups, coverage=coverage)
    members = np.arange(M) % 2
    outcome = mechanism.run(COSTS, members)
    made = certify(outcome, model(outcome), mechanism.rules(), seller_ids=IDS, groups=members)
    assert failing(verify(made, openings=made.openings())) == set()
    papers = papers_of(made)
    assert papers.market["coverage"] == coverage
    papers.market["coverage"] = "hard"
    assert failing(verify(papers.certificate(), openings=papers.openings())) == {"caps and quotas"}


def test_a_cross_priced_certificate_is_followed_from_the_reports_to_every_quote():
    made, costs, rules = cross_priced_once()
    shown = {
        "openings": made.openings(),
        "commitment": rules.encode() + b"\n",
        "reports": reports_file(costs),
    }
    found = verify(made, **shown)
    assert failing(found) == set()
    assert {check.name for check in found.checks if check.verdict == "skipped"} == {"signature"}
    liar = dict(costs)
    liar["s7"] += 0.5
    assert "every quote" in failing(verify(made, **shown | {"reports": reports_file(liar)}))


def test_the_forgers_papers_are_the_honest_ones_if_nothing_is_changed():
    """Else every forgery would be found for the wrong reason."""
    for name in NAMES:
        papers = Papers.stored(name)
        before = papers.certificate_was
        papers.settle()
        assert papers.certificate() == before, name
        assert json.loads(papers.openings()) == json.loads(papers.openings_were), name
    made = honest("two-classes")
    assert papers_of(made).receipt(papers_of(made).lines[3]) == made.receipt(IDS[3])


def test_canonical_json_is_that_of_rfc_8785():
    values = [0.0, -0.0, 1.0, -1.5, 1e20, 1e21, 123456789012345680000.0, 1e-6, 1e-7, 1.5e-7, 5e-324,
              1.7976931348623157e308,
              333333333.33333329, 4.5, 2e-3, 9007199254740991.0, True, None]  # fmt: skip
    data = {"\u20ac": values, "\r": "\u000f\n'\\\"/", "1": {}, "\U0001f602": [], "\ufb33": "€", "ö": "\x80"}
    expected = (
        '{"\\r":"\\u000f\\n\'\\\\\\"/","1":{},"ö":"\x80","€":[0,0,1,-1.5,100000000000000000000,1e+21,'
        "123456789012345680000,0.000001,1e-7,1.5e-7,5e-324,1.7976931348623157e+308,333333333.3333333,4.5,0.002,"
        '9007199254740991,true,null],"\U0001f602":[],"\ufb33":"€"}'
    )
    assert canonical(data).decode() == expected
    numbers = np.random.default_rng(0).standard_normal(500) * 10.0 ** np.random.default_rng(1).integers(
        -30, 30, 500
    )
    assert canonical(numbers.tolist()) == forging.canonical(numbers.tolist())
    for wrong in (float("nan"), float("inf"), 2**53 + 1, {"a": {1, 2}}, "\ud800"):
        with pytest.raises(InvalidInput):
            canonical([wrong])


def test_papers_that_must_not_be_certified_are_refused():
    outcome, rules = market("offline")
    fitted, in_groups = model(outcome), market("groups")[0]
    refused = {
        "repeatable noise": lambda: certify(outcome, model(outcome, noise_source=SeededNoise(0)), rules),
        "classes from the data": lambda: certify(outcome, model(outcome, classes=None), rules),
        "other epsilons": lambda: certify(market("quadratic")[0], fitted, rules),
        "no outcome": lambda: certify(outcome.epsilons, fitted, rules),
        "withdrawn and used": lambda: certify(outcome, fitted, rules, withdrawn=[int(COSTS.argmin())]),
        "a stranger withdrew": lambda: certify(outcome, fitted, rules, withdrawn=["nobody"]),
        "another schedule": lambda: certify(outcome, fitted, market("posted")[1]),
        "no table": lambda: certify(outcome, fitted, {**rules, "groups": None}),
        "ids twice": lambda: certify(outcome, fitted, rules, seller_ids=[0, *range(M - 1)]),
        "half an id": lambda: certify(outcome, fitted, rules, seller_ids=["\ud800", *range(M - 1)]),
        "no groups": lambda: certify(in_groups, model(in_groups), market("groups")[1]),
        "a group before the first": lambda: certify(
            in_groups,
            model(in_groups),
            market("groups")[1],
            groups=np.arange(M) % 2 - (in_groups.payments == 0),
        ),
        "a long currency": lambda: certify(outcome, fitted, rules, currency="000 EUR"),
    }
    for name, act in refused.items():
        with pytest.raises(DpmarketError):
            pytest.fail(f"{name} was certified: {act()!r}")


def test_a_line_that_no_sample_sees_is_refused_if_its_epsilon_was_exceeded():
    made, _, rules = cross_priced_once()
    poorest = np.arange(len(made.lines)) == made.lines.payments.argmin()
    body = json.loads(made.body)
    for name, withdrew in (("used", False), ("weights", True)):
        other = {name: np.where(poorest, 1e-9, getattr(made.lines, name)), "withdrew": poorest & withdrew}
        sellers = replace(made.lines, **other)
        with pytest.raises(NotCertifiable, match="withdrew" if withdrew else "exceeded"):
            make_certificate(sellers, body["market"], body["release"], body["money"], rules=rules)


def test_sums_are_rounded_up_to_three_digits_and_the_epsilon_used_is_exact():
    for name in ("two-classes", "cross-priced", "delta", "several"):
        papers = Papers.stored(name)
        totals = papers.body["totals"]
        exact = {
            key: sum(Fraction(line[key]) for line in papers.lines) for key in ("epsilon", "payment", "used")
        }
        for key in ("epsilon", "payment"):
            stated = Fraction(totals[f"total_{key}"])
            assert exact[key] <= stated <= exact[key] * Fraction(101, 100)
            assert len(str(totals[f"total_{key}"]).replace(".", "").strip("0")) <= 3
        assert (totals["total_used"] == float(exact["used"])) == (name != "delta")


def test_sellers_who_withdrew_are_owed_nothing_and_have_nothing_used():
    outcome, rules = market("online")
    gone = int(COSTS.argmin())
    budgets = {IDS[k]: e for k, e in enumerate(outcome.epsilons.tolist()) if k != gone}
    people = [name for name in IDS if name in budgets]
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (M - 1, 2))
    fitted = dpm.PrivateLogisticRegression(classes=(0, 1)).fit(
        x, np.arange(M - 1) % 2, epsilons=budgets, people=people
    )
    made = certify(outcome, fitted, rules, seller_ids=IDS, withdrawn=[IDS[gone]])
    assert failing(verify(made, openings=made.openings())) == set()
    assert b"withdrawn" in made.body
    assert json.loads(made.receipt(IDS[gone]))["line"]["used"] == 0


def test_every_copy_of_the_page_is_the_same_fetches_nothing_and_holds_nobodys_data():
    page = receipt_page()
    assert page == receipt_page()
    assert b"http" not in page.replace(b"http-equiv", b"")
    assert b"default-src 'none'" in page
    assert b"@" not in page.replace(b"@media", b"")


def test_less_epsilon_for_the_same_money_is_not_the_quote_at_a_sellers_cost():
    """A posted price pays the same at every cost: only the epsilon tells."""
    papers = Papers.stored("two-classes-posted")
    line = papers.best
    assert failing(verify(papers.first, receipt=papers.receipt(line), cost=1.0)) == set()
    line["epsilon"] = line["used"] = 0.5 * line["epsilon"]
    papers.settle()
    assert "quote at your cost" in failing(verify(papers.first, receipt=papers.receipt(line), cost=1.0))


def test_totals_that_only_openings_show_are_listed_as_skipped():
    """Anybody can change a copy of the file: then the digest is another one."""
    papers = Papers.stored("two-classes")
    papers.body["totals"]["bought_from"] -= 1
    found = verify(papers.certificate())
    assert failing(found) == set()
    assert "totals" in {check.name for check in found.checks if check.verdict == "skipped"}
    honest_digest = Papers.stored("two-classes").digest
    assert failing(verify(papers.certificate(), digest=honest_digest)) == {"digest"}
    assert "totals" in failing(verify(papers.certificate(), openings=papers.openings()))
