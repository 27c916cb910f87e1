"""Mechanisms that turn reported costs into promises and payments; one Outcome type, one protocol."""

from dpmarket.mechanisms.offline import OfflineMechanism, ResponseCurve
from dpmarket.mechanisms.outcome import MinorUnits, Outcome
from dpmarket.mechanisms.protocol import BatchMechanism, Mechanism, Response
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "BatchMechanism",
from dpmarket.mechanisms.protocol import Mechanism, Response
from dpmarket.mechanisms.simple import CheapestK, PostedPrice, SameForAll
from dpmarket.mechanisms.storage import read_outcome, write_outcome

__all__ = [
    "CheapestK",
    "Mechanism",
    "MinorUnits",
    "OfflineMechanism",
    "Outcome",
    "PostedPrice",
    "Response",
    "ResponseCurve",
    "SameForAll",
    "read_outcome",
    "write_outcome",
]
