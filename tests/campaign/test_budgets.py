"""Budgets: on average or with confidence offline, never exceeded online, rounding included."""

from functools import partial

import numpy as np
import pytest

from dpmarket import Infeasible, Uniform, plan_payment_weight
from dpmarket.campaign import Remaining, check_market, decide_offline, decide_online, deciding, online_curve
from dpmarket.errors import DpmarketError, LedgerRefusal
from dpmarket.ledger import rounds
from support.campaigns import read_rows
from support.desks import Desk, market_text


def market_of(**objective):
    data = {
        "costs": {"distribution": "uniform(1, 5)"},
        "objective": {"payment_weight": 0.001, **objective},
        "features": {"age": {"low": 18, "high": 90}},
        "label": {"values": [0, 1]},
    }
    if "budget" in objective:
        del data["objective"]["payment_weight"]
        data["sellers"] = {"expected": objective.pop("expected", 1000)}
        data["objective"].pop("expected", None)
    return check_market(data)


def test_the_plan_is_for_as_many_as_reported_and_at_most_as_were_expected():
    market = market_of(budget=20.0, expected=300)
    rng = np.random.default_rng(0)
    plans = {m: decide_offline(market, rng.uniform(1, 5, m)).plan for m in (100, 300, 500)}
    assert [plans[m]["sellers"] for m in plans] == [100, 300, 300]
    # The count alone: other costs, the same plan.
    assert decide_offline(market, rng.uniform(1, 2, 300)).plan == plans[300]


@pytest.mark.parametrize("sellers", [2_000, 20_000])
def test_offline_totals_meet_the_budget_on_average_with_payments_rounded_up(sellers):
    """The mean of 40 campaigns is within 1% of the budget: 7 standard errors, a false alarm below 1e-6.

    Without a look at rounding, 20,000 sellers were paid 128 of 100.
    """
    market = market_of(budget=100.0, expected=sellers)
    rng = np.random.default_rng(1)
    totals = [
        decide_offline(market, rng.uniform(1, 5, sellers)).amounts.sum() / 100 for _ in range(3)
    ]  # the plan itself, with what the desk decides
    assert np.mean(totals) == pytest.approx(100.0, rel=0.02)
    assert np.std(totals) < 3.0


@pytest.mark.slow
def test_offline_totals_stay_within_the_budget_with_the_confidence_asked_for():
    """Of 100 fresh campaigns at 95%, fewer than 80 inside has a probability below 1e-6."""
    market = market_of(budget=100.0, confidence=0.95, expected=20_000)
    plan = decide_offline(market, np.linspace(1, 5, 20_000)).plan
    assert plan["guarantee"]["fresh_share"] >= 0.95
    from dpmarket import BuyerObjective, OfflineMechanism

    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective.from_dict(plan["objective"]))
    rng = np.random.default_rng(5)
    inside = sum(
        mechanism.run(rng.uniform(1, 5, 20_000)).in_minor_units(100).total <= 10_000 for _ in range(100)
    )
    assert inside >= 80


def test_a_budget_that_rounding_alone_exceeds_is_refused():
    from dpmarket import BuyerObjective

    objective = BuyerObjective(1.0, 1.0, 1.0, weight_cap=2.0)
    with pytest.raises(Infeasible, match="rounding payments up"):
        plan_payment_weight(Uniform(1, 5), objective, 10_000, 40.0, minor_units=100)
    assert (
        plan_payment_weight(Uniform(1, 5), objective, 10_000, 120.0, minor_units=100).expected_payment < 100.0
    )
    with pytest.raises(Infeasible):
        decide_offline(market_of(budget=40.0, weight_cap=2.0, expected=10_000), np.linspace(1, 5, 10_000))


