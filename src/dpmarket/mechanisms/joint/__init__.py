"""The data-dependent mechanism of the paper's appendix: weights, noise rate and model chosen together.

``problem`` is the objective at one total epsilon, ``newton`` and ``solvers`` minimise it, ``search`` finds
the best total epsilon, ``optimum`` joins them and re-solves for moved reports, ``payments`` pays,
``readings`` says how the noise enters, ``mechanism`` checks what callers pass and puts the outcome together.
Nothing here is certified private.
"""

from dpmarket.mechanisms.joint.mechanism import JointMarket, JointMechanism, RandomStarts
from dpmarket.mechanisms.joint.naive import naive_buyer
from dpmarket.mechanisms.joint.outcome import JointOutcome
from dpmarket.mechanisms.joint.payments import (
    EnvelopePayments,
    ExpectedPayments,
    PaymentRule,
    QuadraturePayments,
)
from dpmarket.mechanisms.joint.problem import InnerProblem
from dpmarket.mechanisms.joint.readings import AsPrinted, BoundedCoefficients, ExpectedNoise, Reading
from dpmarket.mechanisms.joint.solvers import (
    GreedySolver,
    InnerSolution,
    InnerSolver,
    PaperDescent,
    ReducedSolver,
)

__all__ = [
    "AsPrinted",
    "BoundedCoefficients",
    "EnvelopePayments",
    "ExpectedNoise",
    "ExpectedPayments",
    "GreedySolver",
    "InnerProblem",
    "InnerSolution",
    "InnerSolver",
    "JointMarket",
    "JointMechanism",
    "JointOutcome",
    "PaperDescent",
    "PaymentRule",
    "QuadraturePayments",
    "RandomStarts",
    "Reading",
    "ReducedSolver",
    "naive_buyer",
]
