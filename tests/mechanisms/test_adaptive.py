"""The adaptive mechanism beyond the contract: what it may learn from, what it learns, and what it keeps."""

import json

import numpy as np
import pytest
from scipy import stats

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, InvalidInput, Uniform
from dpmarket.mechanisms import AdaptiveMechanism, keep_prior, refit
from support.markets import LOG_NORMAL, U_SHAPED
from support.ratios import POPULATIONS

PRIOR, OBJECTIVE = Uniform(0, 30), BuyerObjective(1.0, 1.0, 1e-2)


def market(sellers=200, **options):
    return AdaptiveMechanism(PRIOR, OBJECTIVE, sellers, **options)


def test_a_curve_depends_on_past_reports_only():
    costs = LOG_NORMAL.sample(100, np.random.default_rng(0))
    changed = costs.copy()
    changed[60:] = LOG_NORMAL.sample(40, np.random.default_rng(1))
    one, other = market().quote_many(costs), market().quote_many(changed)
    assert one.payments[:60].tolist() == other.payments[:60].tolist()
    # Within the epoch of seller 60 nobody's quote depends on their report either.
    same = one.epochs == one.epochs[60]
    after = int(np.flatnonzero(same)[-1])
    changed[60:after] = costs[60:after][::-1]
    curve = market().response_curve(costs, after, [1.0]).epsilons[0]
    assert market().response_curve(changed, after, [1.0]).epsilons[0] == curve
    # And it does depend on the reports of earlier epochs.
    assert market().response_curve(costs * 0.5, after, [1.0]).epsilons[0] != curve


def test_many_quotes_are_single_quotes_one_after_the_other():
    costs = LOG_NORMAL.sample(70, np.random.default_rng(0))
    one, many = market(budget=30.0), market(budget=30.0)
    singles = [one.quote(cost) for cost in costs]
    together = many.quote_many(costs)
    assert [(q.payment, q.epoch) for q in singles] == [(q.payment, q.epoch) for q in together]
    assert together.epochs[-1] >= 3


def test_epochs_grow_by_their_factor():
    ours = market(1000, first_epoch=10, growth=2.0)
    epochs = ours.quote_many(LOG_NORMAL.sample(160, np.random.default_rng(0))).epochs
    assert np.bincount(epochs).tolist() == [10, 10, 20, 40, 80]


def test_what_was_bought_so_far_decides_what_is_bought_next():
    costs = LOG_NORMAL.sample(100, np.random.default_rng(0))
    accepting, declining = market(), market()
    accepting.accept(accepting.quote_many(costs[:60]))
    declining.decline(declining.quote_many(costs[:60]))
    assert declining.curve.largest_epsilon > accepting.curve.largest_epsilon


def test_with_fewer_sellers_to_come_more_is_bought_from_each():
    costs = LOG_NORMAL.sample(60, np.random.default_rng(0))
    ours, told = market(), market()
    for each in (ours, told):
        each.accept(each.quote_many(costs))
    epoch = told.epoch
    told.expect(20)
    assert told.epoch == epoch + 1
    assert told.expected_sellers == 80
    assert told.curve.largest_epsilon > ours.curve.largest_epsilon
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(InvalidInput, match="remaining"):
            told.expect(wrong)


def test_more_sellers_than_expected_are_still_quoted():
    ours = market(50)
    quotes = ours.quote_many(LOG_NORMAL.sample(120, np.random.default_rng(0)))
    ours.accept(quotes)
    assert ours.expected_sellers > 120 - 1
    assert ours.close().seller_ids.size == 120


def test_the_state_survives_a_file_without_loss(tmp_path):
    costs = LOG_NORMAL.sample(120, np.random.default_rng(0))
    ours = market(budget=40.0, minor_units=100, growth=1.7, pilot_share=0.5)
    quotes = ours.quote_many(costs[:70])
    ours.accept(quotes[3])
    ours.decline(quotes[4])
    dpm.mechanisms.write_market_state(tmp_path / "market.json", ours)
    twin = dpm.mechanisms.read_market_state(tmp_path / "market.json")
    assert json.dumps(twin.to_dict()) == json.dumps(ours.to_dict())
    for each in (ours, twin):
        each.accept(quotes[5])
    first, second = ours.quote_many(costs[70:]), twin.quote_many(costs[70:])
    assert first.payments.tobytes() == second.payments.tobytes()
    assert first.epochs.tolist() == second.epochs.tolist()
    ours.accept(first)
    twin.accept(first)
    assert twin.close().to_dict() == ours.close().to_dict()
    for part in ("prior", "books", "epoch", "growth", "curve"):
        damaged = {name: value for name, value in ours.to_dict().items() if name != part}
        with pytest.raises(InvalidInput):
            AdaptiveMechanism.from_dict(damaged)


def test_fitting_again_finds_the_cheap_end():
    rng = np.random.default_rng(0)
    for dist in (LOG_NORMAL, U_SHAPED, Uniform(1, 5)):
        belief = refit(dist.sample(5000, rng), Uniform(*dist.support))
        for share in (0.02, 0.1, 0.5):
            assert belief.cdf(dist.quantile(share)) == pytest.approx(share, rel=0.15)
        assert belief.support == dist.support


def test_a_fall_of_psi_as_narrow_as_rounding_is_ironed_away():
    # A belief found in a simulation, whose psi falls over a stretch of 1e-7: warnings are errors here.
    rng = np.random.default_rng(0)
    costs = [POPULATIONS["log-normal"].sample(10_000, rng) for _ in range(3)]
    belief = refit(costs[2][:687], Uniform(0, 10))
    assert not belief.is_regular
    psi = belief.virtual_cost(np.linspace(0, 10, 20_001))
    assert (np.diff(psi) >= -1e-12).all()


