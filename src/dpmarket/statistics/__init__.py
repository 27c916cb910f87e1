"""Private means, shares, histograms, quantiles and vector means, with an epsilon for each person.

The contract and all that they share: :mod:`~dpmarket.statistics.statistic`; the five kinds:
:mod:`~dpmarket.statistics.kinds`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