def test_a_second_offline_round_gets_its_declared_share_and_not_the_budget_again(tmp_path):
    text = market_text(sellers={"expected": 400}, objective={"budget": 40.0, "shares": [0.75, 0.25]})
    desk = Desk(tmp_path / "desk", sellers=400, market=text)
    rows = [list(row.values()) for row in read_rows(desk / "reports.csv")]
    rng = np.random.default_rng(4)
    for name, ids in (("a", "ab"), ("b", "cd"), ("c", "ef")):
        desk.report(f"{name}.csv", [(f"{k} {i}", rng.uniform(1, 5)) for k in ids for i in range(200)])
    totals = [desk.quote(f"{name}.csv", f"{name}-quotes.csv").round.payments for name in "ab"]
    assert totals[0] / 100 == pytest.approx(30.0, rel=0.1)
    assert totals[1] / 100 == pytest.approx(10.0, rel=0.15)
    before = desk.files()
    with pytest.raises(LedgerRefusal, match=r"the budget is used: the 2 rounds .*shares"):
        desk.quote("c.csv", "c-quotes.csv")
    assert desk.files() == before
    assert rows


def test_without_shares_the_budget_is_one_rounds(tmp_path):
    text = market_text(sellers={"expected": 100}, objective={"budget": 10.0})
    desk = Desk(tmp_path / "desk", sellers=100, market=text)
    desk.quote()
    desk.report("more.csv", [(f"new {k}", 1.0 + k / 30) for k in range(100)])
    with pytest.raises(LedgerRefusal, match="the budget is used: the one round"):
        desk.quote("more.csv", "more-quotes.csv")


def rows_of(prefix, count, seed):
    costs = np.random.default_rng(seed).uniform(1, 5, count)
    return [(f"{prefix} {k}", cost) for k, cost in enumerate(costs)]


def total_of(desk, *names):
    return sum(int(row["payment_minor_units"]) for name in names for row in read_rows(desk / name))


def test_an_offline_round_after_an_online_one_needs_its_declared_share(tmp_path):
    """Whoever reported online has spent part of the budget: it is not there a second time."""
    text = market_text(sellers={"expected": 20}, objective={"budget": 100.0})
    desk = Desk(tmp_path / "desk", sellers=20, market=text)
    desk.report("online.csv", rows_of("on", 40, 1))
    desk.quote("online.csv", "online-quotes.csv", online=True)
    before = desk.files()
    with pytest.raises(LedgerRefusal, match=r"promised online.*objective\.shares"):
        desk.quote()
    assert desk.files() == before


def test_an_offline_round_gets_its_share_or_what_earlier_rounds_leave(tmp_path):
    text = market_text(sellers={"expected": 20}, objective={"budget": 100.0, "shares": [0.5, 0.5]})
    desk = Desk(tmp_path / "desk", sellers=20, market=text)
    desk.report("online.csv", rows_of("on", 40, 1))
    desk.quote("online.csv", "online-quotes.csv", online=True)
    left = 10_000 - total_of(desk, "online-quotes.csv")
    assert 0 < left < 2_000
    found = desk.quote()
    plan = desk.looked(lambda connection: rounds.decision_of(connection, found.round.number)[1])
    assert plan["expected_payment"] <= left / 100
    # A function of earlier rounds: other reports of the same number, the same plan.
    market = check_market(_data(desk))
    remaining = Remaining(0, left, 1)
    plans = [decide_offline(market, np.full(20, cost), remaining).plan for cost in (1.2, 4.0)]
    assert plans[0] == plans[1] == plan
    with pytest.raises(LedgerRefusal, match="left nothing"):
        decide_offline(market, np.full(20, 2.0), Remaining(0, -5, 1))


