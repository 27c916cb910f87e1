"""What a budget buys: error bounds, plans, sweeps, tuning on public data, comparisons."""

from dpmarket.planning.bounds import (
    BoundConstants,
    ErrorBound,
    bound_constants,
    error_bound,
    excess_risk,
    paper_bound_constants,
    sharp_bound_constants,
)
from dpmarket.planning.budgets import (
    plan_payment_weight,
)
from dpmarket.planning.comparison import (
    Comparison,
    Standing,
    best_cheapest_k,
    best_posted_price,
    compare,
    standard_buyers,
)
from dpmarket.planning.plan import (
    Guarantee,
    Plan,
)
from dpmarket.planning.scoring import (
    Trial,
)
from dpmarket.planning.sweeps import (
    Sweep,
    SweepRow,
    at_budgets,
    at_payment_weights,
    sweep,
)
from dpmarket.planning.targets import (
    BudgetTable,
    budget_for_loss,
    plan_sellers,
    plan_target,
)
from dpmarket.planning.tuning import (
    Candidate,
    Tuning,
    tune,
)

__all__ = [
    "BoundConstants",
    "BudgetTable",
    "Candidate",
    "Comparison",
    "ErrorBound",
    "Guarantee",
    "Plan",
    "Standing",
    "Sweep",
    "SweepRow",
    "Trial",
    "Tuning",
    "at_budgets",
    "at_payment_weights",
    "best_cheapest_k",
    "best_posted_price",
    "bound_constants",
    "budget_for_loss",
    "compare",
    "error_bound",
    "excess_risk",
    "paper_bound_constants",
    "plan_payment_weight",
    "plan_sellers",
    "plan_target",
    "sharp_bound_constants",
    "standard_buyers",
    "sweep",
    "tune",
]
