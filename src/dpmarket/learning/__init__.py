"""The private estimator, and public scaling.

:class:`~dpmarket.learning.estimator.PrivateLogisticRegression` keeps a promise to every person;
:class:`~dpmarket.learning.scaling.PublicScaler` brings features into its range without reading a bound from
the data. :func:`~dpmarket.learning.solver.minimise` is the minimiser underneath, with a proved accuracy.
"""

from dpmarket.learning.estimator import PrivateLogisticRegression
from dpmarket.learning.learner import Learner
from dpmarket.learning.rows import Rows
from dpmarket.learning.scaling import PublicScaler
from dpmarket.learning.solver import Minimum, minimise

__all__ = ["Learner", "Minimum", "PrivateLogisticRegression", "PublicScaler", "Rows", "minimise"]
