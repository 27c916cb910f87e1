from .public_data import PublicData as PublicData
from .public_data import standard_bounds as standard_bounds
from .real import breast_cancer as breast_cancer
from .real import diabetes as diabetes
from .real import odd_digits as odd_digits
from .real import wine as wine
from .synthetic import logistic as logistic
from .synthetic import separable as separable
