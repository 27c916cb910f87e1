"""What people are paid: the payment identity for any allocation rule; the fast exact path."""

from dpmarket.payments.identity import Payment, payment_identity

__all__ = ["Payment", "payment_identity"]
