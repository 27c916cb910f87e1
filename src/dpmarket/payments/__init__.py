"""What people are paid: the payment identity for any allocation rule; the fast exact path."""

from dpmarket.payments.exact import Payments, exact_payments, response
from dpmarket.payments.identity import Payment, payment_identity

__all__ = ["Payment", "Payments", "exact_payments", "payment_identity", "response"]
