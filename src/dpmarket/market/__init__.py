"""Run a live market as a library: campaigns, people, quotes, sealed records, training, payouts; no HTTP."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
