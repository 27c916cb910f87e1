from .many import SmallMarkets as SmallMarkets
from .objective import BuyerObjective as BuyerObjective
from .objective import max_epsilon as max_epsilon
from .result import Allocation as Allocation
from .result import LocalMinimum as LocalMinimum
from .simplex import project_to_capped_simplex as project_to_capped_simplex
from .solver import allocate as allocate
