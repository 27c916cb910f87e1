"""Campaigns whose promises have a delta: the file, quotes, the ledger, the model, and what is refused."""

import json

import numpy as np
import polars as pl
import pytest

from dpmarket.campaign import (
    certify_quotes,
    check_market,
    decide_offline,
    decide_online,
    describe,
    quote_file,
    read_market,
    read_model,
    statement_of,
    train_file,
    withdraw_sellers,
)
from dpmarket.campaign.deciding import online_curve
from dpmarket.campaign.market_file import to_distribution
from dpmarket.campaign.rules import rules_of
from dpmarket.campaign.with_delta import most_people
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import check_ledger, delta_charges, existing_ledger, reading, rounds_of
from dpmarket.ledger.rounds import SELLER
from support.campaigns import MARKET, THREE, make_campaign, make_three, read_rows, write_rows

DELTA = 1e-4
WITH_DELTA = "[sellers]\nexpected = 60\n\n" + MARKET.replace(
    "payment_weight = 0.001", f"payment_weight = 0.01\ndelta = {DELTA}"
)
CATEGORIES = WITH_DELTA.replace(
    "age = { low = 18, high = 90 }", "age = { low = 18, high = 90, missing = 40 }"
)


def market_data(**objective):
    return {
        "sellers": {"expected": 100},
        "costs": {"distribution": "uniform(1, 5)"},
        "objective": {"budget": 100.0, "delta": 1e-4} | objective,
        "features": {"age": {"low": 18, "high": 90}},
        "label": {"values": [0, 1]},
    }


def quoted(folder, decide=decide_offline, market=WITH_DELTA, make=make_campaign, **options):
    costs = make(folder, market=market)
    quoting = quote_file(
        folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide, **options
    )
    return costs, quoting


def trained(folder):
    return train_file(
        folder / "market.toml", folder / "quotes.csv", folder / "data.csv", folder / "model.json"
    )


# ---------------------------------------------------------------- the market file


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"delta": 2e-3}, "objective.delta"),
        ({"weight_cap": 3.0}, "objective.weight_cap"),
        ({"max_mean_epsilon": 1.0}, "objective.max_mean_epsilon"),
        ({"concentration": 1.0}, "objective.concentration"),
        ({"noise": 1.0}, "objective.noise"),
        ({"confidence": 0.9}, "objective.confidence"),
        ({"mechanism": "posted price"}, "objective.mechanism"),
        ({"delta": 0.0}, "objective.delta"),
        ({"delta": 1.5}, "objective.delta"),
    ],
)
def test_what_contradicts_a_delta_is_refused_with_its_key(more, path):
    with pytest.raises(FileProblem) as refused:
        check_market(market_data(**more))
    assert any(line.startswith(f"{path}:") for line in refused.value.details)


def test_a_delta_may_be_a_tenth_of_a_person_and_not_more():
    assert check_market(market_data(delta=1e-3)).objective.delta == 1e-3
    with pytest.raises(FileProblem) as refused:
        check_market(market_data(delta=np.nextafter(1e-3, 1.0)))
    assert "1 / (10 * sellers.expected) = 0.001" in refused.value.details[0]
    assert "at random" in refused.value.details[0]


def test_a_delta_needs_the_number_of_sellers_and_a_limit_of_deltas_beside_one_of_epsilon():
    data = market_data()
    data["objective"] = {"payment_weight": 0.01, "delta": 1e-4}
    del data["sellers"]["expected"]
    with pytest.raises(FileProblem) as refused:
        check_market(data)
    assert any("because objective.delta is set" in line for line in refused.value.details)
    data = market_data()
    data["sellers"]["lifetime_epsilon"] = 5.0
    with pytest.raises(FileProblem) as refused:
        check_market(data)
    assert any(line.startswith("sellers.lifetime_delta: missing") for line in refused.value.details)
    data["sellers"]["lifetime_delta"] = 1e-5
    with pytest.raises(FileProblem, match="1 problem"):
        check_market(data)
    data["sellers"]["lifetime_delta"] = 2e-4
    assert check_market(data).sellers.lifetime_delta == 2e-4


def test_statistics_have_no_delta():
    data = market_data()
    del data["features"], data["label"]
    data["statistic"] = {"kind": "mean", "column": "age", "low": 18, "high": 90}
    with pytest.raises(FileProblem) as refused:
        check_market(data)
    assert any("objective.delta: expected none with statistics" in line for line in refused.value.details)


def test_the_rules_of_a_market_without_a_delta_do_not_name_one():
    data = market_data()
    del data["objective"]["delta"]
    rules = rules_of(check_market(data))
    assert "delta" not in rules["objective"]
    assert "lifetime_delta" not in rules["sellers"]


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-5, 3.7e-4, 1.0 / 30.0])
def test_the_most_people_are_a_tenth_of_one_over_delta(delta):
    most = most_people(delta)
    assert 1.0 / (10.0 * most) >= delta > 1.0 / (10.0 * (most + 1))


# ---------------------------------------------------------------- quotes, training, the ledger


