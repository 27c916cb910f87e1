"""Privacy costs: distributions, the public table of virtual costs, fitting a pilot."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
