"""What a budget buys: error bounds, plans, sweeps, tuning on public data, comparisons."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
