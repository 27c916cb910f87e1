"""What rules decide about a frozen list of reports: truthfully, within the budget, the same each time."""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from dpmarket.campaign import Reported, check_market, decide_offline, decide_online, online_schedule, terms_of
from dpmarket.campaign.drafting import salt_of
from dpmarket.errors import FileProblem
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.objective import objective_from_dict
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule, posted_price
from outside.driver import FileCampaign
from outside.goods import GOODS, sellers, tables

SALT = bytes(range(16))
GOOD = GOODS["two classes"]


def rules_with(people=60, shape="linear", good=GOOD, **objective):
    rules = good.rules(people, **objective)
    rules["costs"]["shape"] = shape
    return rules


def campaign_in(folder, rules, ids, costs, people):
    return FileCampaign(folder, rules, *tables(ids, costs, people))


def losses(epsilons, shape):
    return np.asarray(epsilons) ** (2 if shape == "quadratic" else 1)


# --- no misreport pays ---


@pytest.mark.parametrize("objective", [{"payment_weight": 0.01}, {"budget": 9.0}])
def test_no_misreport_pays_in_an_exact_campaign_from_files(tmp_path, objective):
    """Each misreport is another campaign of the same people: quotes round up to whole cents."""
    ids, costs, people = sellers(GOOD, 12)
    rules = rules_with(12, **objective)
    worth = {}
    for report in (None, 1.0, 2.9, 5.5):
        reported = [*costs[:3], costs[3] if report is None else report, *costs[4:]]
        campaign = campaign_in(tmp_path / str(report), rules, ids, reported, people)
        campaign.quote()
        mine = campaign.quotes()[ids[3]]
        worth[report] = int(mine["payment_minor_units"]) - 100 * costs[3] * float(mine["epsilon"])
    assert worth[None] >= 0.0
    assert max(worth.values()) < worth[None] + 1.0
    assert len({round(value, 6) for value in worth.values()}) > 1


@pytest.mark.parametrize(("good", "shape"), [("two classes", "linear"), ("delta", "quadratic")])
def test_no_misreport_pays_where_parts_are_priced_by_the_others(good, shape):
    market = check_market(rules_with(60, shape, GOODS[good], budget=25.0))
    costs = np.random.default_rng(1).uniform(1.0, 5.0, 60)
    for i in (3, 40):
        worth = {}
        for report in (float(costs[i]), 1.0, 1.7, 4.0):
            reported = costs.copy()
            reported[i] = report
            found = decide_offline(market, Reported(range(60), reported, SALT))
            assert found.rules["mechanism"] == "cross-priced"
            loss = float(losses(found.outcome.epsilons[i], shape))
            worth[report] = found.outcome.payments[i] - costs[i] * loss
        truth = worth[float(costs[i])]
        table = EpsilonCost.from_dict(found.rules["epsilon_cost"])
        assert max(worth.values()) <= truth + 1e-9 + costs[i] * table.chord_error


@pytest.mark.parametrize("distribution", ["uniform(1, 5)", "uniform(1000, 5000)"])
def test_with_quadratic_costs_no_misreport_gains_a_cent_whatever_the_scale_of_costs(distribution):
    rules = rules_with(100, "quadratic", budget=20_000.0, max_epsilon=1.0)
    rules["costs"]["distribution"] = distribution
    schedule, _ = online_schedule(check_market(rules))
    reports = np.linspace(0.9 * schedule.costs[0], 1.01 * schedule.reserve_price, 3_000)
    epsilons, payments = schedule.quote(reports)
    for cost in reports[10::97]:
        gains = payments - cost * epsilons**2
        truthful = gains[np.searchsorted(reports, cost)]
        assert gains.max() <= truthful + 0.01


def test_a_whole_payment_stays_whole_and_covers_the_loss_exactly():
    assert whole_units(np.array([5.0, 0.25, 0.0, 0.001]), 100).tolist() == [500, 25, 0, 1]
    above, one = np.array([0.73 + 1e-13]), np.ones(1)  # of 73 cents by no more than rounding may be
    assert whole_units(above, 100, one, above).tolist() == [74]
    assert whole_units(above, 100, one, one / 2).tolist() == [73]
    price, epsilon = 0.3146551724137931, 2.32  # 73 cents, up to rounding
    costs = np.linspace(0.01, price, 500)
    sold, payments = posted_price(price, epsilon).quote(costs)
    amounts = whole_units(payments, 100, costs, sold)
    assert len(set(amounts.tolist())) == 1
    for amount, cost, one in zip(amounts.tolist(), costs.tolist(), sold.tolist(), strict=True):
        assert amount >= 100 * Fraction(cost) * Fraction(one)


def test_a_list_that_buys_nothing_is_refused_and_nothing_is_entered(tmp_path):
    ids, costs, people = sellers(GOOD, 60)
    campaign = campaign_in(tmp_path, rules_with(60, budget=30.0), ids, [9.0] * 60, people)
    assert "reserve price" in campaign.quote("--json", code=1).err
    assert not (campaign / "quotes.csv").exists()
    (campaign / "reports.csv").unlink()
    campaign_in(tmp_path, rules_with(60, budget=30.0), ids, costs, people).quote()


def test_the_parts_of_a_list_do_not_depend_on_what_anybody_reports():
    key = bytes(32)
    assert salt_of(key, "spring", ["a", "b"]) == salt_of(key, "spring", ["b", "a"])
    assert salt_of(key, "spring", ["a", "b"]) != salt_of(key, "spring", ["a", "c"])
    assert salt_of(key, "spring", ["a", "b"]) != salt_of(key, "autumn", ["a", "b"])


