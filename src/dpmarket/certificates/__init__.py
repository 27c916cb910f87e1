"""Let an outsider check one purchase: commitments, a certificate, receipts, signatures, and their verifier.

:func:`certify` makes a certificate from an outcome and a model. :mod:`~dpmarket.certificates.verifier` checks
it with code of its own; the folder runs when it is copied away, with Python alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
