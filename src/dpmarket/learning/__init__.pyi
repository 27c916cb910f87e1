from . import reference as reference
from .estimator import PrivateLogisticRegression as PrivateLogisticRegression
from .learner import Learner as Learner
from .rows import Rows as Rows
from .scaling import PublicScaler as PublicScaler
from .solver import Minimum as Minimum
from .solver import minimise as minimise