@pytest.mark.parametrize("decide", [decide_offline, decide_online])
def test_a_campaign_promises_trains_and_certifies_with_its_delta(tmp_path, decide):
    costs, quoting = quoted(tmp_path, decide)
    assert quoting.round.delta == DELTA
    assert "with a delta" in quoting.round.mechanism
    promises, paid = quoting.outcome.epsilons, quoting.outcome.payments
    assert (promises > 0.0).any()
    assert (paid >= costs * promises * (1.0 - 1e-12)).all()
    assert promises.max() <= 10.0
    model = trained(tmp_path).model
    assert model.delta == DELTA
    assert read_model(tmp_path / "model.json") == model
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        check_ledger(connection)
        everybody = pl.DataFrame({SELLER: [row["seller"] for row in read_rows(tmp_path / "quotes.csv")]})
        counted = delta_charges(connection, everybody)
    bought = np.array([float(row["epsilon"]) > 0.0 for row in read_rows(tmp_path / "quotes.csv")])
    assert np.allclose(counted, np.where(bought, DELTA, 0.0), rtol=1e-12)
    assert (counted[bought] >= DELTA).all()
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    body = json.loads(bytes(certificate).split(b',\n"commitments"')[0].removeprefix(b'{"body":'))
    assert body["release"]["delta"] == DELTA
    found = verify(certificate, openings=certificate.openings())
    assert found.passed, found
    assert any(f"delta of {DELTA!r}" in check.detail for check in found.checks)


def test_quotes_by_a_budget_cost_about_as_much_and_online_never_more(tmp_path):
    market = WITH_DELTA.replace("payment_weight = 0.01", "budget = 60.0")
    quoting = quoted(tmp_path, decide_online, market)[1]
    assert 20_00 <= quoting.payments <= 60_00
    curve, plan = online_curve(read_market(tmp_path / "market.toml"))
    assert 50.0 <= plan["expected_payment"] <= 60.0
    dist = to_distribution("uniform(1, 5)")
    levels = (np.arange(400) + 0.5) / 400
    assert curve.offers(dist.quantile(levels)).payments.mean() * 60 == pytest.approx(60.0, rel=0.12)


def test_the_delta_stands_in_what_people_read(tmp_path):
    quoted(tmp_path)
    trained(tmp_path)
    assert ("promises hold with probability", "1 - delta, delta = 0.0001") in describe(
        tmp_path / "model.json"
    ).rows
    rows = dict(describe(tmp_path / "market.ledger").rows)
    assert any("delta 0.0001" in words for words in rows.values())
    line = statement_of(tmp_path / "market.toml", "007")[0]
    assert line.delta == (DELTA if line.promised > 0.0 else 0.0)


def test_a_raised_delta_between_quotes_and_training_is_refused(tmp_path):
    quoted(tmp_path)
    text = (tmp_path / "market.toml").read_text()
    for changed in (
        text.replace(f"delta = {DELTA}", "delta = 0.001"),
        text.replace(f"delta = {DELTA}\n", ""),
    ):
        (tmp_path / "market.toml").write_text(changed)
        with pytest.raises(LedgerRefusal, match=r"objective\.delta"):
            trained(tmp_path)
    (tmp_path / "market.toml").write_text(text)
    assert trained(tmp_path).model.delta == DELTA


def test_promises_with_a_delta_are_spent_once(tmp_path):
    quoted(tmp_path)
    first = trained(tmp_path).model
    again = train_file(
        tmp_path / "market.toml", tmp_path / "quotes.csv", tmp_path / "data.csv", tmp_path / "second.json"
    )
    assert not again.is_new
    assert again.model == first


def test_deltas_of_one_person_in_a_campaign_stay_below_a_tenth_of_a_person(tmp_path):
    market = WITH_DELTA.replace(f"delta = {DELTA}", "delta = 0.0016")  # 1 / 600 is the bound
    quoted(tmp_path, market=market)
    trained(tmp_path)
    with pytest.raises(LedgerRefusal, match="epsilon or delta"):
        quote_file(
            tmp_path / "market.toml",
            tmp_path / "reports.csv",
            tmp_path / "more.csv",
            decide_offline,
            again=True,
        )


def test_with_a_smaller_delta_quotes_can_be_promised_again_and_both_count(tmp_path):
    quoted(tmp_path)
    trained(tmp_path)
    quote_file(
        tmp_path / "market.toml", tmp_path / "reports.csv", tmp_path / "more.csv", decide_offline, again=True
    )
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        first = next(row["seller"] for row in read_rows(tmp_path / "quotes.csv") if float(row["epsilon"]) > 0)
        counted = delta_charges(connection, pl.DataFrame({SELLER: [first]}))[0]
    assert 2 * DELTA <= counted <= 2 * DELTA * (1 + 1e-12)


