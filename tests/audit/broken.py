"""Mechanisms and learners with one mistake each, all of which somebody could make."""

from unittest.mock import patch

import numpy as np
from scipy.optimize import brentq

from dpmarket.audit import Claim
from dpmarket.costs import Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import exact
from dpmarket.mechanisms.cheapest_k import CheapestK
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import Objective
from dpmarket.mechanisms.price_schedule import CostBins, price_market
from dpmarket.privacy import NoiseNorm

from .plain import PlainLearner, release_of

DIST = Uniform(1, 5)
OBJECTIVE = Objective(0.2, 40.0, 1e-2)
OFFLINE = OfflineMechanism(DIST, OBJECTIVE)
QUADRATIC = EpsilonCost.identity(max_epsilon=8.0, shape="quadratic")

# ---------------------------------------------------------------- mechanisms


class WithoutRent:
    """Pays the reported cost of what is sold and nothing above it."""

    def respond(self, reported_costs, i, report):
        epsilon, _ = OFFLINE.respond(reported_costs, i, report)
        return epsilon, report * epsilon


class HalfOfTheRent:
    """Pays the reported cost and half of the integral above it."""

    def respond(self, reported_costs, i, report):
        epsilon, payment = OFFLINE.respond(reported_costs, i, report)
        return epsilon, 0.5 * (payment + report * epsilon)


class OneEntry:
    """Pays as if the total that is best for the truth stayed best whatever a seller reports."""

    def respond(self, reported_costs, i, report):
        kept = exact.largest_increase
        exact.largest_increase = lambda market: 0.0 * market.best().value
        try:
            return OFFLINE.respond(reported_costs, i, report)
        finally:
            exact.largest_increase = kept


class BudgetFromReports:
    """Truthful for every cutoff, but the cutoff makes payments for these very reports meet a budget."""

    def respond(self, reported_costs, i, report):
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        cutoff = brentq(lambda top: 0.5 * np.maximum(top**2 - reports**2, 0.0).sum() - 30.0, 0.0, 1e4)
        epsilon = max(cutoff - report, 0.0)
        return epsilon, 0.5 * epsilon * (cutoff + report)


class ScheduleFromOwnReport:
    """Computes a price schedule from all reports, the seller's own included, and pays by it."""

    def respond(self, reported_costs, i, report):
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        ordered = np.sort(reports[reports <= 5.0])
        bins = CostBins(OFFLINE.groups[0], ordered, np.ones(ordered.size))
        schedule = price_market([bins], OBJECTIVE, EpsilonCost.identity()).schedules[0]
        epsilons, payments = schedule.quote([report])
        return float(epsilons[0]), float(payments[0])


class KthPrice:
    """Buys from the cheapest k at the price of the last of them instead of the next one."""

    rule = CheapestK(3, 0.5, 5.0, OBJECTIVE)

    def respond(self, reported_costs, i, report):
        epsilon, payment = self.rule.respond(reported_costs, i, report)
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        return epsilon, min(payment, epsilon * float(np.sort(reports)[2]))


class RisingEpsilon:
    """Buys more from those who ask for more, at a price that covers their report."""

    def respond(self, reported_costs, i, report):
        epsilon = 0.1 * report if report <= 5.0 else 0.0
        return epsilon, report * epsilon


class LinearRentsForQuadraticCosts:
    """Pays for epsilon as if it cost c epsilon, where it costs c epsilon^2."""

    epsilon_cost = QUADRATIC

    def respond(self, reported_costs, i, report):
        return OFFLINE.respond(reported_costs, i, report)


class BonusBesideATie:
    """A posted price that pays a little more just below one report."""

    def respond(self, reported_costs, i, report):
        if report > 3.0:
            return 0.0, 0.0
        return 1.0, 3.0 + (0.01 if 2.5 - 1e-4 < report <= 2.5 else 0.0)


class QuotaFromReports:
    """Gives the group with the higher reports a larger share: quotas that follow reports."""

    def respond(self, reported_costs, i, report):
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        membership = np.arange(reports.size) % 2
        sums = np.bincount(membership, np.clip(reports, 0.5, 5.0))
        table = VirtualCost.of(DIST)
        groups = [
            Group(name, float(share), table) for name, share in zip("ab", sums / sums.sum(), strict=True)
        ]
        return OfflineMechanism(None, OBJECTIVE, groups=groups).respond(reports, i, report, membership)


WRONG = (
    WithoutRent, HalfOfTheRent, OneEntry, BudgetFromReports, ScheduleFromOwnReport, KthPrice,
    RisingEpsilon, LinearRentsForQuadraticCosts, QuotaFromReports,
)  # fmt: skip


# ---------------------------------------------------------------- learners


class LessNoiseThan(PlainLearner):
    """Uses a noise rate that is so many times what it should be."""

    def __init__(self, factor, l2, seed):
        super().__init__(l2, seed)
        self.factor = factor

    def noise_rate(self, noise_rate):
        return self.factor * noise_rate


class PenaltyForShortRows(PlainLearner):
    """Scales its penalty with the bound on rows, whereas the change of curvature grows with its square.

    Rows are given in units of that bound.
    """

    def __init__(self, bound, seed):
        super().__init__(0.25 / np.expm1(0.25) / bound, seed)

    def weights(self, x, signs, epsilons):
        return np.ones(signs.size), 0.5 * epsilons[0]


class LessNoise:
    """Draws noise of so many times the rate; what its models state is in order."""

    def __init__(self, factor, **settings):
        self.factor, self.settings = factor, settings

    def fit(self, X, y, epsilons):
        drawn = NoiseNorm.draw

        def draw(norm, stream, outputs, noise_rate, accuracy):
            return drawn(norm, stream, outputs, self.factor * noise_rate, accuracy)

        with patch.object(NoiseNorm, "draw", draw):
            return PrivateLogisticRegression(**self.settings).fit(X, y, epsilons=epsilons)


def without_slack(epsilons, l2):
    usable = epsilons - 1e-6
    return Claim(release_of(l2), usable / usable.sum(), float(usable.sum()))


def one_person_five_percent_over(epsilons, l2):
    weights, rate = release_of(l2).weights(epsilons)
    return Claim(release_of(l2), weights * [1.05, *[1.0] * (len(weights) - 1)], rate)
