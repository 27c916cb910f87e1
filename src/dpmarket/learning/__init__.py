"""Private linear models, public scaling and encoding.

:mod:`~dpmarket.learning.linear` has classifiers and regressions with a privacy budget for every person;
:class:`~dpmarket.learning.scaling.PublicScaler` brings features into its range without reading a bound from
the data. :func:`~dpmarket.learning.minimiser.minimise` is the minimiser underneath, with a proved accuracy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
