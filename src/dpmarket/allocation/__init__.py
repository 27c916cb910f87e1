"""Who gives how much privacy: the buyer's problem, its exact solution and the proof of optimality."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
