"""The online mechanism beyond the contract: quotes, menus, budgets, and what is bought in the end."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpmarket as dpm
from dpmarket import BuyerObjective, Infeasible, InvalidInput, OnlineMechanism, Uniform, population_curve
from dpmarket.mechanisms import Curve
from support.markets import ONLINE

DIST = Uniform(1, 5)
CURVE = population_curve(DIST, BuyerObjective(1.0, 1.0, 1e-2), 100)


def market(**options):
    return OnlineMechanism(DIST, CURVE, **options)


@pytest.mark.parametrize(
    "name", ["online", "online capped", "online log-normal", "online groups", "paper's curve"]
)
def test_picking_from_the_menu_is_reporting_the_truth(name):
    mechanism, costs = ONLINE[name].mechanism, ONLINE[name].costs
    menu = mechanism.menu(400)
    assert (menu.epsilons[0], menu.payments[0]) == (0.0, 0.0)
    assert (np.diff(menu.epsilons) > 0).all()
    assert (np.diff(menu.payments) > 0).all()
    # Concave, with the slope between two choices between the costs that pick them.
    slopes = np.diff(menu.payments) / np.diff(menu.epsilons)
    tolerance = 1e-9 * menu.costs[0]
    assert (np.diff(slopes) <= tolerance).all()
    assert (slopes >= menu.costs[1:] - tolerance).all()
    assert (slopes[1:] <= menu.costs[1:-1] + tolerance).all()
    # Each choice's own cost picks it.
    for cost, epsilon, payment in zip(menu.costs, menu.epsilons, menu.payments, strict=True):
        picked = menu.best(cost)
        assert picked.payment - cost * picked.epsilon == pytest.approx(
            payment - cost * epsilon, abs=tolerance
        )
    # Anybody else gains by a truthful report what the menu offers, to the width of its steps.
    for cost in costs.sample(50, np.random.default_rng(0)):
        truth, picked = mechanism.respond([cost], 0, cost), menu.best(cost)
        gain = truth.payment - cost * truth.epsilon
        step = (menu.costs[0] - menu.costs[-1]) / 399 * menu.epsilons[-1]
        assert gain - step <= picked.payment - cost * picked.epsilon <= gain + tolerance


def test_quotes_do_not_depend_on_arrival_or_on_what_others_did():
    early, late = market(), market()
    late.accept(late.quote_many([1.0, 1.1, 4.0]))
    late.decline(late.quote(1.2))
    first, last = early.quote(1.3), late.quote(1.3)
    assert (first.epsilon, first.payment) == (last.epsilon, last.payment)


def test_many_quotes_are_single_quotes_one_after_the_other():
    costs = DIST.sample(50, np.random.default_rng(0))
    for options in ({}, {"budget": 20.0}, {"budget": 20.0, "minor_units": 100}):
        one, many = market(**options), market(**options)
        singles = [one.quote(cost) for cost in costs]
        together = many.quote_many(costs)
        assert [quote.payment for quote in singles] == together.payments.tolist()
        assert [quote.epsilon for quote in together] == together.epsilons.tolist()
        assert [quote.number for quote in together] == list(range(50))


def test_a_quote_can_be_answered_once_and_only_where_it_was_made():
    ours, theirs = market(), market()
    quotes = ours.quote_many([1.0, 1.2, 1.4])
    ours.accept(quotes[0])
    ours.decline(quotes[1])
    for answer in (ours.accept, ours.decline):
        for quote in (quotes[0], quotes[1], quotes):
            with pytest.raises(InvalidInput, match="still open"):
                answer(quote)
        with pytest.raises(InvalidInput, match="did not make"):
            answer(theirs.quote(1.0))
        for wrong in (None, 0, "quote"):
            with pytest.raises(InvalidInput, match="a quote"):
                answer(wrong)
    ours.accept(quotes[2])
    outcome = ours.close()
    assert outcome.seller_ids.tolist() == [0, 2]
    assert outcome.epsilons.tolist() == [quotes[0].epsilon, quotes[2].epsilon]
    assert outcome.payments.tolist() == [quotes[0].payment, quotes[2].payment]
    for action in (ours.close, lambda: ours.quote(1.0), lambda: ours.quote_many([1.0])):
        with pytest.raises(InvalidInput, match="closed"):
            action()


def test_a_seller_reports_once():
    ours = market()
    ours.quote(1.0, "ada")
    for again in (lambda: ours.quote(1.5, "ada"), lambda: ours.quote_many([1.5, 1.6], ["bo", "ada"])):
        with pytest.raises(InvalidInput, match="one report each"):
            again()
    with pytest.raises(InvalidInput, match="for all quotes"):
        ours.quote(1.0)
    with pytest.raises(InvalidInput, match="one kind"):
        ours.quote(1.0, 7)
    assert ours.quoted == 1
    ours.accept(ours.quote(1.5, "bo"))
    assert ours.close().seller_ids.tolist() == ["bo"]


def test_only_delivered_data_gets_weight_and_promises_stay_as_quoted():
    ours = market()
    quotes = ours.quote_many([1.0, 1.5, 2.0], ["a", "b", "c"])
    ours.accept(quotes[0])
    ours.accept(quotes[1])
    for wrong, words in (
        (["a", "c"], "1 who have not"),
        (["a", "nobody"], "1 unknown"),
        (["a", "a"], "repeated"),
        ("a", "quotes or seller ids"),
        (3, "quotes or seller ids"),
        ([1.5], "1 unknown"),
        ([True], "1 unknown"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ours.close(delivered=wrong)
    outcome = ours.close(delivered=["b"])
    assert outcome.seller_ids.tolist() == ["b"]
    assert outcome.epsilons.tolist() == [quotes[1].epsilon]
    assert outcome.planned_weights.tolist() == [1.0]
    again = market()
    pair = again.quote_many([1.0, 1.5])
    again.accept(pair)
    for flags in ([True], np.array([False, True])):
        with pytest.raises(InvalidInput, match="unknown"):
            again.close(delivered=flags)
    assert again.close(delivered=[pair[1]]).epsilons.tolist() == [pair[1].epsilon]


def test_weights_keep_every_promise_where_the_penalty_is_small():
    costs = DIST.sample(30, np.random.default_rng(0))
    outcome = market().run(costs, l2=0.2)
    losses = dpm.privacy_loss(outcome.planned_weights, outcome.planned_noise_rate, 0.2)
    assert (losses <= outcome.epsilons).all()
    plain = market().run(costs)
    assert plain.planned_noise_rate == pytest.approx(plain.epsilons.sum())
    assert plain.planned_noise_rate * 0.2 < 2  # so that the plain weights would overspend
    assert (
        dpm.privacy_loss(plain.planned_weights, plain.planned_noise_rate, 0.2) > plain.epsilons * 1.001
    ).any()


def test_the_outcome_is_the_buyers_objective_of_what_was_bought():
    costs = DIST.sample(40, np.random.default_rng(1))
    outcome, objective = market().run(costs), CURVE.objective
    psi, epsilons = dpm.virtual_costs(costs, DIST), outcome.epsilons
    assert outcome.optimality.objective_value == pytest.approx(
        np.linalg.norm(epsilons) / epsilons.sum() + 1 / epsilons.sum() + 0.01 * float(psi @ epsilons)
    )
    assert outcome.parameters["objective"] == objective.to_dict()
    twin = dpm.Outcome.from_dict(json.loads(json.dumps(outcome.to_dict())))
    assert twin.to_dict() == outcome.to_dict()


def test_a_market_in_which_nobody_was_bought_says_so_and_stays_open():
    ours = market()
    ours.accept(ours.quote_many([4.9, 5.0, 7.0]))
    with pytest.raises(Infeasible, match="nothing can be trained"):
        ours.close()
    with pytest.raises(Infeasible, match="among 0"):
        market().close()
    ours.accept(ours.quote(1.0))
    assert ours.close().planned_noise_rate > 0


@settings(max_examples=60)
@given(data=st.data(), minor=st.sampled_from([None, 1, 100]), share=st.floats(0.1, 30.0))
def test_no_sequence_of_quotes_and_answers_exceeds_the_budget(data, minor, share):
    budget = share * CURVE.largest_payment if minor is None else max(round(share), 1)
    ours, open_quotes, accepted = market(budget=budget, minor_units=minor), [], []
    for step in data.draw(st.lists(st.tuples(st.sampled_from("qmad"), st.integers(0, 99)), max_size=60)):
        if step[0] == "q":
            open_quotes.append(ours.quote(1.0 + step[1] / 50))
        elif step[0] == "m":
            open_quotes += list(ours.quote_many(np.linspace(1.0, 3.0, 1 + step[1])))
        elif open_quotes:
            quote = open_quotes.pop(step[1] % len(open_quotes))
            (ours.accept if step[0] == "a" else ours.decline)(quote)
            accepted += [quote] if step[0] == "a" else []
        if minor is None:
            owed = sum(Fraction(quote.payment) for quote in [*accepted, *open_quotes])
            assert owed <= Fraction(budget)
            assert ours.money_left <= Fraction(budget) - owed
    if minor is not None:
        for quote in open_quotes:
            ours.accept(quote)
        if any(quote.epsilon > 0 for quote in [*accepted, *open_quotes]):
            assert ours.close().in_minor_units(minor).total <= budget * minor


@settings(max_examples=150)
@given(
    low=st.floats(0.1, 2.0),
    width=st.floats(0.5, 4.0),
    step=st.sampled_from([math.inf, 1.0, 3.0]),
    cents=st.integers(1, 500),
    ulps=st.integers(-4, 12),
    seed=st.integers(0, 10**6),
)
def test_not_even_a_payment_at_the_edge_of_a_cent_exceeds_the_budget(low, width, step, cents, ulps, seed):
    # On the flat part of a curve all payments are equal but for rounding; here they are about a whole
    # number of cents, so that the last bit decides about one cent more.
    dist = Uniform(low, low + width)
    top = dist.support[1] if math.isinf(step) else low + 0.4 * width * min(step, 2.0)
    cutoff = step if math.isinf(step) else dist.virtual_cost(top)
    epsilon = cents / 100 / top * (1 - ulps * 2.2e-16)
    curve = Curve(dist, BuyerObjective(1.0, 1.0, 0.1), 10, math.inf, cutoff, epsilon)
    costs = np.random.default_rng(seed).uniform(low, top, 200)
    payments = curve.offers(costs)
    assert (payments.payments + payments.errors <= curve.largest_payment).all()
    for budget in (cents, cents + 1, 3 * cents + 1):
        ours = OnlineMechanism(dist, curve, budget=budget / 100, minor_units=100)
        for cost in (float(costs[payments.payments.argmax()]), *costs[:4]):
            ours.accept(ours.quote(cost))
        if ours._books.column("payment").any():
            total = ours.close().in_minor_units(100).total
            assert total <= math.floor(Fraction(budget / 100) * 100)


def test_the_money_of_a_declined_quote_is_free_again():
    ours = market(budget=1.5 * CURVE.largest_payment)
    first = ours.quote(1.0)
    assert not ours.is_buying
    assert ours.quote(1.0).payment == 0.0
    ours.decline(first)
    assert ours.is_buying
    assert ours.quote(1.0).payment == first.payment


def test_whether_there_is_money_does_not_depend_on_the_own_report():
    # A cheap seller is paid more: if only what they ask for counted, a higher report would still be served.
    ours = market(budget=2.5 * CURVE.largest_payment)
    costs = np.array([1.0, 1.0, 1.0])
    answers = ours.response_curve(costs, 2, np.linspace(1, 5, 50))
    assert not answers.epsilons.any()
    assert ours.respond(costs, 1, 1.0).epsilon > 0
    # The same where quotes are made: there is money for the dear seller, and still no offer.
    ours.quote_many(costs[:2])
    dear = CURVE.offers([1.0 + 0.8 * (CURVE.reach - 1.0)]).payments[0]
    assert 0 < dear < ours.money_left
    assert ours.quote(1.0 + 0.8 * (CURVE.reach - 1.0)).payment == 0.0


def test_a_market_survives_as_plain_data_and_its_quotes_stay_valid():
    ours = market(budget=50.0, minor_units=100)
    quotes = ours.quote_many(DIST.sample(20, np.random.default_rng(0)), [f"s{k}" for k in range(20)])
    ours.accept(quotes[0])
    ours.decline(quotes[1])
    twin = OnlineMechanism.from_dict(ours.to_dict())
    assert twin.money_left == ours.money_left
    for each in (ours, twin):
        each.accept(quotes[2])
        with pytest.raises(InvalidInput, match="one report each"):
            each.quote(1.0, "s7")
    assert twin.close().to_dict() == ours.close().to_dict()
    damaged = market().to_dict()
    for part in ("books", "curve", "distribution"):
        with pytest.raises(InvalidInput):
            OnlineMechanism.from_dict({name: value for name, value in damaged.items() if name != part})


def test_a_quote_that_older_books_do_not_know_is_not_taken_for_another_sellers():
    ours = market()
    older = ours.to_dict()
    forgotten = ours.quote_many([1.0, 1.1])
    restored = OnlineMechanism.from_dict(older)
    known = restored.quote_many([1.1, 1.1])
    for stale in (forgotten, forgotten[0]):
        for answer in (restored.accept, restored.decline):
            with pytest.raises(InvalidInput, match="did not make"):
                answer(stale)
    restored.accept(known)
    with pytest.raises(InvalidInput, match="did not make"):
        restored.close(delivered=[forgotten[0]])
    assert restored.close().payments.tolist() == known.payments.tolist()


def test_settings_tell_markets_apart_and_say_nothing_about_sellers():
    ours, theirs = market(budget=50.0, minor_units=100), market(budget=50.0, minor_units=100)
    ours.quote_many([1.2345, 2.0])
    assert ours.settings() == theirs.settings() == json.loads(json.dumps(ours.settings()))
    other = population_curve(DIST, BuyerObjective(1.0, 1.0, 1e-1), 100)
    for different in (
        market(),
        market(budget=50.0),
        OnlineMechanism(DIST, other, budget=50.0, minor_units=100),
    ):
        assert different.settings() != ours.settings()


@pytest.mark.parametrize("cost", [np.nan, np.inf, -2.5, "2.5", None, [2.5], 1j])
def test_what_is_no_cost_is_refused_and_changes_nothing(cost):
    ours = market(budget=10.0)
    ours.quote(1.0)
    before = ours.to_dict()
    for ask in (lambda: ours.quote(cost), lambda: ours.quote_many([1.0, cost])):
        with pytest.raises(InvalidInput) as refusal:
            ask()
        assert "2.5" not in str(refusal.value)
    assert ours.to_dict() == before


def test_reported_costs_are_shown_nowhere():
    ours = market()
    quote = ours.quote(1.2345)
    ours.accept(quote)
    shown = f"{quote!r} {ours!r} {ours.__dict__!r} {ours.close().to_dict()!r}"
    assert "1.2345" not in shown


def test_settings_that_make_no_sense_are_refused():
    for options, words in (
        ({"budget": 0.0}, "budget"),
        ({"budget": np.inf}, "budget"),
        ({"budget": 1.0, "minor_units": 0}, "minor_units"),
        ({"minor_units": 100}, "budget"),
    ):
        with pytest.raises(InvalidInput, match=words):
            market(**options)
    with pytest.raises(InvalidInput, match="support"):
        OnlineMechanism(Uniform(0, 5), CURVE)
    with pytest.raises(InvalidInput, match="distribution"):
        OnlineMechanism("uniform", CURVE)
    with pytest.raises(InvalidInput, match="population_curve"):
        OnlineMechanism(DIST, lambda cost: 0.0)
    for points in (1, 0, 2.5, "50"):
        with pytest.raises(InvalidInput, match="points"):
            market().menu(points)
