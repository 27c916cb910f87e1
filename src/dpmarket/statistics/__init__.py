"""Private means, shares, histograms, quantiles and vector means, with an epsilon for each person.

A statistic is described by public bounds or categories and released by ``fit``. Its contract and all that the
five share stand in :mod:`~dpmarket.statistics.statistic`; each kind is a file that says what one person can
change, which noise covers that, and which interval follows. All arithmetic between the records and the
release is in whole numbers (:mod:`~dpmarket.statistics.sample`, :mod:`~dpmarket.statistics.exact`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
