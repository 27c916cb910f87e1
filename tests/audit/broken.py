"""Mechanisms and learners with one mistake each, all of which somebody could make."""

import numpy as np
import pytest
from scipy.optimize import brentq

from dpmarket import BuyerObjective, OfflineMechanism, Uniform, virtual_costs, weights_for
from dpmarket.allocation import allocate
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import Response
from dpmarket.privacy import NoiseDraw, SecureNoise, Weights

from .plain import PlainLearner

# ---------------------------------------------------------------- mechanisms


class WithoutIntegral:
    """Pays what was reported and nothing above it."""

    def __init__(self, mechanism):
        self.mechanism = mechanism

    def respond(self, reported_costs, i, report):
        epsilon, _ = self.mechanism.respond(reported_costs, i, report)
        return Response(epsilon, report * epsilon)


class LocalMinimum:
    """Follows the minimum it started from while the report rises, even where another has become global.

    The promises are right; the integral in the payment is not, between the report at which the global minimum
    changes and the one at which the old minimum disappears.
    """

    def __init__(self, mechanism):
        self.mechanism = mechanism

    def minima(self, reported_costs, i, report):
        """Return the seller's epsilon at the minimum with the largest total, and at the global one."""
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        psi = virtual_costs(reports, self.mechanism.dist)
        best = allocate(psi, self.mechanism.objective)
        first = best.local_minima[0]
        weight = np.clip((first.cutoff - psi[i]) / first.spread, 0.0, best.max_weight)
        return float(weight * first.total_promise), float(best.epsilons[i])

    def respond(self, reported_costs, i, report):
        epsilon, payment = self.mechanism.respond(reported_costs, i, report)
        first, best = self.minima(reported_costs, i, report)
        if first == pytest.approx(best, rel=1e-9):
            higher = report + np.linspace(0.0, 3e-3, 61)
            extra = [np.subtract(*self.minima(reported_costs, i, z)) for z in higher]
            payment += float(np.trapezoid(extra, higher))
        return Response(epsilon, payment)


class BudgetFromReports:
    """Adjusts the payment weight until the payments for these very reports meet a budget."""

    def __init__(self, dist, budget, **settings):
        self.dist, self.budget, self.settings = dist, budget, settings

    def mechanism(self, payment_weight):
        objective = BuyerObjective(1.0, 1.0, payment_weight, **self.settings)
        return OfflineMechanism(self.dist, objective)

    def respond(self, reported_costs, i, report):
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report

        def overspent(payment_weight):
            return self.mechanism(payment_weight).run(reports).total_payment - self.budget

        return self.mechanism(brentq(overspent, 0.5, 50.0, rtol=1e-5)).respond(reports, i, report)


class CurveFromOwnReport:
    """Fits the upper end of a linear curve to all reports, the seller's own included, and pays by it."""

    def respond(self, reported_costs, i, report):
        reports = np.array(reported_costs, dtype=float)
        reports[i] = report
        top = 1.2 * reports.mean()
        epsilon = max(top - report, 0.0)
        return Response(epsilon, report * epsilon + 0.5 * epsilon**2)


# ---------------------------------------------------------------- learners


class BalancedWeights(PlainLearner):
    """Weighs both classes alike, as the labels happen to be: weights from the data."""

    def weights(self, x, signs, epsilons):
        weights, noise_rate = weights_for(epsilons, self.l2)
        counts = np.where(signs > 0.0, (signs > 0.0).sum(), (signs < 0.0).sum())
        balanced = weights / counts
        return balanced / balanced.sum(), noise_rate


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
    """A noise source of so many times the rate; it says that it is in order."""

    certifiable = True

    def __init__(self, factor):
        self.factor = factor

    def draw(self, n_coefficients, noise_rate, accuracy) -> NoiseDraw:
        return SecureNoise().draw(n_coefficients, self.factor * noise_rate, accuracy)


class Prepared:
    """The project's estimator with weights that somebody else computed, wrongly."""

    def __init__(self, l2, weights):
        self.l2, self.weights = l2, weights

    def fit(self, X, y, epsilons):
        model = PrivateLogisticRegression(classes=(0, 1), fit_intercept=False)
        return model.fit(X, y, epsilons=self.weights(np.asarray(epsilons), self.l2))


def without_slack(epsilons, l2):
    usable = epsilons - 1e-6
    return Weights(usable / usable.sum(), float(usable.sum()), l2, numerical_epsilon=1e-6)


def one_person_five_percent_over(epsilons, l2):
    right = weights_for(epsilons, l2, numerical_epsilon=1e-6)
    weights = right.loss_weights.copy()
    weights[0] *= 1.05
    return Weights(weights, right.noise_rate, l2, numerical_epsilon=1e-6)


PAPER_EXAMPLE = BudgetFromReports(Uniform(0, 1), 0.3, weight_cap=1.8)
