"""Every statement of the paper that can be measured, with the table and the rule that decide about it."""

from dpmarket.paper.claims.hyperparameters import HYPERPARAMETER_CLAIMS
from dpmarket.paper.claims.market import MARKET_CLAIMS
from dpmarket.paper.claims.online import ONLINE_CLAIMS
from dpmarket.paper.claims.payments import PAYMENT_CLAIMS
from dpmarket.paper.claims.privacy import PRIVACY_CLAIMS
from dpmarket.paper.claims.solving import SOLVING_CLAIMS
from dpmarket.paper.claims.theory import THEORY_CLAIMS

CLAIMS = (
    *MARKET_CLAIMS,
    *ONLINE_CLAIMS,
    *HYPERPARAMETER_CLAIMS,
    *SOLVING_CLAIMS,
    *THEORY_CLAIMS,
    *PAYMENT_CLAIMS,
    *PRIVACY_CLAIMS,
)

__all__ = ["CLAIMS"]
