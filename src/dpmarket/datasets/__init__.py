"""Public data: the only data that may be tuned or scored on.

:class:`PublicData` marks records as public by its type. :func:`breast_cancer` and others come with
scikit-learn, :func:`logistic` and :func:`separable` from a random generator. :func:`standard_bounds` turns a
public pilot into bounds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
