"""A market file's prices: suggested from public facts where it has a budget only, kept where it has them."""

import json
import tomllib

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, FileProblem, Uniform
from dpmarket.campaign import (
    certify_quotes,
    check_market,
    decide_offline,
    decide_online,
    quote_file,
    train_file,
)
from dpmarket.campaign.deciding import way_to_decide
from dpmarket.campaign.pricing import curve_for, error_model_of, plan_for, prices_for
from dpmarket.certificates import verify
from dpmarket.planning import best_posted_price, estimator_error, suggest_prices
from support.campaigns import HEADER, MARKET, make_campaign, read_rows, write_pilot, write_rows

BUDGET = "[sellers]\nexpected = 60\n" + MARKET.replace("payment_weight = 0.001", "budget = 80.0")
POSTED = BUDGET.replace("budget = 80.0", 'budget = 80.0\nmechanism = "posted price"')
DIST = Uniform(1, 5)


def market(text=BUDGET):
    return check_market(tomllib.loads(text))


def quote(folder, decide=decide_offline, reports="reports.csv", output="quotes.csv"):
    return quote_file(folder / "market.toml", folder / reports, folder / output, decide).outcome


def test_a_market_with_a_budget_and_no_prices_gets_those_of_the_least_expected_error():
    model = error_model_of(market())
    assert model == estimator_error(2)  # two features and the constant
    plan = plan_for(market(), 60, 80.0)
    estimator = dpm.PrivateLogisticRegression(classes=(0, 1), epsilon=1.0)
    trained = estimator.fit([[0.1, 0.2], [0.3, -0.1]], [0, 1])
    assert plan.objective == suggest_prices(DIST, 60, 80.0, trained.coef_grid_.size, trained.row_bound_)
    kept = BUDGET.replace("budget = 80.0", "budget = 80.0\nconcentration = 1.0\nnoise = 1.0")
    assert plan.expected_error.total < 0.8 * plan_for(market(kept), 60, 80.0).expected_error.total


def test_prices_in_the_file_are_kept():
    kept = BUDGET.replace("budget = 80.0", "budget = 80.0\nconcentration = 2.0\nnoise = 30.0")
    objective = prices_for(market(kept), 60, 80.0)
    assert (objective.concentration, objective.noise) == (2.0, 30.0)
    assert plan_for(market(kept), 60, 80.0).expected_payment == pytest.approx(80.0, rel=2e-3)
    # With one price the other is 1, and with a payment weight both are.
    one = prices_for(market(BUDGET.replace("budget = 80.0", "budget = 80.0\nnoise = 20.0")), 60, 80.0)
    assert (one.concentration, one.noise) == (1.0, 20.0)
    assert prices_for(market(MARKET), 60, 0.0) == BuyerObjective(1.0, 1.0, 0.001)


def test_prices_and_payment_weight_are_the_same_whatever_is_reported(tmp_path):
    decided = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        make_campaign(folder, market=BUDGET, seed=seed)
        decided.append(quote(folder))
    first, second = decided
    assert first.parameters["objective"] == second.parameters["objective"]
    assert first.epsilons.tolist() != second.epsilons.tolist()


def test_a_posted_price_goes_from_quotes_to_a_verified_certificate(tmp_path):
    costs = make_campaign(tmp_path, market=POSTED)
    outcome = quote(tmp_path)
    offer = best_posted_price(DIST, 60, 80.0, estimator_error(2))
    bought = costs <= offer.price
    assert 0 < bought.sum() < 60
    rows = read_rows(tmp_path / "quotes.csv")
    came = len(rows)  # the budget is hard: once there is no room for the price, it is full
    assert 40 < came <= 60
    assert outcome.epsilons.tolist() == np.where(bought, offer.epsilon, 0.0)[:came].tolist()
    paid = {row["payment_minor_units"] for row, buys in zip(rows, bought[:came], strict=True) if buys}
    assert len(paid) == 1
    assert int(paid.pop()) == pytest.approx(100 * offer.price * offer.epsilon, abs=1.0)
    quoted = {row["seller"] for row in rows}
    records = [list(row.values()) for row in read_rows(tmp_path / "data.csv") if row["seller"] in quoted]
    write_rows(tmp_path / "data.csv", HEADER, records)
    train_file(
        tmp_path / "market.toml", tmp_path / "quotes.csv", tmp_path / "data.csv", tmp_path / "model.json"
    )
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    assert verify(bytes(certificate)).passed
    assert dpm.audit_participation(outcome, costs[:came]).passed


def test_a_posted_price_is_the_same_for_all_at_once_and_one_by_one():
    ways = [way_to_decide(market(POSTED), decide) for decide in (decide_offline, decide_online)]
    assert ways == [decide_online, decide_online]
    assert way_to_decide(market(BUDGET), decide_offline) is decide_offline
    curve = curve_for(market(POSTED), prices_for(market(POSTED), 60, 80.0), 60)
    menu = dpm.OnlineMechanism(DIST, curve).menu(points=30)
    assert menu.epsilons.size == 2


def test_a_posted_price_needs_a_budget():
    text = MARKET.replace("payment_weight = 0.001", 'payment_weight = 0.001\nmechanism = "posted price"')
    with pytest.raises(FileProblem) as refusal:
        market(text)
    assert list(refusal.value.details) == [
        "objective.mechanism: expected a budget beside a posted price, found none."
    ]


FITTED = BUDGET.replace('"uniform(1, 5)"', '"costs.json"')


def test_reports_that_are_the_pilot_are_refused(tmp_path):
    costs = make_campaign(tmp_path, market=FITTED)
    ids = [row["seller"] for row in read_rows(tmp_path / "reports.csv")]
    write_pilot(tmp_path, costs, ids)
    with pytest.raises(FileProblem, match="are the pilot"):
        quote(tmp_path, reports="pilot.csv")
    # The same costs in another order and without ids.
    write_pilot(tmp_path, costs[::-1])
    with pytest.raises(FileProblem, match="the same costs"):
        quote(tmp_path)
    assert not (tmp_path / "quotes.csv").exists()
    assert not (tmp_path / "market.ledger").exists()


def test_people_of_the_pilot_are_refused_by_their_ids_and_others_are_not(tmp_path):
    make_campaign(tmp_path, market=FITTED)
    ids = [row["seller"] for row in read_rows(tmp_path / "reports.csv")]
    others = [f"pilot {k}" for k in range(78)]
    pilot = DIST.sample(80, np.random.default_rng(9))
    assert ids[10] == "\u00e9"
    write_pilot(tmp_path, pilot, [ids[0], "e\u0301", *others])  # the same letter in another form
    with pytest.raises(FileProblem, match="2 of these sellers") as refusal:
        quote(tmp_path)
    assert ids[0] not in str(refusal.value)
    write_pilot(tmp_path, pilot, ["pilot a", "pilot b", *others])
    assert quote(tmp_path).epsilons.sum() > 0.0
    # A pilot that is not there any more cannot be looked at.
    (tmp_path / "pilot.csv").unlink()
    quote(tmp_path, output="again.csv")


def test_an_empirical_distribution_of_the_reports_is_recognised_without_its_pilot(tmp_path):
    costs = make_campaign(tmp_path, market=FITTED)
    (tmp_path / "costs.json").write_text(json.dumps(dpm.Empirical(costs).to_dict()))
    with pytest.raises(FileProblem, match="these very reports"):
        quote(tmp_path)
    (tmp_path / "costs.json").write_text(json.dumps(dpm.Empirical(costs + 0.01).to_dict()))
    quote(tmp_path)