def test_what_a_buyer_owed_beyond_the_budget_is_no_room_when_it_is_freed(tmp_path):
    text = market_text(sellers={"expected": 20}, objective={"budget": 100.0})
    desk = Desk(tmp_path / "desk", sellers=20, market=text)
    desk.report("dear.csv", [(f"dear {k}", 4.0 + k / 100) for k in range(20)])
    owed = desk.quote("dear.csv").payments  # far more than what is met on average
    assert owed > 11_000
    desk.report("online.csv", rows_of("on", 60, 7))
    with pytest.raises(LedgerRefusal, match="the budget is full"):
        desk.quote("online.csv", "online-quotes.csv", online=True)
    desk.withdraw(*(row["seller"] for row in read_rows(desk / "quotes.csv")))
    assert desk.balance().available == owed
    found = desk.quote("online.csv", "online-quotes.csv", online=True)
    assert found.left_out["full"] > 0
    assert found.payments <= 10_000


def spent_desk(folder, **objective):
    """Return a desk of 100 sellers whose only round is spent."""
    text = market_text(sellers={"expected": 100}, objective={"budget": 40.0, **objective})
    desk = Desk(folder / "desk", sellers=100, market=text)
    desk.quote()
    desk.train()
    return desk


@pytest.mark.parametrize("objective", [{}, {"shares": [1.0]}, {"shares": [0.6, 0.4]}])
def test_spent_quotes_are_not_promised_again_without_a_share_for_it(tmp_path, objective):
    desk = spent_desk(tmp_path, **objective)
    before = desk.files()
    with pytest.raises(LedgerRefusal, match=r"the budget is used.*one more round.*objective\.shares"):
        desk.quote(output="again.csv", again=True)
    assert desk.files() == before


def test_quotes_that_are_promised_again_take_the_share_of_another_round(tmp_path):
    desk = spent_desk(tmp_path, shares=[0.4, 0.4, 0.2])
    first = desk.rounds()[0].payments
    assert desk.quote(output="again.csv", again=True).payments == first
    assert first == pytest.approx(1600, rel=0.1)
    desk.report("third.csv", rows_of("third", 100, 1))
    third = desk.quote("third.csv", "third-quotes.csv").payments
    assert third == pytest.approx(800, rel=0.15)  # the third share: the second is promised
    desk.report("fourth.csv", rows_of("fourth", 100, 2))
    with pytest.raises(LedgerRefusal, match="the 3 rounds"):
        desk.quote("fourth.csv", "fourth-quotes.csv")


def test_quotes_that_everybody_left_are_promised_again_from_the_same_share(tmp_path):
    text = market_text(sellers={"expected": 60}, objective={"budget": 40.0})
    desk = Desk(tmp_path / "desk", market=text)
    payments = desk.quote().payments
    desk.withdraw(*(row["seller"] for row in read_rows(desk / "quotes.csv")))
    assert desk.quote(output="again.csv", again=True).payments == payments
    assert desk.balance().held == payments


def test_what_was_promised_online_is_not_promised_again_offline(tmp_path):
    desk = spent_desk(tmp_path, shares=[0.5, 0.5])
    desk.report("online.csv", rows_of("on", 10, 1))
    desk.quote("online.csv", "online-quotes.csv", online=True)
    with pytest.raises(LedgerRefusal, match="the budget is used: what was promised online"):
        desk.quote(output="again.csv", again=True)


def test_a_curve_is_planned_once_also_where_a_lifetime_is_limited(tmp_path, monkeypatch):
    text = market_text(sellers={"expected": 60, "lifetime_epsilon": 9.0}, objective={"budget": 40.0})
    desk = Desk(tmp_path / "desk", market=text)
    planned = []
    real = deciding.online_curve
    monkeypatch.setattr(deciding, "online_curve", lambda market: planned.append(market) or real(market))
    desk.quote(online=True)
    assert len(planned) == 1


