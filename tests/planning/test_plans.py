"""Plans: budgets met by the real mechanism, from the distribution alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, Infeasible, InvalidInput, Mixture, Uniform
from dpmarket.costs import PiecewiseLinear
from dpmarket.planning.markets import draw_markets, population

OBJECTIVE = BuyerObjective(1.0, 1.0, 1.0)
DISTRIBUTIONS = {
    "uniform": Uniform(1, 5),
    "uniform from 0": Uniform(0, 1),
    "log-normal": FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30),
    "exponential": FromScipy(stats.expon()),
    "groups": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
}
each = pytest.mark.parametrize("name", DISTRIBUTIONS)


def mean_payment(dist, objective, sellers, draws, seed):
    """Mean and standard error of real payments, from markets that the plan has not seen."""
    rng = np.random.default_rng(seed)
    mechanism = dpm.OfflineMechanism(dist, objective)
    totals = [mechanism.run(dist.sample(sellers, rng)).total_payment for _ in range(draws)]
    return np.mean(totals), np.std(totals, ddof=1) / math.sqrt(draws)


@pytest.mark.parametrize(
    ("name", "sellers"),
    [("uniform", 3_000), ("uniform from 0", 12), ("log-normal", 150), ("exponential", 12), ("groups", 3_000)],
)
def test_expected_payments_meet_the_budget_for_any_number_of_sellers(name, sellers):
    # By the payment lemma, expected virtual costs are expected payments; fresh markets, independent of the
    # plan's. Within 1% plus five standard errors of these (6e-7).
    dist, rng = DISTRIBUTIONS[name], np.random.default_rng(10)
    plan = dpm.plan_payment_weight(dist, OBJECTIVE, sellers, budget=8.0)
    assert plan.expected_payment == pytest.approx(8.0, rel=2e-3)
    assert plan.payment_error < 0.01 * 8.0
    draws = 500 if sellers < 1000 else 40
    totals = []
    for _ in range(draws):
        allocation = dpm.allocate(dpm.virtual_costs(dist.sample(sellers, rng), dist), plan.objective)
        totals.append(allocation.payment_part / plan.payment_weight)
    error = np.std(totals, ddof=1) / math.sqrt(draws)
    assert abs(np.mean(totals) - 8.0) <= 0.01 * 8.0 + 5 * error


def test_the_real_mechanism_spends_the_budget():
    dist = Uniform(1, 5)
    plan = dpm.plan_payment_weight(dist, OBJECTIVE, 60, budget=10.0)
    mean, error = mean_payment(dist, plan.objective, 60, 200, 3)
    assert abs(mean - 10.0) <= 0.01 * 10.0 + 5 * error
    assert error < 0.01 * 10.0


@pytest.mark.slow
@each
def test_the_real_mechanism_spends_the_budget_to_one_per_cent(name):
    # Mean of 4,000 real campaigns, allowing four standard errors of them (6e-5 per distribution).
    dist = DISTRIBUTIONS[name]
    plan = dpm.plan_payment_weight(dist, OBJECTIVE, 100, budget=10.0)
    mean, error = mean_payment(dist, plan.objective, 100, 4000, 4)
    assert error < 0.0025 * 10.0
    assert abs(mean - 10.0) <= 0.01 * 10.0


@each
def test_expected_payments_fall_and_excess_risk_rises_with_the_payment_weight(name):
    markets = draw_markets(DISTRIBUTIONS[name], 8_000, np.random.default_rng(0))
    weights = np.geomspace(1e-5, 1e2, 10)
    found = [markets.expect(replace(OBJECTIVE, payment_weight=weight)) for weight in weights]
    assert (np.diff([e.payment for e in found]) < 0).all()
    assert (np.diff([e.excess_risk for e in found]) > 0).all()


BOUNDS = {
    "plain": OBJECTIVE,
    "capped": BuyerObjective(1.0, 1.0, 1.0, weight_cap=3.0),
    "cheapest": BuyerObjective(0.0, 1.0, 1.0, weight_cap=3.0),
    "bounded": BuyerObjective(1.0, 1.0, 1.0, max_mean_epsilon=0.001),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_leaving_out_the_dear_changes_nothing(name):
    dist, objective = Uniform(1, 5), replace(BOUNDS[name], payment_weight=0.02)
    whole = population(dist, 20_000).expect(objective)
    cheap = population(dist, 20_000, 0.6).expect(objective)
    assert whole.in_reach
    assert cheap.in_reach
    assert cheap.payment == pytest.approx(whole.payment, rel=1e-4)
    assert cheap.excess_risk == pytest.approx(whole.excess_risk, rel=1e-4)
    assert cheap.share == pytest.approx(whole.share, abs=2e-3)


def test_leaving_out_somebody_who_would_be_bought_from_is_admitted():
    objective = replace(OBJECTIVE, payment_weight=0.02)
    share = population(Uniform(1, 5), 20_000).expect(objective).share
    assert not population(Uniform(1, 5), 20_000, 0.6 * share).expect(objective).in_reach


def test_with_confidence_the_budget_suffices_at_least_so_often():
    # 400 fresh campaigns: at least 95% within the budget, minus five binomial standard errors (3e-7); and
    # the plan without confidence would not do.
    dist, seen = Uniform(1, 5), []
    plan = dpm.plan_payment_weight(
        dist, OBJECTIVE, 5, budget=6.0, confidence=0.95, progress=lambda *counts: seen.append(counts)
    )
    rng = np.random.default_rng(99)
    markets = [dist.sample(5, rng) for _ in range(400)]
    mechanism = dpm.OfflineMechanism(dist, plan.objective)
    kept = np.mean([mechanism.run(costs).total_payment <= 6.0 for costs in markets])
    assert kept >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / 400)
    assert plan.guarantee.quantile <= 6.0
    assert plan.guarantee.fresh_share >= 0.95
    assert 0.7 * 6.0 < plan.expected_payment < 6.0
    assert seen[-1][0] == len(seen) >= 2 * plan.guarantee.draws
    average = dpm.OfflineMechanism(dist, dpm.plan_payment_weight(dist, OBJECTIVE, 5, 6.0).objective)
    kept = np.mean([average.run(costs).total_payment <= 6.0 for costs in markets[:200]])
    assert kept < 0.85


def test_choosing_the_payment_weight_from_reports_makes_lying_pay():
    # MATH: U[0,1], mu = sigma = 1, cap 0.6, costs (.2, .5, .7), budget .3.
    dist = Uniform(0, 1)

    def spends_the_budget(reports):
        def over(log_weight):
            objective = BuyerObjective(1.0, 1.0, math.exp(log_weight), weight_cap=1.8)
            return dpm.OfflineMechanism(dist, objective).run(reports).total_payment - 0.3

        return math.exp(brentq(over, -5.0, 10.0))

    def gain(reports, payment_weight):
        objective = BuyerObjective(1.0, 1.0, payment_weight, weight_cap=1.8)
        outcome = dpm.OfflineMechanism(dist, objective).run(reports)
        return outcome.payments[0] - 0.2 * outcome.epsilons[0]

    truth, lie = [0.2, 0.5, 0.7], [0.42, 0.5, 0.7]
    from_truth, from_lie = spends_the_budget(truth), spends_the_budget(lie)
    assert from_truth == pytest.approx(6.61, abs=0.01)
    assert from_lie == pytest.approx(5.17, abs=0.01)
    assert gain(truth, from_truth) == pytest.approx(0.1077, abs=1e-4)
    assert gain(lie, from_lie) == pytest.approx(0.1165, abs=1e-4)
    # A weight fixed before the reports, whichever it is, leaves nothing to gain.
    planned = float(dpm.plan_payment_weight(dist, BuyerObjective(1.0, 1.0, 1.0, weight_cap=1.8), 3, 0.3))
    for weight in (planned, from_truth, from_lie):
        assert gain(lie, weight) < gain(truth, weight)


def test_a_plan_is_a_function_of_public_arguments_and_can_be_repeated():
    plan = dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 2_000, 5.0)
    assert plan == dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 2_000, 5.0)
    other = dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 2_000, 5.0, rng=np.random.default_rng(8))
    assert other.payment_weight == pytest.approx(plan.payment_weight, rel=0.01)
    data = plan.to_dict()
    assert data["schema"] == "dpmarket.plan/1"
    assert data["objective"]["payment_weight"] == data["payment_weight"] == float(plan)
    assert BuyerObjective(1.0, 1.0, plan).payment_weight == plan.payment_weight
    assert dict(plan.summary())["sellers"] == "2,000"


def test_the_most_that_can_be_spent_is_said_where_epsilon_is_bounded():
    bounded = BuyerObjective(1.0, 1.0, 1.0, max_mean_epsilon=0.1)
    with pytest.raises(Infeasible, match=r"below 50\.0"):
        dpm.plan_payment_weight(Uniform(1, 5), bounded, 100, 50.0)
    plan = dpm.plan_payment_weight(Uniform(1, 5), bounded, 100, 45.0)
    assert plan.expected_payment == pytest.approx(45.0, rel=2e-3)


def test_where_payments_jump_over_the_budget_the_plan_stays_below_and_says_what_is_left():
    # About six in 4,000 are very cheap: a market changes at once from buying from these to buying from all.
    dist = PiecewiseLinear([0.001, 0.0011, 0.99, 1.0, 1.01], [30.0, 1e-7, 1e-7, 50.0, 50.0])
    plan = dpm.plan_payment_weight(dist, OBJECTIVE, 4_000, budget=2.0)
    assert plan.expected_payment < 2.0 * (1 - 5e-4)
    assert plan.gap == 2.0 - plan.expected_payment == plan.to_dict()["gap"]
    assert "gap, met by no payment weight" in dict(plan.summary())
    # A little more is too much: the same markets, at a payment weight that differs in the eighth digit.
    markets = draw_markets(dist, 4_000, np.random.default_rng(0))
    more = replace(plan.objective, payment_weight=plan.payment_weight * (1 - 1e-8))
    assert markets.expect(plan.objective).payment == plan.expected_payment
    assert markets.expect(more).payment > 2.0
    plan = dpm.planning.plan_target(dist, OBJECTIVE, 4_000, target=0.25)
    assert plan.expected_excess_risk < 0.25 * (1 - 5e-4)
    assert plan.gap == 0.25 - plan.expected_excess_risk
    assert dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 100, 10.0).gap == 0.0


def test_the_most_that_can_be_spent_where_only_the_cheapest_matter():
    # All from the cheapest, at the second lowest of 50 costs: 1 + 4 * 2/51 for each of 50 * 0.1 epsilons.
    bounded = BuyerObjective(0.0, 1.0, 1.0, max_mean_epsilon=0.1)
    with pytest.raises(Infeasible, match=r"below 5\.78"):
        dpm.plan_payment_weight(Uniform(1, 5), bounded, 50, 20.0)
    # With a cap of 20 at weights of 0.4: two of the cheapest and half of the next.
    capped, dist, rng = replace(bounded, weight_cap=20.0), Uniform(1, 5), np.random.default_rng(0)
    with pytest.raises(Infeasible) as refusal:
        dpm.plan_payment_weight(dist, capped, 50, 20.0)
    most = float(str(refusal.value).split("below ")[1].split(",")[0])
    psi = np.sort(dpm.virtual_costs(dist.sample(50 * 20_000, rng), dist).reshape(-1, 50), axis=1)
    simulated = 5.0 * psi[:, :3] @ [0.4, 0.4, 0.2]
    assert abs(simulated.mean() - most) < 5 * simulated.std() / math.sqrt(20_000)


def test_a_confidence_that_would_take_too_many_campaigns_is_refused():
    with pytest.raises(InvalidInput, match=r"at most 0\.9999"):
        dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 10, 1.0, confidence=1 - 1e-12)


def test_the_cheapest_plan_reaches_its_target_and_no_cheaper_one_does():
    dist = Uniform(1, 5)
    plan = dpm.planning.plan_target(dist, OBJECTIVE, 2_000, target=0.2)
    assert plan.expected_excess_risk == pytest.approx(0.2, rel=1e-3)
    back = dpm.plan_payment_weight(dist, OBJECTIVE, 2_000, plan.expected_payment)
    assert back.expected_excess_risk == pytest.approx(0.2, rel=3e-3)
    poorer = dpm.plan_payment_weight(dist, OBJECTIVE, 2_000, 0.95 * plan.expected_payment)
    assert poorer.expected_excess_risk > 0.2


def test_the_fewest_sellers_are_enough_and_many_fewer_are_not():
    dist = Uniform(1, 5)
    plan = dpm.planning.plan_sellers(dist, OBJECTIVE, budget=10.0, target=0.2)
    assert plan.expected_payment <= 10.0 * 1.001
    fewer = dpm.planning.plan_target(dist, OBJECTIVE, round(0.95 * plan.sellers), target=0.2)
    assert fewer.expected_payment > 10.0


def test_unreachable_targets_say_what_is_reachable():
    with pytest.raises(Infeasible, match=r"above 0\.1, .* for unlimited money"):
        dpm.planning.plan_target(Uniform(1, 5), OBJECTIVE, 100, target=0.1)
    bounded = BuyerObjective(1.0, 1.0, 1.0, max_mean_epsilon=0.01)
    with pytest.raises(Infeasible, match=r"above 1\.1"):
        dpm.planning.plan_target(Uniform(1, 5), bounded, 100, target=1.0)
    with pytest.raises(Infeasible, match=r"above 0\.5, .* unlimited sellers"):
        dpm.planning.plan_sellers(Uniform(1, 5), OBJECTIVE, budget=2.0, target=0.4)
    with pytest.raises(Infeasible, match=r"about 0\.1006.* 10000000000 sellers"):
        dpm.planning.plan_sellers(Uniform(1, 5), OBJECTIVE, budget=10.0, target=0.1 * (1 + 1e-9))
    capped = BuyerObjective(1.0, 1.0, 1.0, weight_cap=2.0)
    with pytest.raises(Infeasible, match=r"above 1\.5"):
        dpm.planning.plan_sellers(Uniform(1, 5), capped, budget=2.0, target=1.4)


@pytest.mark.parametrize("cap", [None, 4.0])
def test_the_budget_for_a_loss_falls_towards_its_limit_as_sellers_grow(cap):
    objective = BuyerObjective(1.0, 1.0, 1.0, weight_cap=cap)
    table = dpm.planning.budget_for_loss(Uniform(1, 5), objective, 0.2, sellers=(20, 2000, 20_000, 10**6))
    assert table.budgets[0] == math.inf
    assert (np.diff(table.budgets[1:]) < 0).all()
    assert table.limit == (5.0 if cap is None else 10.0)
    assert table.limit < table.budgets[-1] < 1.15 * table.limit
    assert table.to_dict()["plans"][0] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("uniform", OBJECTIVE, 10, 1.0), "cost distribution"),
        ((Uniform(1, 5), "objective", 10, 1.0), "BuyerObjective"),
        ((Uniform(1, 5), BuyerObjective(1.0, 0.0, 1.0), 10, 1.0), "noise"),
        ((Uniform(1, 5), OBJECTIVE, 0, 1.0), "sellers"),
        ((Uniform(1, 5), OBJECTIVE, 10.0, 1.0), "sellers"),
        ((Uniform(1, 5), OBJECTIVE, 10, 0.0), "budget"),
        ((Uniform(1, 5), OBJECTIVE, 10, np.nan), "budget"),
    ],
)
def test_plans_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        dpm.plan_payment_weight(*arguments)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
def test_no_plan_is_certain_or_never_kept(confidence):
    with pytest.raises(InvalidInput, match="confidence"):
        dpm.plan_payment_weight(Uniform(1, 5), OBJECTIVE, 10, 1.0, confidence=confidence)


def test_a_single_seller_with_endless_costs_cannot_be_planned():
    with pytest.raises(Infeasible, match="upper end"):
        dpm.plan_payment_weight(FromScipy(stats.expon()), OBJECTIVE, 1, 1.0)


@pytest.mark.slow
@each
def test_with_confidence_the_budget_suffices_for_every_distribution(name):
    # 1,500 fresh campaigns of 60 sellers: at least 95% within the budget, minus four binomial standard
    # errors (3e-5 per distribution).
    dist, rng = DISTRIBUTIONS[name], np.random.default_rng(98)
    plan = dpm.plan_payment_weight(dist, OBJECTIVE, 60, budget=6.0, confidence=0.95)
    mechanism = dpm.OfflineMechanism(dist, plan.objective)
    kept = np.mean([mechanism.run(dist.sample(60, rng)).total_payment <= 6.0 for _ in range(1500)])
    assert kept >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / 1500)
