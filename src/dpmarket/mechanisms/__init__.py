"""Mechanisms that turn reported costs into promises and payments; one Outcome type, one protocol."""

from dpmarket.mechanisms.joint import (
    AsPrinted,
    BoundedCoefficients,
    EnvelopePayments,
    ExpectedNoise,
    ExpectedPayments,
    GreedySolver,
    JointMarket,
    JointMechanism,
    JointOutcome,
    PaperDescent,
    QuadraturePayments,
    RandomStarts,
    ReducedSolver,
    naive_buyer,
)
from dpmarket.mechanisms.offline import OfflineMechanism, ResponseCurve
from dpmarket.mechanisms.outcome import MinorUnits, Outcome
from dpmarket.mechanisms.protocol import Mechanism, Response
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "AsPrinted",
    "BoundedCoefficients",
    "EnvelopePayments",
    "ExpectedNoise",
    "ExpectedPayments",
    "GreedySolver",
    "JointMarket",
    "JointMechanism",
    "JointOutcome",
    "Mechanism",
    "MinorUnits",
    "OfflineMechanism",
    "Outcome",
    "PaperDescent",
    "QuadraturePayments",
    "RandomStarts",
    "ReducedSolver",
    "Response",
    "ResponseCurve",
    "naive_buyer",
    "read_outcome",
    "write_outcome",
]
