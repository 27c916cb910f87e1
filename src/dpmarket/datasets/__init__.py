"""Public data: the only data that may be tuned or scored on.

:class:`~dpmarket.datasets.public_data.PublicData` marks records as public by its type; the other modules make
such values: :func:`~dpmarket.datasets.bundled.breast_cancer` from a library's own copy,
:func:`~dpmarket.datasets.packaged.affairs`, :func:`~dpmarket.datasets.packaged.health_insurance` and
:func:`~dpmarket.datasets.packaged.german_health` from packages that the extra ``real-data`` installs,
:func:`~dpmarket.datasets.synthetic.separable` and :func:`~dpmarket.datasets.synthetic.logistic` from a random
generator. :func:`~dpmarket.datasets.bounds.standard_bounds` turns a public pilot into bounds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
