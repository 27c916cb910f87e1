from .bounds import standard_bounds as standard_bounds
from .bundled import breast_cancer as breast_cancer
from .packaged import affairs as affairs
from .packaged import german_health as german_health
from .packaged import health_insurance as health_insurance
from .public_data import PublicData as PublicData
from .synthetic import logistic as logistic
from .synthetic import separable as separable
