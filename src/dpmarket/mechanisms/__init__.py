"""Mechanisms that turn reported costs into promises and payments; one Outcome type, one protocol."""

from dpmarket.mechanisms.curve_choice import paper_curve, population_curve
from dpmarket.mechanisms.curves import Curve, Offers
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
from dpmarket.mechanisms.online import OnlineMechanism
from dpmarket.mechanisms.outcome import MinorUnits, Outcome
from dpmarket.mechanisms.protocol import Mechanism, Response
from dpmarket.mechanisms.quotes import Menu, Quote, Quotes
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "Curve",
from dpmarket.mechanisms.simple import CheapestK, PostedPrice, SameForAll
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "CheapestK",
from dpmarket.mechanisms.protocol import BatchMechanism, Mechanism, Response
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "BatchMechanism",
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
    "Menu",
    "MinorUnits",
    "Offers",
    "OfflineMechanism",
    "OnlineMechanism",
    "Outcome",
    "Quote",
    "Quotes",
    "Response",
    "ResponseCurve",
    "paper_curve",
    "population_curve",
    "PostedPrice",
    "Response",
    "ResponseCurve",
    "SameForAll",
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
