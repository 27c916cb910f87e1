"""The private estimator, public scaling, and reference learners to compare with.

:class:`~dpmarket.learning.estimator.PrivateLogisticRegression` keeps a promise to every person;
:class:`~dpmarket.learning.scaling.PublicScaler` brings features into its range without reading a bound from
the data. :func:`~dpmarket.learning.solver.minimise` is the minimiser underneath, with a proved accuracy.
:class:`~dpmarket.learning.smallest_epsilon.SmallestEpsilon`,
:class:`~dpmarket.learning.threshold.LargeEpsilonsOnly`,
:class:`~dpmarket.learning.sampling.PersonalisedSampling` and
:class:`~dpmarket.learning.output_perturbation.OutputPerturbation` are other ways to keep the same promises.
"""

from dpmarket.learning.estimator import (
    PrivateLogisticRegression,
)
from dpmarket.learning.learner import (
    Learner,
)
from dpmarket.learning.output_perturbation import (
    OutputPerturbation,
)
from dpmarket.learning.rows import (
    Rows,
)
from dpmarket.learning.sampling import (
    PersonalisedSampling,
)
from dpmarket.learning.scaling import (
    PublicScaler,
)
from dpmarket.learning.smallest_epsilon import (
    SmallestEpsilon,
)
from dpmarket.learning.solver import (
    Minimum,
    minimise,
)
from dpmarket.learning.threshold import (
    LargeEpsilonsOnly,
    best_threshold,
)

__all__ = [
    "LargeEpsilonsOnly",
    "Learner",
    "Minimum",
    "OutputPerturbation",
    "PersonalisedSampling",
    "PrivateLogisticRegression",
    "PublicScaler",
    "Rows",
    "SmallestEpsilon",
    "best_threshold",
    "minimise",
]
