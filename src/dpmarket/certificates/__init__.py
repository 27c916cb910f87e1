"""Let an outsider check one purchase: commitments, a certificate, receipts, signatures, their verifier."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
