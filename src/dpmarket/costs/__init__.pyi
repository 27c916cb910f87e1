from .distribution import CostDistribution as CostDistribution
from .distribution import Mixture as Mixture
from .distribution import Uniform as Uniform
from .fitting import Empirical as Empirical
from .fitting import fit_costs as fit_costs
from .text import parse_distribution as parse_distribution
from .virtual_cost import VirtualCost as VirtualCost