def test_rounding_is_planned_for_all_who_report_also_if_fewer_were_expected():
    """One campaign's total has a standard deviation of 4%, so that three exceed 115 with less than 1e-6.

    With rounding for those who were expected, 4,000 were paid 142 of 100.
    """
    market = market_of(budget=100.0, concentration=1.0, noise=1.0, expected=200)
    market = market.model_copy(update={"money": market.money.model_copy(update={"minor_units": 10})})
    rng = np.random.default_rng(2)
    decisions = [decide_offline(market, rng.uniform(1, 5, 4_000)) for _ in range(3)]
    assert 85.0 <= np.mean([decision.amounts.sum() / 10 for decision in decisions]) <= 115.0
    # The number of reports alone: other costs, the same plan.
    assert decisions[0].plan == decisions[1].plan == decisions[2].plan
    few = market_of(budget=100.0, expected=20)
    few = few.model_copy(update={"money": few.money.model_copy(update={"minor_units": 1})})
    with pytest.raises(Infeasible, match="rounding payments up"):
        decide_offline(few, rng.uniform(1, 5, 1_000))


def test_a_budget_below_the_smallest_unit_or_beyond_floats_is_refused_in_one_line():
    for budget, words in ((1e-300, "smallest unit"), (1e300, r"between 1e-100 and 1e\+100")):
        market = market_of(budget=budget, expected=20)
        for decide in (decide_offline, decide_online):
            with pytest.raises(DpmarketError, match=words):
                decide(market, np.linspace(1, 5, 20), Remaining(available=None))
    # A payment weight of almost nothing buys all that anybody may be asked for.
    market = market_of(payment_weight=1e-300)
    outcome = decide_offline(market, np.linspace(1, 5, 8)).outcome
    assert 0.9 * market.objective.max_epsilon < outcome.epsilons.max() <= market.objective.max_epsilon
    assert np.isfinite(outcome.payments).all()


def test_no_value_of_few_sellers_tells_what_one_of_them_reported(tmp_path):
    text = market_text(sellers={"expected": 20})
    desk = Desk(tmp_path / "desk", sellers=20, market=text)
    for online in (False, True):
        desk.report("few.csv", [(f"{online} {k}", cost) for k, cost in enumerate([1.5, 2.1, 1.123456, 2.9])])
        found = desk.quote("few.csv", f"q{online}.csv", online=online)
        assert (found.outcome.epsilons > 0.0).sum() < 10
        entered = found.round.number
        assert "optimality" not in desk.looked(partial(rounds.decision_of, number=entered))[2]
    many = desk.quote(online=True)
    assert many.outcome.optimality.cutoff == online_curve(check_market(_data(desk)))[0].cutoff


def online_desk(folder, budget, sellers=60):
    text = market_text(sellers={"expected": sellers}, objective={"budget": budget}, money={"currency": "EUR"})
    return Desk(folder / "desk", sellers=sellers, market=text)


def test_online_the_budget_is_never_exceeded_over_all_files_and_who_is_too_late_is_listed(tmp_path):
    desk = online_desk(tmp_path, 20.0)
    rng = np.random.default_rng(0)
    quoted, full = 0, []
    for day in range(12):
        rows = [(f"day {day}, {k}", rng.uniform(1, 1.5)) for k in range(10)]  # cheaper than was planned for
        desk.report(f"{day}.csv", rows)
        if full:
            with pytest.raises(LedgerRefusal, match="the budget is full"):
                desk.quote(f"{day}.csv", f"q{day}.csv", online=True)
            assert not (desk / f"q{day}.csv").exists()
            break
        found = desk.quote(f"{day}.csv", f"q{day}.csv", online=True)
        own = read_rows(desk / f"q{day}.csv")
        quoted += sum(int(row["payment_minor_units"]) for row in own)
        assert quoted <= 2000
        listed = desk / f"q{day}-not-quoted.csv"
        if found.left_out:
            full = read_rows(listed)
            assert {row["reason"] for row in full} == {"full"}
            assert found.left_out == {"full": len(full)}
            # In the file's order: who came first was quoted.
            assert [row["seller"] for row in own] + [row["seller"] for row in full] == [r[0] for r in rows]
            assert (desk / f"q{day}.csv").read_bytes().count(b"\n") == len(own) + 1
        else:
            assert not listed.exists()
    else:
        raise AssertionError("the budget never was full")
    assert full
    curve, _ = online_curve(check_market(_data(desk)))
    assert 2000 - quoted < curve.largest_amount(100)
    assert desk.balance().available == 2000 - quoted