def test_who_withdrew_gives_neither_epsilon_nor_delta(tmp_path):
    quoted(tmp_path)
    leaving = [row["seller"] for row in read_rows(tmp_path / "quotes.csv") if float(row["epsilon"]) > 0][:3]
    withdraw_sellers(tmp_path / "market.toml", tmp_path / "quotes.csv", leaving)
    trained(tmp_path)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        assert not delta_charges(connection, pl.DataFrame({SELLER: leaving})).any()
    assert verify(certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")).passed


def test_more_people_than_the_delta_allows_are_refused_and_nothing_is_entered(tmp_path):
    market = WITH_DELTA.replace("expected = 60", "expected = 20").replace(f"delta = {DELTA}", "delta = 0.004")
    with pytest.raises(LedgerRefusal, match="at most 25 people"):
        quoted(tmp_path, market=market)
    assert not (tmp_path / "market.ledger").exists()


# ---------------------------------------------------------------- a lifetime


def with_limits(epsilon, delta, name):
    limits = f"lifetime_epsilon = {epsilon}\n" + ("" if delta is None else f"lifetime_delta = {delta}\n")
    ledger = f'\n[ledger]\nurl = "shared.ledger"\ncampaign = "{name}"\n'
    return WITH_DELTA.replace("expected = 60\n", f"expected = 60\n{limits}") + ledger


def test_a_lifetime_adds_up_epsilons_and_deltas_each_by_itself(tmp_path):
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
        market = with_limits(1000.0, 2.5 * DELTA, folder.name).replace(
            '"shared.ledger"', f'"{tmp_path / "shared.ledger"}"'
        )
        if folder.name != "three":
            quoting = quoted(folder, market=market)[1]
            assert quoting.left_out == {}
            trained(folder)
            continue
        # A third delta would be too much for everybody who was promised something twice.
        quoting = quoted(folder, market=market)[1]
        assert quoting.left_out["lifetime"] > 0


def test_a_lifetime_limit_without_deltas_allows_no_delta(tmp_path):
    pure, other = tmp_path / "pure", tmp_path / "other"
    for folder in (pure, other):
        folder.mkdir()
    place = f'\n[ledger]\nurl = "{tmp_path / "shared.ledger"}"\ncampaign = '
    objective = "payment_weight = 0.001\nweight_cap = 3.0\nmax_mean_epsilon = 1.0"
    limited = "[sellers]\nlifetime_epsilon = 50.0\n\n" + MARKET.replace("payment_weight = 0.001", objective)
    quoted(pure, market=limited + place + '"pure"\n')
    with pytest.raises(LedgerRefusal, match="epsilon or delta"):
        quoted(other, market=WITH_DELTA + place + '"other"\n')


# ---------------------------------------------------------------- other models


def test_more_than_two_labels_are_bought_trained_and_certified_with_a_delta(tmp_path):
    market = "[sellers]\nexpected = 60\n\n" + THREE.replace(
        "payment_weight = 0.001", f"payment_weight = 0.003\ndelta = {DELTA}"
    )
    quoted(tmp_path, market=market, make=make_three)
    model = trained(tmp_path).model
    assert (model.delta, len(model.labels)) == (DELTA, 3)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    assert verify(certificate, openings=certificate.openings()).passed


def test_several_rows_of_a_person_are_covered_by_one_promise_with_a_delta(tmp_path):
    market = WITH_DELTA.replace("expected = 60\n", "expected = 60\nrows_per_person = 4\n")
    quoting = quoted(tmp_path, market=market)[1]
    assert quoting.outcome.parameters["objective"]["rows_per_person"] == 4
    assert trained(tmp_path).model.rows_per_person == 4


def test_encoded_rows_are_trained_with_a_delta(tmp_path):
    quoted(tmp_path, market=CATEGORIES)
    model = trained(tmp_path).model
    assert model.encoder is not None
    assert model.delta == DELTA
    assert read_model(tmp_path / "model.json").to_dict()["delta"] == DELTA


def test_the_rounds_of_a_campaign_without_a_delta_have_none(tmp_path):
    quoted(tmp_path, market=MARKET)
    model = trained(tmp_path).model
    assert "delta" not in model.to_dict()
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        assert [found.delta for found in rounds_of(connection)] == [0.0]


def test_encoded_rows_get_a_certificate_with_a_delta_and_a_forged_bound_does_not_pass(tmp_path):
    market = WITH_DELTA.replace(
        '"yearly income" = { low = 0, high = 100000 }',
        '"yearly income" = { low = 0, high = 100000 }\nplace = { categories = ["town", "village"] }',
    )
    make_campaign(tmp_path, market=market)
    rows = read_rows(tmp_path / "data.csv")
    places = ["town" if k % 3 else "village" for k in range(len(rows))]
    told = [[*row.values(), place] for row, place in zip(rows, places, strict=True)]
    write_rows(tmp_path / "data.csv", [*rows[0], "place"], told)
    quote_file(tmp_path / "market.toml", tmp_path / "reports.csv", tmp_path / "quotes.csv", decide_offline)
    model = trained(tmp_path).model
    assert model.row_bound < 1.0
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    assert b'"kind":"gaussian encoded model"' in bytes(certificate)
    assert verify(certificate, openings=certificate.openings()).passed
    told = f'"row_bound":{model.row_bound!r}'.encode()
    assert told in bytes(certificate)
    forged = bytes(certificate).replace(told, b'"row_bound":0.5')
    assert not verify(forged).passed
