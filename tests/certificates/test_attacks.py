"""Certificates that somebody with both sources would forge: consistent in all that used to be looked at."""

import hashlib
import json
import math

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates import certify, verify
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import PaperObjective
from support.certificates import RULES, bought, failing
from support.forging import FILES, Papers, canonical

DIST = dpm.Uniform(1.0, 5.0)


def certified(sellers, objective, costs=None, currency=""):
    """Return the honest papers of a market with so many sellers, whose records are random."""
    costs = DIST.sample(sellers, np.random.default_rng(sellers)) if costs is None else costs
    ids = [f"seller {k}" for k in range(sellers)]
    outcome = OfflineMechanism(DIST, objective).run(costs)
    x = np.random.default_rng(5).uniform(-0.5, 0.5, size=(sellers, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    model = dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(x, y, epsilons=outcome.epsilons)
    certificate = certify(outcome, model, RULES, seller_ids=ids, minor_units=100, currency=currency)
    reports = dict(zip(ids, costs.tolist(), strict=True))
    return Papers.of(bytes(certificate), certificate.openings(), reports)


@pytest.fixture(scope="module")
def papers():
    return certified(20, PaperObjective(1.0, 1.0, 2e-2))


# --- the accounting ---

RUINED = {
    "rows per person without end": {"rows_per_person": 10**60},
    "hardly any noise rate": {"noise_rate": 1e-60},
    "both": {"rows_per_person": 10**60, "noise_rate": 1e-60},
    "hardly any penalty": {"l2": 1e-300},
    "rows of any length": {"row_bound": 1e200},
}


@pytest.mark.parametrize("constants", RUINED.values(), ids=RUINED)
def test_a_spent_epsilon_far_too_small_is_found_whatever_the_constants(papers, constants):
    """With these constants the change of curvature got lost in rounding: true losses are 7 times and more."""
    forged = papers.copy()
    # A fine release costs nothing to speak of, and a small penalty makes the curvature count.
    forged.constants.update(
        {"l2": 1e-4, "gradient_bound": 1e-40, "noise_accuracy": 1e-40, "numerical_epsilon": 1e-6} | constants
    )
    eta, bound = forged.constants["noise_rate"], forged.constants["row_bound"]

    def least(lines):
        for line in lines:
            told = line["weight"] * eta * bound * (1.0 + 1e-9) + (1e-9 if line["weight"] else 0.0)
            line["spent"] = min(told, line["promise"])

    forged = forged.with_lines(least)
    k = max(range(20), key=lambda k: forged.lines[k]["weight"])
    assert forged.lines[k]["spent"] > 0.0
    assert not verify(forged.certificate, receipt=forged.receipt(k)).passed
    assert not verify(forged.certificate, openings=forged.openings).passed


# --- payments ---


# --- promises ---


# --- what was spent before ---


def test_what_strangers_spent_before_is_refused(papers):
    outcome = bought([1.5, 2.0])
    ids = ["1", "2"]
    model = dpm.PrivateLogisticRegression(classes=(0, 1))
    model = model.fit([[0.2], [0.4]], [0, 1], epsilons=outcome.epsilons)
    certify(outcome, model, RULES, seller_ids=ids, already_spent={"1": 0.0})
    with pytest.raises(InvalidInput, match="already_spent"):
        certify(
            outcome, model, RULES, seller_ids=ids, already_spent={1: 0.5}
        )  # the number, not the text: nobody
    with pytest.raises(InvalidInput, match="already_spent"):
        certify(outcome, model, RULES, seller_ids=ids, already_spent={"1": 0.0, "somebody else": 0.5})


# --- the reader's own cost ---


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_none_does_not_make_a_payment_worth_it(papers, cost):
    assert not verify(papers.certificate, receipt=papers.receipt(0), cost=cost).passed


# --- found by looking for more ---


def test_nobody_is_told_that_a_payment_that_is_not_owed_covers_the_loss():
    """A line that says that its holder withdrew keeps what was quoted, and nothing of it is paid."""
    papers = Papers.read("version-2", "withdrawn")
    k = next(k for k, line in enumerate(papers.lines) if line["withdrew"] and line["payment"] > 0.0)
    result = verify(papers.certificate, receipt=papers.receipt(k), cost=papers.reports[papers.lines[k]["id"]])
    told = {check.name: check for check in result.checks}
    assert told["participation"].verdict == "not made"
    assert "nothing of it is owed" in told["receipt's line"].detail


def test_a_menu_with_a_huge_last_point_does_not_excuse_small_payments():
    """What rounding was forgiven used to be a billionth of the menu's largest payment, a forger's choice."""
    papers = Papers.read("version-2", "online")
    k = max(range(20), key=lambda k: papers.lines[k]["promise"])
    forged = papers.copy()
    menu = forged.body["menu"]
    cost, last = menu["cost"][-1], 1e14
    menu["payment"].append(menu["payment"][-1] + cost * (last - menu["epsilon"][-1]))
    menu["epsilon"].append(last)
    menu["cost"].append(cost)
    assert verify(forged.certificate, receipt=forged.receipt(k)).passed  # the menu alone is a sound one
    for unpaid in ({"payment": 0.0}, {"payment": 0.0, "quotes": 10**6}):
        robbed = forged.with_lines(lambda lines, unpaid=unpaid: lines[k].update(unpaid))
        assert failing(verify(robbed.certificate, receipt=robbed.receipt(k))) == {"receipt's offer"}
        assert failing(verify(robbed.certificate, openings=robbed.openings)) == {"offers"}


def test_salts_that_are_used_twice_are_found(papers):
    forged = papers.copy()
    forged.salts[3] = forged.salts[4]
    forged = forged.settled()
    assert failing(verify(forged.certificate, openings=forged.openings)) == {"salts"}


def test_times_without_their_distance_from_utc_say_nothing():
    papers = Papers.read("version-2", "online")
    rules = json.loads((FILES / "version-2" / "online.rules.json").read_bytes())
    rules["committed_at"] = "2026-01-01T00:00:00"
    text = canonical(rules) + b"\n"
    forged = papers.changed("commitment", "committed_at", to=rules["committed_at"])
    forged = forged.changed("commitment", "quoted_at", to="2026-01-01T00:00:01")
    forged = forged.changed("commitment", "digest", to=hashlib.sha256(text).hexdigest())
    assert failing(verify(forged.certificate, commitment=text)) == {"rules fixed beforehand"}


def test_sentences_that_the_reader_does_not_know_are_pointed_to(papers):
    more = papers.changed("not_promised", to=[*papers.body["not_promised"], "That anybody is paid."])
    told = next(check.detail for check in verify(more.certificate).checks if check.name == "limits")
    assert "1 sentences more: read them" in told


@pytest.mark.parametrize("currency", ["000 EUR", "\x1b[2J", "E.", "EURO" * 4])
def test_a_currency_that_could_be_read_as_part_of_an_amount_is_refused(papers, currency):
    forged = papers.changed("money", "currency", to=currency)
    assert failing(verify(forged.certificate)) == {"public numbers"}
    with pytest.raises(InvalidInput, match="currency"):
        certified(20, PaperObjective(1.0, 1.0, 2e-2), currency=currency)


def test_a_receipt_in_another_money_or_with_other_limits_is_refused(papers):
    receipt = json.loads(papers.receipt(3))
    for change in ({"money": {"currency": "JPY", "minor_units": 100}}, {"not_promised": []}):
        other = canonical(receipt | change) + b"\n"
        assert failing(verify(papers.certificate, receipt=other)) == {"receipt's words"}


def test_a_menu_that_is_not_the_published_one_is_found():
    papers = Papers.read("version-2", "online")
    rules = (FILES / "version-2" / "online.rules.json").read_bytes()
    assert verify(papers.certificate, commitment=rules).passed
    for factor in (0.9, 1.001):
        forged = papers.copy()
        menu = forged.body["menu"]
        for name in ("cost", "payment"):
            menu[name] = [factor * value for value in menu[name]]
        assert verify(forged.certificate).passed
        assert failing(verify(forged.certificate, commitment=rules)) == {"prices fixed beforehand"}
