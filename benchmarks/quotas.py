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
    "no quotas, re-weighted",
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
        low, high = standard_bounds(data.take(self.pilot()[0]))
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
            if name == "no quotas":
                yield f"{name}, re-weighted", rebalanced(epsilons, group, shares)

    def scores(self) -> tuple[Plan, dict[str, np.ndarray]]:
        """Return the plan, and for each rule the log loss of every split, overall and of the worst group."""
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
                losses, of = -np.log(np.maximum(right, 1e-12)), self.population.group[test]
                by_group = np.array([losses[of == g].mean() for g in (0, 1)])
                scores[name].append([shares @ by_group, by_group.max()])
        return found, {name: np.array(each) for name, each in scores.items()}


def named(setting: Setting) -> str:
    return f"{setting.population.name}; {setting.costs}, {setting.budget}"


def difference(first: np.ndarray, second: np.ndarray) -> str:
    """Return a mean paired difference with its standard error."""
    gaps = first - second
    return f"{gaps.mean():+.3f} ({gaps.std(ddof=1) / math.sqrt(gaps.size):.3f})"


Results = list[tuple[Setting, Plan, dict[str, np.ndarray]]]


def difference_table(results: Results) -> Table:
    """Return what quotas change in log loss, with standard errors, and what the plan said of hard quotas."""
    rows, right = [], 0
    for setting, found, scores in results:
        hard, soft, without = (scores[f"{kind} quotas"][:, 0] for kind in ("hard", "soft", "no"))
        effect = found.quota_effect or 0.0
        right += bool((effect < 0.0) == ((hard - without).mean() < 0.0))
        rows.append([named(setting), difference(hard, without), difference(soft, without), f"{effect:+.0%}"])
    return Table(
        "Paired differences of log loss (standard error), below 0 where quotas are better, "
        "and the change of expected error that the plan foresees",
        ["groups; costs, budget", "hard - none", "soft - none", "plan for hard"],
        rows,
        f"Whether hard quotas gain or cost was foreseen in {right} of {len(rows)} settings.",
    )


def worst_group_table(results: Results) -> Table:
    """Return the mean log loss of the worst group, of all rules, with much money."""
    rows = [
        [named(setting), *(f"{scores[rule][:, 1].mean():.3f}" for rule in RULES)]
        for setting, _, scores in results
        if setting.budget == "high"
    ]
    title = f"Log loss of the worst group at equal money, high budget, mean of {SPLITS} splits"
    return Table(title, ["groups; costs, budget", *RULES], rows)


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
    yield worst_group_table(results)


if __name__ == "__main__":
    write_tables(__file__, tables())
