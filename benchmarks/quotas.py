"""Quotas: models by group at equal money, and what plans foresee. Writes ``docs/tables/quotas.md``.

Two public groups, each with its own costs, which also go with the record: within a group the rank of a cost
follows a feature (correlation 0.7). A fifth of each set is a public pilot: it gives bounds of the features,
and how much the groups differ. The rest is split 20 times into sellers and test records. Every rule is
planned for the same money, and its epsilons are scaled so that each split spends exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from _markdown import write_tables
from _results import Table
from dpmarket.costs import Uniform, VirtualCost
from dpmarket.datasets import PublicData, breast_cancer, logistic, odd_digits, standard_bounds
from dpmarket.learning import PrivateLogisticRegression, PublicScaler
from dpmarket.mechanisms import Group, Objective, PriceSchedule
from dpmarket.mechanisms.plan import Plan, plan
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import group_difference, rebalanced

SPLITS = 20
CORRELATION = 0.7
COSTS = {
    "apart": (Uniform(1, 2), Uniform(2.5, 5)),
    "overlapping": (Uniform(1, 4), Uniform(2, 5)),
}
BUDGETS = {"low": 1.5, "high": 6.0}  # money per seller
RULES = (
    "no quotas", "hard quotas", "soft quotas", "one posted price", "posted price per group",
    "no quotas, re-weighted", "one posted price, re-weighted",
)  # fmt: skip


@dataclass(frozen=True)
class Population:
    """Records with two groups; costs follow a column within each."""

    name: str
    data: PublicData
    group: np.ndarray
    column: np.ndarray


def by_column(data: PublicData, name: str, column: str) -> Population:
    """Return a set whose groups are the halves below and above the median of a column."""
    values = data.features[:, data.feature_names.index(column)]
    return Population(name, data, (values > np.median(values)).astype(int), values)


def digits() -> Population:
    data = odd_digits()
    return Population(
        "digits, 0-4 and 5-9", data, (load_digits().target >= 5).astype(int), data.features.sum(axis=1)
    )


def shared_model() -> Population:
    """Return records of one logistic model with groups drawn at random."""
    data = logistic(1500, 15, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    return Population(
        "one model, groups at random", data, rng.integers(0, 2, len(data)), rng.normal(size=len(data))
    )


def two_models() -> Population:
    """Return records whose coefficients have opposite signs, in a part of them, in the two groups."""
    rng = np.random.default_rng(5)
    x, group = rng.uniform(-1, 1, (1500, 15)), rng.integers(0, 2, 1500)
    common, own = rng.normal(size=15), rng.normal(size=15)
    margins = 2.0 * x @ common + np.where(group == 1, 2.0, -2.0) * (x @ own)
    labels = rng.random(1500) < 1.0 / (1.0 + np.exp(-margins))
    data = PublicData(x, labels, (False, True), np.full(15, -1.0), np.full(15, 1.0), "two models", "made up")
    return Population("two models", data, group, x[:, 0])


POPULATIONS: dict[str, Callable[[], Population]] = {
    "breast cancer by concavity": lambda: by_column(
        breast_cancer(), "breast cancer by concavity", "worst concave points"
    ),
    "breast cancer by area": lambda: by_column(breast_cancer(), "breast cancer by area", "worst area"),
    "breast cancer by texture": lambda: by_column(
        breast_cancer(), "breast cancer by texture", "mean texture"
    ),
    "digits": digits,
    "one model": shared_model,
    "two models": two_models,
}


@dataclass(frozen=True)
class Setting:
    """A population with a public pilot, costs by group and money; what the plan says about quotas."""

    population: Population
    costs: str
    budget: str

    def pilot(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which records are the public pilot, and which are left."""
        order = np.random.default_rng(11).permutation(len(self.population.data))
        fifth = len(order) // 5
        return order[:fifth], order[fifth:]

    def scaled(self) -> np.ndarray:
        """Return all rows, scaled by bounds of the pilot."""
        data = self.population.data
        low, high = standard_bounds(data.take(self.pilot()[0]), 2.0)
        return np.asarray(PublicScaler(low, high, 1.0).fit_transform(data.features))

    def positive(self) -> np.ndarray:
        """Return which records have the second label."""
        return np.asarray(self.population.data.labels == self.population.data.classes[1])

    def difference(self, total: float) -> float:
        """Return how much the groups differ in the pilot: by gradients at the model that a release aims at.

        That is the model with the ridge penalty which a release with this total epsilon has; each gradient is
        at coefficients that were fitted without its record.
        """
        pilot, _ = self.pilot()
        x, y = self.scaled()[pilot], self.positive()[pilot]
        aimed = PrivateLogisticRegression(classes=(False, True), noise_source=SeededNoise(0))
        penalty = aimed.fit(x, y, epsilons=np.full(len(x), total / len(x))).l2_
        model = LogisticRegression(C=1.0 / (len(x) * penalty))
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        guess = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
        rows = np.column_stack((x, np.ones(len(x))))
        return group_difference((guess - y)[:, None] * rows, self.population.group[pilot])

    def sizes(self) -> tuple[int, int]:
        """Return how many sellers of each group to expect: three quarters of what is left."""
        rest = self.population.group[self.pilot()[1]]
        sellers = round(0.75 * len(rest))
        first = round(sellers * float(np.mean(rest == 0)))
        return first, sellers - first

    def money(self) -> float:
        """Return the budget."""
        return BUDGETS[self.budget] * sum(self.sizes())

    def groups(self) -> list[Group]:
        """Return both groups with their shares of the whole set, and their own tables."""
        second = float(self.population.group.mean())
        tables = [VirtualCost.of(costs) for costs in COSTS[self.costs]]
        return [Group("low cost", 1.0 - second, tables[0]), Group("high cost", second, tables[1])]

    def objective(self) -> Objective:
        """Return what the buyer minimises, but for the payment weight."""
        return Objective.for_model(self.population.data.n_features + 1)

    def planned(self, difference: float | None) -> Plan:
        """Return the plan with hard quotas, and all other rules at the same money."""
        return plan(
            COSTS[self.costs], self.objective(), self.sizes(), self.money(), groups=self.groups(),
            group_difference=difference,
        )  # fmt: skip

    def plans(self) -> tuple[Plan, Plan]:
        """Return the plan that knows nothing of the groups' records, and the one that has seen the pilot."""
        blind = self.planned(None)
        total = math.sqrt(self.objective().noise_error / blind.prospect.noise_error)
        return blind, self.planned(self.difference(total))

    def schedules(self, blind: Plan, seen: Plan) -> dict[str, tuple[PriceSchedule, ...]]:
        """Return the prices of each rule for both groups; the single price is the best of the blind plan."""
        rules = {rule.name: rule.schedules for rule in seen.alternatives}
        return {
            "no quotas": rules["without quotas"],
            "hard quotas": seen.schedules,
            "soft quotas": rules.get("soft quotas", rules["without quotas"]),
            "one posted price": {rule.name: rule.schedules for rule in blind.alternatives}[
                "best posted price"
            ],
            "posted price per group": rules["posted price per group"],
        }

    def costs_of_records(self, rng: np.random.Generator) -> np.ndarray:
        """Return costs with the group's distribution whose ranks follow the column within it."""
        group, found = self.population.group, np.zeros(len(self.population.data))
        for g, costs in enumerate(COSTS[self.costs]):
            of = np.flatnonzero(group == g)
            normal = norm.ppf((rankdata(self.population.column[of]) - 0.5) / of.size)
            mixed = CORRELATION * normal + math.sqrt(1.0 - CORRELATION**2) * rng.normal(size=of.size)
            found[of] = costs.quantile(norm.cdf(mixed))
        return found

    def purchases(
        self, prices: dict[str, tuple[PriceSchedule, ...]], sellers: np.ndarray, costs: np.ndarray
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield what each rule buys from sellers for exactly the money."""
        group = self.population.group[sellers]
        shares = [each.share for each in self.groups()]
        for name, schedules in prices.items():
            epsilons, payments = np.zeros(sellers.size), np.zeros(sellers.size)
            for g, schedule in enumerate(schedules):
                of = np.flatnonzero(group == g)
                epsilons[of], payments[of] = schedule.quote(costs[sellers[of]])
            epsilons *= self.money() / payments.sum()
            yield name, epsilons
            if name in ("no quotas", "one posted price"):
                yield f"{name}, re-weighted", rebalanced(epsilons, group, shares)

    def scores(self) -> tuple[Plan, dict[str, np.ndarray]]:
        """Return the plan, and for each rule overall and worst log loss and error of every split."""
        blind, found = self.plans()
        prices, x, y = self.schedules(blind, found), self.scaled(), self.positive()
        rest = self.pilot()[1]
        scores: dict[str, list[list[float]]] = {name: [] for name in RULES}
        shares = np.array([each.share for each in self.groups()])
        for split in range(SPLITS):
            rng = np.random.default_rng([17, split])
            order = rng.permutation(rest)
            sellers, test = order[: sum(self.sizes())], order[sum(self.sizes()) :]
            costs = self.costs_of_records(rng)
            for name, epsilons in self.purchases(prices, sellers, costs):
                model = PrivateLogisticRegression(classes=(False, True), noise_source=SeededNoise(split))
                model.fit(x[sellers], y[sellers], epsilons=epsilons)
                right = model.predict_proba(x[test])[np.arange(test.size), y[test].astype(int)]
                losses, errors = -np.log(np.maximum(right, 1e-12)), right < 0.5
                of = self.population.group[test]
                by_group = np.array([[losses[of == g].mean(), errors[of == g].mean()] for g in (0, 1)])
                scores[name].append([*(shares @ by_group), *by_group.max(axis=0)])
        return found, {name: np.array(each) for name, each in scores.items()}


SCORES = ("Log loss", "Error", "Log loss of the worst group", "Error of the worst group")


def named(setting: Setting) -> str:
    return f"{setting.population.name}; {setting.costs}, {setting.budget}"


def score_tables(results: list[tuple[Setting, Plan, dict[str, np.ndarray]]]) -> Iterator[Table]:
    """Return the means of each score, of all rules in all settings."""
    for k, title in enumerate(SCORES):
        rows = [
            [named(setting), *(f"{scores[rule][:, k].mean():.3f}" for rule in RULES)]
            for setting, _, scores in results
        ]
        yield Table(
            f"{title} at equal money, mean of {SPLITS} splits", ["groups; costs, budget", *RULES], rows
        )


def difference(first: np.ndarray, second: np.ndarray) -> str:
    """Return a mean paired difference with its standard error."""
    gaps = first - second
    return f"{gaps.mean():+.3f} ({gaps.std(ddof=1) / math.sqrt(gaps.size):.3f})"


def difference_table(results: list[tuple[Setting, Plan, dict[str, np.ndarray]]]) -> Table:
    """Return what quotas change, overall and for the worst group, with standard errors."""
    pairs = (("hard quotas", "no quotas"), ("soft quotas", "no quotas"), ("hard quotas", "one posted price"))
    rows = [
        [named(setting), *(difference(scores[a][:, k], scores[b][:, k]) for a, b in pairs for k in (0, 2))]
        for setting, _, scores in results
    ]
    head = ["hard - none", "worst group", "soft - none", "worst group", "hard - one price", "worst group"]
    return Table(
        "Paired differences of log loss (standard error); below 0 quotas are better",
        ["groups; costs, budget", *head],
        rows,
        "Of the first setting with a high budget the worst group's log loss is "
        f"{first_gain(results):.0%} lower with hard quotas than with one posted price.",
    )


def first_gain(results: list[tuple[Setting, Plan, dict[str, np.ndarray]]]) -> float:
    """Return by how much hard quotas lower the worst log loss in the first setting with much money."""
    scores = next(scores for setting, _, scores in results if setting.budget == "high")
    return float(1.0 - scores["hard quotas"][:, 2].mean() / scores["one posted price"][:, 2].mean())


def prediction_table(results: list[tuple[Setting, Plan, dict[str, np.ndarray]]]) -> Table:
    """Return what the plan says of hard quotas, from the pilot, and what came of them."""
    rows, right = [], 0
    for setting, found, scores in results:
        effect, measured = found.quota_effect or 0.0, scores["hard quotas"][:, 0] - scores["no quotas"][:, 0]
        is_right = (effect < 0.0) == (measured.mean() < 0.0)
        right += is_right
        rows.append(
            [named(setting), f"{found.group_difference or 0.0:.4f}", "gain" if effect < 0.0 else "cost",
             f"{effect:+.0%}", difference(scores["hard quotas"][:, 0], scores["no quotas"][:, 0]),
             "yes" if is_right else "no"]
        )  # fmt: skip
    return Table(
        "Does a plan foresee whether hard quotas gain or cost?",
        ["groups; costs, budget", "D", "plan says", "expected error", "log loss", "right"],
        rows,
        f"Right in {right} of {len(rows)} settings.",
    )


def tables() -> Iterator[Table]:
    results = []
    for make in POPULATIONS.values():
        population = make()
        for costs in COSTS:
            for budget in BUDGETS:
                setting = Setting(population, costs, budget)
                results.append((setting, *setting.scores()))
                print(named(setting), "done", flush=True)
    yield difference_table(results)
    yield prediction_table(results)
    yield from score_tables(results)


if __name__ == "__main__":
    write_tables(__file__, tables())
