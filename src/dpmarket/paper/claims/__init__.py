"""Every statement of the paper that can be measured, with the table and the rule that decide about it."""

from dpmarket.paper.claims.budget import BUDGET_CLAIMS
from dpmarket.paper.claims.hyperparameters import HYPERPARAMETER_CLAIMS
from dpmarket.paper.claims.market import MARKET_CLAIMS
from dpmarket.paper.claims.mechanism import MECHANISM_CLAIMS
from dpmarket.paper.claims.online import ONLINE_CLAIMS
from dpmarket.paper.claims.payments import PAYMENT_CLAIMS
from dpmarket.paper.claims.privacy import PRIVACY_CLAIMS
from dpmarket.paper.claims.rates import RATE_CLAIMS
from dpmarket.paper.claims.searching import SEARCHING_CLAIMS
from dpmarket.paper.claims.solving import SOLVING_CLAIMS
from dpmarket.paper.claims.theory import THEORY_CLAIMS

CLAIMS = (
    *MARKET_CLAIMS,
    *BUDGET_CLAIMS,
    *ONLINE_CLAIMS,
    *RATE_CLAIMS,
    *HYPERPARAMETER_CLAIMS,
    *THEORY_CLAIMS,
    *MECHANISM_CLAIMS,
    *PAYMENT_CLAIMS,
    *PRIVACY_CLAIMS,
    *SOLVING_CLAIMS,
    *SEARCHING_CLAIMS,
)

__all__ = ["CLAIMS"]
