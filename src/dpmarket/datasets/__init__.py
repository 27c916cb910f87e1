"""Public data: the only data that may be tuned or scored on.

:class:`~dpmarket.datasets.public_data.PublicData` marks records as public by its type; the other modules make
such values: :func:`~dpmarket.datasets.bundled.breast_cancer` from a library's own copy,
:func:`~dpmarket.datasets.packaged.affairs`, :func:`~dpmarket.datasets.packaged.health_insurance` and
:func:`~dpmarket.datasets.packaged.german_health` from packages that the extra ``real-data`` installs,
:func:`~dpmarket.datasets.synthetic.separable` and :func:`~dpmarket.datasets.synthetic.logistic` from a random
generator. :func:`~dpmarket.datasets.bounds.standard_bounds` turns a public pilot into bounds.
"""

from dpmarket.datasets.bounds import (
    standard_bounds,
)
from dpmarket.datasets.bundled import (
    breast_cancer,
)
from dpmarket.datasets.packaged import (
    affairs,
    german_health,
    health_insurance,
)
from dpmarket.datasets.public_data import (
    PublicData,
)
from dpmarket.datasets.synthetic import (
    logistic,
    separable,
)

__all__ = [
    "PublicData",
    "affairs",
    "breast_cancer",
    "german_health",
    "health_insurance",
    "logistic",
    "separable",
    "standard_bounds",
]
