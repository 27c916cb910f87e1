from .exact import Payments as Payments
from .exact import exact_payments as exact_payments
from .exact import response as response
from .identity import Payment as Payment
from .identity import payment_identity as payment_identity
