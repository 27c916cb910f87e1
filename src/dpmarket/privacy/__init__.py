"""What a weight costs in privacy, and the weights that keep given promises.

One record of weight ``a`` in a regularised logistic regression with noise in the objective costs its
owner a privacy loss that :func:`~dpmarket.privacy.accounting.privacy_loss` bounds tightly and rounds up.
:func:`~dpmarket.privacy.weights.weights_for` goes the other way, from promises to weights, and
:func:`~dpmarket.privacy.best.best_weights` picks among all weights that keep the promises.
:mod:`~dpmarket.privacy.exact_density` and :mod:`~dpmarket.privacy.worst_case` do not use the bound: they
compute the exact density of the released coefficients, and look for the data on which it leaks most.
"""

from dpmarket.privacy.accounting import paper_privacy_loss, privacy_loss
from dpmarket.privacy.best import BestWeights, best_weights
from dpmarket.privacy.exact_density import log_density, log_density_ratio
from dpmarket.privacy.noise import NoiseDraw, NoiseSource, SecureNoise, SeededNoise
from dpmarket.privacy.penalty import suggest_l2, suggest_stretch
from dpmarket.privacy.release import ReleasePlan, plan_release, release_cost
from dpmarket.privacy.weights import Weights, weights_for
from dpmarket.privacy.worst_case import WorstCase, closed_form_case, find_worst_case

__all__ = [
    "BestWeights",
    "NoiseDraw",
    "NoiseSource",
    "ReleasePlan",
    "SecureNoise",
    "SeededNoise",
    "Weights",
    "WorstCase",
    "best_weights",
    "closed_form_case",
    "find_worst_case",
    "log_density",
    "log_density_ratio",
    "paper_privacy_loss",
    "plan_release",
    "privacy_loss",
    "release_cost",
    "suggest_l2",
    "suggest_stretch",
    "weights_for",
]
