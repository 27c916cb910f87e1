"""Public data: the only data that may be tuned or scored on.

:class:`PublicData` and :class:`PublicTable` mark records as public by their type. :func:`breast_cancer` and
others come with libraries, :func:`affairs` and others with packages that the extra ``real-data`` installs,
:func:`logistic`, :func:`separable` and :func:`census` from a random generator. :func:`standard_bounds` turns
a public pilot into bounds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