def test_too_few_reports_leave_the_prior_as_it_is():
    assert refit(np.arange(1.0, 20.0), PRIOR) is PRIOR
    assert refit(np.full(50, 2.0), PRIOR) is PRIOR
    assert refit(np.append(np.arange(1.0, 20.0), 99.0), PRIOR) is PRIOR  # the last is above the support
    assert refit(np.arange(1.0, 22.0), PRIOR) is not PRIOR
    assert keep_prior(np.arange(1.0, 22.0), PRIOR) is PRIOR
    tied = refit(np.repeat([1.0, 2.0], 30), PRIOR)
    assert tied.cdf(2.5) > 0.5


@pytest.mark.parametrize("cost", [np.nan, np.inf, -2.5, "2.5", None])
def test_what_is_no_cost_is_refused_and_changes_nothing(cost):
    ours = market()
    ours.quote_many(np.linspace(1, 3, 19))
    before = ours.to_dict()
    for ask in (lambda: ours.quote(cost), lambda: ours.quote_many([1.0, 1.0, cost])):
        with pytest.raises(InvalidInput) as refusal:
            ask()
        assert "2.5" not in str(refusal.value)
    assert ours.to_dict() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prior": FromScipy(stats.expon())}, "finite upper end"),
        ({"prior": None}, "distribution"),
        ({"objective": BuyerObjective(0.0, 1.0, 1.0)}, "concentration"),
        ({"expected_sellers": 0}, "expected_sellers"),
        ({"growth": 1.0}, "growth"),
        ({"growth": np.nan}, "growth"),
        ({"pilot_share": 0.0}, "pilot_share"),
        ({"pilot_share": 1.5}, "pilot_share"),
        ({"first_epoch": 0}, "first_epoch"),
        ({"fit": "refit"}, "fit"),
        ({"budget": -1.0}, "budget"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, words):
    parts = {"prior": PRIOR, "objective": OBJECTIVE, "expected_sellers": 100}
    with pytest.raises(InvalidInput, match=words):
        AdaptiveMechanism(**(parts | change))


def test_a_market_whose_mean_epsilon_is_used_up_goes_on_and_buys_from_nobody():
    objective = BuyerObjective(1.0, 1.0, 1e-1, max_mean_epsilon=0.02)
    ours = AdaptiveMechanism(Uniform(1, 5), objective, 200, first_epoch=100, pilot_share=1.0)
    ours.accept(ours.quote_many(np.full(100, 1.01)))
    assert ours.quote(1.2).payment == 0.0
    assert not ours.quote_many(np.linspace(1, 5, 99)).epsilons.any()
    assert ours.menu().epsilons.tolist() == [0.0]
    assert ours.close().seller_ids.size == 100
    assert "AdaptiveMechanism" in repr(ours)


def test_many_sellers_are_quoted_all_or_none():
    def fails_late(reports, prior):
        if reports.size > 50:
            raise RuntimeError("no fit")
        return prior

    for ids in (None, [f"s{k}" for k in range(100)]):
        ours = market(fit=fails_late, budget=40.0, minor_units=100)
        for already in (0, 15):
            if already:
                ours.quote_many(np.linspace(1, 3, already), None if ids is None else ids[-already:])
            before = ours.to_dict()
            with pytest.raises(RuntimeError, match="no fit"):
                ours.quote_many(np.linspace(1, 3, 85), None if ids is None else ids[:85])
            assert ours.to_dict() == before
        ours.quote_many(np.linspace(1, 3, 25), None if ids is None else ids[:25])
        assert ours.quoted == 40


def test_showing_a_market_does_not_move_it():
    ours = market()
    ours.quote_many(np.linspace(1, 3, 20))
    before = ours.to_dict()
    assert "epoch=0" in repr(ours)
    assert ours.to_dict() == before


def test_a_used_market_answers_for_a_new_one_of_the_same_settings():
    costs = LOG_NORMAL.sample(60, np.random.default_rng(0))
    fresh, used = market(), market()
    used.quote_many(costs)
    used.expect(5000)
    assert used.settings() == fresh.settings()
    assert used.respond(costs, 50, 1.0) == fresh.respond(costs, 50, 1.0)
    assert AdaptiveMechanism.from_dict(used.to_dict()).respond(costs, 50, 1.0) == fresh.respond(
        costs, 50, 1.0
    )
    assert used.run(costs).to_dict() == fresh.run(costs).to_dict()


def test_settings_tell_markets_apart():
    ours = market().settings()
    assert json.loads(json.dumps(ours)) == ours
    for different in (
        market(201),
        market(growth=1.6),
        market(budget=5.0),
        market(fit=keep_prior),
        market(fit=lambda reports, prior: prior),
        AdaptiveMechanism(PRIOR, BuyerObjective(1.0, 1.0, 1e-3), 200),
    ):
        assert different.settings() != ours


def test_a_market_from_a_file_goes_on_with_its_own_fit(tmp_path):
    costs = LOG_NORMAL.sample(60, np.random.default_rng(0))
    known = market(fit=keep_prior)
    known.quote_many(costs)
    dpm.mechanisms.write_market_state(tmp_path / "market.json", known)
    assert dpm.mechanisms.read_market_state(tmp_path / "market.json").quote_many(costs).payments.tolist() == (
        known.quote_many(costs).payments.tolist()
    )

    def own(reports, prior):
        return prior

    dpm.mechanisms.write_market_state(tmp_path / "own.json", market(fit=own))
    with pytest.raises(InvalidInput, match="fit"):
        dpm.mechanisms.read_market_state(tmp_path / "own.json")
    state = json.loads((tmp_path / "own.json").read_text())
    assert AdaptiveMechanism.from_dict(state, fit=own).to_dict() == state
