"""Sweeps, tuning and comparisons: public data only, the same table from any number of processes."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, FileProblem, InvalidInput, OfflineMechanism, Uniform
from dpmarket.datasets import separable, standard_bounds
from dpmarket.mechanisms import CheapestK, OnlineMechanism, PostedPrice, population_curve
from dpmarket.planning import Trial, best_cheapest_k, best_posted_price, excess_risk
from dpmarket.planning.rows import compute_rows
from support.rows import fail_at_three, square

DIST = Uniform(1, 5)
OBJECTIVE = BuyerObjective(0.1, 1.0, 1.0)
MODEL = dpm.planning.logistic_error(3, 1.25)


def trial(records=250):
    return Trial(separable(records, 2, np.random.default_rng(0)), radius=0.7)


def test_rows_do_not_depend_on_processes_and_a_stopped_table_goes_on(tmp_path):
    kept, seen = tmp_path / "rows.json", []
    with pytest.raises(InvalidInput, match="3"):
        compute_rows(fail_at_three, [1, 2, 3, 4], "squares", keep_in=kept)
    assert set(json.loads(kept.read_text())["rows"]) == {"0", "1"}
    rows = compute_rows(square, [1, 2, 3, 4], "squares", 2, kept, lambda *counts: seen.append(counts))
    assert rows == [{"square": n * n} for n in (1, 2, 3, 4)]
    assert seen == [(3, 4), (4, 4)]  # two rows were there already
    # All rows are there: nothing is computed any more, not even what would fail.
    assert compute_rows(fail_at_three, [1, 2, 3, 4], "squares", keep_in=kept) == rows


def test_a_file_of_another_table_is_refused(tmp_path):
    compute_rows(square, [1], "squares", keep_in=tmp_path / "rows.json")
    with pytest.raises(FileProblem, match="other settings"):
        compute_rows(square, [1], "cubes", keep_in=tmp_path / "rows.json")
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(FileProblem, match="something else"):
        compute_rows(square, [1], "squares", keep_in=tmp_path / "other.json")


def test_a_sweep_over_budgets_spends_them_and_buys_less_risk_for_more(tmp_path):
    objectives = dpm.planning.at_budgets(DIST, OBJECTIVE, 1_500, [5.0, 20.0])
    table = dpm.planning.sweep(DIST, objectives, 1_500, repetitions=8, keep_in=tmp_path / "sweep.json")
    for row, budget in zip(table.rows, (5.0, 20.0), strict=True):
        assert abs(row.payment - budget) < 6 * row.payment_error + 0.01 * budget
        assert row.test_error is None
        assert 0.0 < row.share_bought <= 1.0
        assert list(row.epsilon_quantiles) == sorted(row.epsilon_quantiles)
    assert table.rows[1].excess_risk < table.rows[0].excess_risk
    again = dpm.planning.sweep(
        DIST, objectives, 1_500, repetitions=8, processes=2, keep_in=tmp_path / "sweep.json"
    )
    assert again == table
    assert json.loads(json.dumps(table.to_dict()))["schema"] == "dpmarket.planning.sweep/3"


def test_test_errors_fall_with_the_budget_and_are_repeatable():
    there = trial()
    objectives = dpm.planning.at_payment_weights(OBJECTIVE, [1e-7, 1.0])
    table = dpm.planning.sweep(DIST, objectives, there.sellers, there, repetitions=6)
    assert table.rows[0].test_error < table.rows[1].test_error - 0.1
    assert dpm.planning.sweep(DIST, objectives, there.sellers, there, repetitions=6) == table


def test_tuning_returns_the_whole_table_and_its_best():
    tuning = dpm.planning.tune(
        trial(), DIST, 100.0, concentrations=(1e-3, 10.0), l2s=(None, 5.0), repetitions=5
    )
    assert len(tuning.candidates) == 4
    assert tuning.best.test_error == min(c.test_error for c in tuning.candidates)
    assert {c.l2 for c in tuning.candidates} == {None, 5.0}
    for candidate in tuning.candidates:
        assert candidate.payment == pytest.approx(100.0, rel=0.1)
    assert tuning.to_dict()["best"]["test_error"] == tuning.best.test_error


def test_anything_but_public_data_is_refused():
    private = np.zeros((10, 2))
    for refused in (
        lambda: Trial(private),
        lambda: dpm.planning.tune(private, DIST, 1.0),
        lambda: dpm.planning.sweep(DIST, [OBJECTIVE], 10, private),
        lambda: dpm.planning.compare(
            DIST, private, dpm.planning.standard_buyers(DIST, MODEL, 10), [1.0], 0.0
        ),
        lambda: standard_bounds(private),
    ):
        with pytest.raises(InvalidInput, match=r"[Pp]ublic"):
            refused()


def test_buyers_are_compared_on_the_same_chance():
    there = trial()
    buyers = {
        "one": lambda budget: PostedPrice.for_budget(DIST, there.sellers, budget, 0.5),
        "the same": lambda budget: PostedPrice.for_budget(DIST, there.sellers, budget, 0.5),
        "poor": lambda budget: PostedPrice.for_budget(DIST, there.sellers, 1e-3 * budget, 0.5),
    }
    table = dpm.planning.compare(DIST, there, buyers, [300.0, 600.0], payment_weight=1e-3, repetitions=10)
    for k in (0, 3):
        one, same, poor = table.standings[k : k + 3]
        assert (same.behind, same.behind_error, same.error) == (0.0, 0.0, one.error)
        assert one.overall == pytest.approx(one.error + 1e-3 * one.payment)
        assert poor.error > one.error + 0.1
        assert poor.behind == pytest.approx(poor.overall - one.overall)
        assert poor.log_loss_behind == pytest.approx(poor.log_loss - one.log_loss)
        assert (same.log_loss_behind, same.log_loss_behind_error) == (0.0, 0.0)
    assert json.loads(json.dumps(table.to_dict()))["repetitions"] == 10


@dataclass
class Unfrozen:
    share: float

    def run(self, reported_costs, seller_ids=None):
        return PostedPrice.for_budget(DIST, 100, 10.0, self.share).run(reported_costs)


@dataclass(frozen=True)
class Frozen:
    share: float

    run = Unfrozen.run


def test_kept_rows_are_those_of_the_same_buyers_and_no_others(tmp_path):
    there = trial(120)

    def payment(buyer, kept):
        table = dpm.planning.compare(
            DIST, there, {"it": lambda budget: buyer}, [10.0], 0.0, repetitions=2, keep_in=kept
        )
        return table.standings[0].payment

    def online(weight):
        curve = population_curve(DIST, replace(OBJECTIVE, payment_weight=weight), there.sellers)
        return OnlineMechanism(DIST, curve)

    for k, (one, another) in enumerate([(online(1e-3), online(1e-1)), (Frozen(0.5), Frozen(0.6))]):
        kept = tmp_path / f"{k}.json"
        assert payment(one, kept) == payment(one, kept) == payment(one, None)
        with pytest.raises(FileProblem, match="other settings"):
            payment(another, kept)
    # A buyer who does not say what it is can be tried, but not kept.
    assert payment(Unfrozen(0.5), None) > 0.0
    with pytest.raises(InvalidInput, match="keep_in"):
        payment(Unfrozen(0.5), tmp_path / "unfrozen.json")
    assert not (tmp_path / "unfrozen.json").exists()


def test_a_buyer_who_buys_nothing_guesses():
    there = trial()
    assert there.run(np.zeros(there.sellers), seed=1) == 0.5


@pytest.mark.parametrize("budget", [20.0, 500.0])
def test_the_simple_buyers_get_their_best_setting_and_ours_is_better(budget):
    # Ours minimises its objective market by market over everything that could be bought; what the simple
    # buyers buy is part of that. And its expected error is the least, as theirs are of their kinds.
    sellers, rng = 1_000, np.random.default_rng(4)
    markets = [DIST.sample(sellers, rng) for _ in range(40)]
    planned = dpm.planning.plan_prices(DIST, sellers, budget, MODEL).objective

    def values(buyer):
        outcomes = [buyer.run(costs) for costs in markets]
        virtual = [o.epsilons @ dpm.virtual_costs(c, DIST) for o, c in zip(outcomes, markets, strict=True)]
        risks = [excess_risk(o.planned_weights, o.planned_noise_rate, planned) for o in outcomes]
        errors = [dpm.planning.expected_error(o, MODEL).total for o in outcomes]
        return np.array(risks) + planned.payment_weight * np.array(virtual), np.mean(errors)

    ours, least = values(OfflineMechanism(DIST, planned))
    posted, posted_error = values(best_posted_price(DIST, sellers, budget, MODEL))
    cheapest, cheapest_error = values(best_cheapest_k(DIST, sellers, budget, MODEL))
    assert (ours < posted).all()
    assert (ours < cheapest).all()
    assert least < min(posted_error, cheapest_error)
    for share in (0.02, 0.1, 0.3, 0.6, 1.0):
        assert posted_error <= 1.05 * values(PostedPrice.for_budget(DIST, sellers, budget, share))[1]
        other = values(CheapestK.for_budget(DIST, sellers, budget, int(share * sellers)))[1]
        assert cheapest_error <= 1.05 * other


def test_every_buyer_keeps_a_bound_on_the_mean_epsilon():
    rng = np.random.default_rng(5)
    markets = [DIST.sample(100, rng) for _ in range(20)]
    buyers = dpm.planning.standard_buyers(DIST, MODEL, 100, max_mean_epsilon=0.2)
    for name, build in buyers.items():
        buyer = build(50.0)
        totals = [buyer.run(costs).total_promise for costs in markets]
        assert np.mean(totals) <= 0.2 * 100 * 1.05, name  # a posted price keeps it on average
        assert np.mean(totals) >= 0.09 * 100
    noisy = dpm.planning.ErrorModel(sampling=0.01, noise=100.0, signal=1.0)
    alone = best_cheapest_k(DIST, 3, 10.0, noisy, max_mean_epsilon=1.0)
    assert (alone.k, alone.epsilon) == (1, 3.0)  # the budget would buy more


def test_a_sweep_over_suggested_prices_expects_less_error_for_more_money():
    budgets = [20.0, 200.0]
    objectives = dpm.planning.at_suggested_prices(DIST, MODEL, 400, budgets)
    table = dpm.planning.sweep(DIST, objectives, 400, repetitions=20, error_model=MODEL)
    for row, budget in zip(table.rows, budgets, strict=True):
        plan = dpm.planning.plan_prices(DIST, 400, budget, MODEL)
        assert row.expected_error == pytest.approx(plan.expected_error.total, rel=0.1)
        assert row.noise_share == pytest.approx(plan.expected_error.noise_share, abs=0.05)
    assert table.rows[1].expected_error < table.rows[0].expected_error
    there = trial()
    tried = dpm.planning.sweep(DIST, [objectives[0]], there.sellers, there, repetitions=2)
    assert tried.rows[0].expected_error is not None  # the trial knows its number of features
    assert dpm.planning.sweep(DIST, objectives, 400, repetitions=2).rows[0].expected_error is None


def test_scores_are_those_of_the_model_on_the_records_held_out():
    there = trial(120)
    promises = np.full(there.sellers, 3.0)
    train, test = there.data.split(0.8, np.random.default_rng(7))
    scaler = dpm.PublicScaler(there.data.low, there.data.high, 0.7).fit(there.data.features)
    model = dpm.PrivateLogisticRegression(
        classes=there.data.classes, noise_source=dpm.privacy.SeededNoise(7), numerical_epsilon=1e-9
    ).fit(scaler.transform(train.features), train.labels, epsilons=promises)
    rows = scaler.transform(test.features)
    scores = there.score(promises, seed=7)
    assert scores.error == np.mean(model.predict(rows) != test.labels) == there.run(promises, seed=7)
    chosen = model.predict_log_proba(rows)[np.arange(len(test)), (test.signs > 0).astype(int)]
    assert scores.log_loss == pytest.approx(-chosen.mean())
    assert there.score(np.zeros(there.sellers), 1) == (0.5, pytest.approx(np.log(2)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dpm.planning.sweep(DIST, [], 10), "objective"),
        (lambda: dpm.planning.sweep(DIST, [replace(OBJECTIVE, payment_weight=0.0)], 10), "payment_weight"),
        (lambda: dpm.planning.sweep(DIST, [OBJECTIVE], 10, trial()), "as many sellers"),
        (lambda: dpm.planning.sweep(DIST, [OBJECTIVE], 10, repetitions=0), "repetitions"),
        (lambda: dpm.planning.sweep(DIST, [OBJECTIVE], 10, processes=0), "processes"),
        (lambda: dpm.planning.at_payment_weights(OBJECTIVE, [0.0]), "payment_weight"),
        (lambda: dpm.planning.tune(trial(), DIST, 1.0, concentrations=()), "at least one"),
        (lambda: dpm.planning.tune(trial(), DIST, -1.0), "budget"),
        (lambda: dpm.planning.compare(DIST, trial(), {}, [1.0], 0.0), "buyer"),
        (lambda: dpm.planning.compare(DIST, trial(), {"a": lambda b: None}, [], 0.0), "budget"),
        (lambda: dpm.planning.compare(DIST, trial(), {"a": lambda b: None}, [1.0], -1.0), "payment_weight"),
        (
            lambda: dpm.planning.compare(DIST, trial(), {"a": lambda b: None}, [1.0], 0.0, repetitions=1),
            "repetitions",
        ),
        (lambda: Trial(trial().data, train_share=1.0), "train_share"),
        (lambda: Trial(trial().data, radius=-1.0), "radius"),
        (lambda: trial().run([1.0, 2.0], 0), "same length"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
