"""The private estimator, public scaling, and reference learners to compare with.

:class:`~dpmarket.learning.estimator.PrivateLogisticRegression` keeps a promise to every person;
:class:`~dpmarket.learning.scaling.PublicScaler` brings features into its range without reading a bound from
the data. :func:`~dpmarket.learning.minimiser.minimise` is the minimiser underneath, with a proved accuracy.
:mod:`~dpmarket.learning.reference` has other ways to keep the same promises, to compare with.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
