"""Every statement of the paper that can be measured, with the table and the rule that decide about it."""

from dpmarket.experiments.claims.hyperparameters import HYPERPARAMETER_CLAIMS
from dpmarket.experiments.claims.market import MARKET_CLAIMS
from dpmarket.experiments.claims.online import ONLINE_CLAIMS
from dpmarket.experiments.claims.payments import PAYMENT_CLAIMS
from dpmarket.experiments.claims.privacy import PRIVACY_CLAIMS
from dpmarket.experiments.claims.solving import SOLVING_CLAIMS
from dpmarket.experiments.claims.theory import THEORY_CLAIMS

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
