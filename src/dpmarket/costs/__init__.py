"""What privacy costs people: distributions, virtual costs, ironing, fitting from a pilot."""

from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.empirical import Empirical, PiecewiseLinear
from dpmarket.costs.fitting import CostFit, FittedCandidate, fit_costs
from dpmarket.costs.from_scipy import FromScipy
from dpmarket.costs.ironed import IronedDistribution
from dpmarket.costs.ironing import IronedInterval
from dpmarket.costs.mixture import Mixture
from dpmarket.costs.text import distribution_from_dict, parse_distribution
from dpmarket.costs.uniform import Uniform
from dpmarket.costs.virtual import largest_cost_at, virtual_cost_density, virtual_costs

__all__ = [
    "CostDistribution",
    "CostFit",
    "Empirical",
    "FittedCandidate",
    "FromScipy",
    "IronedDistribution",
    "IronedInterval",
    "Mixture",
    "PiecewiseLinear",
    "Uniform",
    "distribution_from_dict",
    "fit_costs",
    "largest_cost_at",
    "parse_distribution",
    "virtual_cost_density",
    "virtual_costs",
]
