"""Public data: the only data that may be tuned or scored on.

:class:`~dpmarket.datasets.public_data.PublicData` marks records as public by its type; the other modules make
such values: :func:`~dpmarket.datasets.bundled.breast_cancer` from a library's own copy,
:func:`~dpmarket.datasets.synthetic.separable` from a random generator.
"""

from dpmarket.datasets.bundled import breast_cancer
from dpmarket.datasets.public_data import PublicData
from dpmarket.datasets.synthetic import separable

__all__ = ["PublicData", "breast_cancer", "separable"]
