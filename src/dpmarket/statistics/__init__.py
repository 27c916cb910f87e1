"""Private means, shares, histograms, quantiles and vector means, with an epsilon for each person."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