@pytest.mark.parametrize("shape", ["linear", "quadratic"])
def test_published_rules_are_found_in_the_certificate_of_either_shape(tmp_path, shape):
    campaign = campaign_in(tmp_path, rules_with(20, shape, budget=30.0), *sellers(GOOD, 20))
    campaign.run("commit", "market.toml", "-o", "commitment.json")
    for act in (campaign.quote, campaign.train):
        act()
    campaign.certify("--commitment", "commitment.json")
    assert campaign.verify("--commitment", "commitment.json").json["passed"]


def test_a_file_is_quoted_by_the_announced_mechanism_at_the_announced_salt(tmp_path):
    ids, costs, people = sellers(GOOD, 60)
    campaign = campaign_in(tmp_path, rules_with(60, budget=25.0), ids, costs, people)
    told = campaign.quote("--json").json["rules"]
    again = campaign.quote("--json", "--force").json
    assert not again["is_new"]
    assert again["rules"] == told
    table = EpsilonCost.from_dict(told["epsilon_cost"])
    mechanism = CrossPricedMechanism(
        terms_of(check_market(rules_with(60, budget=25.0))).virtual_cost,
        objective_from_dict(told["objective"]), told["budget"],
        epsilon_cost=table, minor_unit=told["minor_unit"],
    )  # fmt: skip
    outcome, prices = mechanism.run(ids, costs, salt=bytes.fromhex(told["salt"]))
    quotes = campaign.quotes()
    np.testing.assert_allclose([float(quotes[who]["epsilon"]) for who in ids], outcome.epsilons, rtol=1e-12)
    # Each seller is quoted by their part's schedule, which no report of the part has moved.
    parts = split(ids, prices.salt)
    for k, who in enumerate(ids):
        _, paid = prices.schedules[parts[k]][0].quote([costs[k]])
        assert int(quotes[who]["payment_minor_units"]) == pytest.approx(np.ceil(100 * paid[0]), abs=1.0)


# --- budgets ---


@pytest.mark.parametrize(
    ("people", "shape", "off"),
    [(300, "linear", 0.03), (300, "quadratic", 0.02), (40, "linear", 0.15), (40, "quadratic", 0.05)],
)
def test_an_offline_budget_is_spent(people, shape, off):
    """From 50 reports on whatever people's costs really are; with fewer, on average as announced."""
    market = check_market(rules_with(people, shape, budget=0.3 * people))
    high = 4.0 if people >= 50 else 5.0
    costs = np.random.default_rng(3).uniform(1.0, high, people)
    found = decide_offline(market, Reported(range(people), costs, SALT))
    assert found.rules["mechanism"] == ("cross-priced" if people >= 50 else "offline")
    assert found.amounts.sum() == pytest.approx(30 * people, rel=off)
    assert (found.amounts >= 100 * costs * losses(found.outcome.epsilons, shape)).all()


def test_quadratic_costs_buy_from_everybody_and_linear_ones_from_few():
    bought = {}
    for shape in ("linear", "quadratic"):
        market = check_market(rules_with(200, shape, budget=40.0, max_epsilon=5.0))
        epsilons, _ = online_schedule(market)[0].quote(np.linspace(1.0, 5.0, 200))
        bought[shape] = int((epsilons > 0.0).sum())
    assert bought["quadratic"] == 200 > 4 * bought["linear"]


def test_an_online_budget_is_not_exceeded_though_everybody_reports_the_lowest_cost():
    market = check_market(rules_with(60, budget=25.0))
    found = decide_online(market, Reported(range(300), np.ones(300), SALT, available=2500))
    quoted = int(found.quoted.sum())
    assert found.quoted.tolist() == [True] * quoted + [False] * (300 - quoted)
    assert 2500 - found.amounts.max() < found.amounts.sum() <= 2500


@pytest.mark.parametrize("good", ["two classes", "delta", "mean"])
def test_a_posted_price_offers_one_epsilon_and_stays_within_the_budget(good):
    market = check_market(rules_with(150, good=GOODS[good], budget=30.0, mechanism="posted price"))
    costs = np.random.default_rng(4).uniform(1.0, 5.0, 150)
    found = decide_online(market, Reported(range(150), costs, SALT, available=3000))
    sold = found.outcome.epsilons[found.outcome.epsilons > 0.0]
    assert len(set(sold.tolist())) == 1
    assert 2000 < found.amounts.sum() <= 3000
    schedule = PriceSchedule.from_dict(json.loads(json.dumps(found.rules["schedule"])))
    assert (costs[: found.quoted.sum()][found.outcome.epsilons > 0.0] <= schedule.reserve_price).all()
    assert found.rules["delta"] == (GOODS[good].delta or 0.0)


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("objective", {"shares": [0.5, 0.5], "budget": 5.0}),
        ("costs", {"shape": "cubic"}),
        ("sellers", {"rows_per_person": 10**30}),
        ("objective", {"concentration": 1.0}),
    ],
)
def test_rules_that_are_none_are_refused(table, keys):
    rules = rules_with()
    rules[table] |= keys
    with pytest.raises(FileProblem, match=r"1 problem|2 problems"):
        check_market(rules)


# --- a first quote does not wait ---


def test_planning_a_campaign_of_plain_numbers_loads_no_learning_library(tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps(GOOD.rules(60)))
    program = (
        "import json, sys; from dpmarket.campaign import check_market, online_schedule;"
        "online_schedule(check_market(json.load(open(sys.argv[1])), 'rules'));"
        "sys.exit(str([name for name in ('sklearn', 'scipy.stats', 'pandas') if name in sys.modules]))"
    )
    path = str(tmp_path / "rules.json")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"