def _data(desk):
    import tomllib

    return tomllib.loads(desk.market.read_text())


def test_a_withdrawal_makes_room_again(tmp_path):
    desk = online_desk(tmp_path, 20.0)
    desk.report("many.csv", [(f"s {k}", 1.0) for k in range(60)])
    found = desk.quote("many.csv", online=True)
    assert found.left_out["full"] > 0
    desk.report("late.csv", [("late", 1.0)])
    with pytest.raises(LedgerRefusal, match="full"):
        desk.quote("late.csv", "late-quotes.csv", online=True)
    desk.withdraw("s 0", "s 1")
    assert desk.quote("late.csv", "late-quotes.csv", online=True).is_new


def test_admission_looks_at_no_report():
    """Whoever a seller says to be, whether they are quoted depends on those before them only."""
    market = market_of(budget=20.0, expected=60)
    curve, _ = online_curve(market)
    costs = np.random.default_rng(0).uniform(1, 5, 400)
    remaining = Remaining(0, 3 * curve.largest_amount(100))
    own = decide_online(market, costs, remaining).quoted
    last = int(np.flatnonzero(own)[-1])
    assert 0 < last < 399
    for position in (last, last + 1):
        for report in (1.0, 3.0, 4.99, 7.0):
            other = costs.copy()
            other[position] = report
            assert decide_online(market, other, remaining).quoted[position] == own[position]


def test_the_same_reports_again_are_the_same_quotes_although_the_budget_is_full_now(tmp_path):
    desk = online_desk(tmp_path, 20.0)
    desk.report("many.csv", [(f"s {k}", 1.0) for k in range(60)])
    first = desk.quote("many.csv", online=True)
    (desk / "quotes-not-quoted.csv").unlink()
    again = desk.quote("many.csv", "again.csv", online=True)
    assert (again.is_new, again.left_out) == (False, first.left_out)
    assert len(read_rows(desk / "again-not-quoted.csv")) == first.left_out["full"]


@pytest.mark.parametrize("online", [False, True])
def test_nobody_is_asked_for_more_than_the_limit(online):
    market = market_of(max_epsilon=0.05, payment_weight=1e-6)
    market = market.model_copy(update={"sellers": market.sellers.model_copy(update={"expected": 50})})
    costs = np.random.default_rng(0).uniform(1, 5, 50)
    decision = (decide_online if online else decide_offline)(market, costs)
    assert 0.0 < decision.outcome.epsilons.max() <= decision.ceiling <= 0.05
    wide = market_of(payment_weight=1e-6)
    wide = wide.model_copy(update={"sellers": market.sellers})
    assert (decide_online if online else decide_offline)(wide, costs).outcome.epsilons.max() > 0.05


def test_few_sellers_within_the_distribution_can_have_all_of_the_weight():
    decision = decide_offline(market_of(), np.array([1.5, 6.0, 7.0, 8.0, 9.0]))
    assert decision.outcome.epsilons[0] > 0.0
    assert (decision.outcome.epsilons[1:] == 0.0).all()
    assert decision.outcome.epsilons[0] <= decision.ceiling <= 10.0


def test_costs_outside_the_distribution_are_counted_and_little_protection_is_said(tmp_path):
    desk = Desk(tmp_path / "desk", sellers=3)
    desk.report("reports.csv", [("a", 0.5), ("b", 1.5), ("c", 6.0), ("d", 7.0)])
    found = desk.quote()
    assert (found.below, found.above) == (1, 2)
    assert found.weakly_protected == int((found.outcome.epsilons > 3.0).sum()) > 0
