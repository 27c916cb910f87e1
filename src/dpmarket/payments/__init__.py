"""What people are paid: the payment identity for any allocation rule; the fast exact path."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
