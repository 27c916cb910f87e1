"""Mechanisms that turn reported costs into promises and payments; one Outcome type, one protocol."""

from dpmarket.mechanisms.adaptive import (
    AdaptiveMechanism,
)
from dpmarket.mechanisms.curve_choice import (
    paper_curve,
    population_curve,
)
from dpmarket.mechanisms.curves import (
    Curve,
    Offers,
)
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
from dpmarket.mechanisms.offline import (
    OfflineMechanism,
    ResponseCurve,
)
from dpmarket.mechanisms.online import (
    OnlineMechanism,
)
from dpmarket.mechanisms.outcome import (
    MinorUnits,
    Outcome,
)
from dpmarket.mechanisms.protocol import (
    BatchMechanism,
    Mechanism,
    Response,
)
from dpmarket.mechanisms.quotes import (
    Menu,
    Quote,
    Quotes,
)
from dpmarket.mechanisms.refitting import (
    keep_prior,
    refit,
)
from dpmarket.mechanisms.replanning import (
    Bought,
    plan_curve,
)
from dpmarket.mechanisms.simple import (
    CheapestK,
    PostedPrice,
    SameForAll,
)
from dpmarket.mechanisms.storage import (
    read_market_state,
    read_outcome,
    write_market_state,
    write_outcome,
)

__all__ = [
    "AdaptiveMechanism",
    "AsPrinted",
    "BatchMechanism",
    "Bought",
    "BoundedCoefficients",
    "CheapestK",
    "Curve",
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
    "PaperDescent",
    "PostedPrice",
    "QuadraturePayments",
    "Quote",
    "Quotes",
    "RandomStarts",
    "ReducedSolver",
    "Response",
    "ResponseCurve",
    "SameForAll",
    "keep_prior",
    "naive_buyer",
    "paper_curve",
    "plan_curve",
    "population_curve",
    "read_market_state",
    "read_outcome",
    "refit",
    "write_market_state",
    "write_outcome",
]
