"""Private means, shares, histograms, quantiles and vector means: the same promises, no model.

Each is asked with public bounds or categories and fitted to records with one promise (epsilon) per person;
``release_`` is then the only thing to publish (:mod:`~dpmarket.statistics.released`), ``epsilons_`` what it
cost whom. All arithmetic between records and release is in whole numbers
(:mod:`~dpmarket.statistics.weights`, :mod:`~dpmarket.statistics.exact`), and intervals are computed from what
is public (:mod:`~dpmarket.statistics.intervals`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
