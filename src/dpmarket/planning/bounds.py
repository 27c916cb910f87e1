r"""Turn an allocation into a bound on the model's error (the paper's theorem ``gen loss``).

For weights ``a`` that do not depend on the records and any coefficients ``w`` no longer than ``beta``,

.. math::
    P(\text{error}) \le \sum_i a_i \log_2(1 + e^{-y_i w \cdot x_i}) + b' \cdot w + \mu |a| + \sigma / \eta

except with probability ``delta + noise_delta``. The last two terms are the *excess risk*: all that an
allocation decides. The proof is in the documentation, "Planning a purchase".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import gammainccinv

from dpmarket import checks
from dpmarket.datasets import PublicData
from dpmarket.errors import InvalidInput

SCHEMA = "dpmarket.error-bound/1"
_LN2 = math.log(2.0)


class Prices(Protocol):
    """The prices of uneven weights and of noise: of a buyer's objective, or of a proved bound."""

    @property
    def concentration(self) -> float:
        """The paper's mu."""
        ...

    @property
    def noise(self) -> float:
        """The paper's sigma."""
        ...


@dataclass(frozen=True)
class BoundConstants:
    """Prices of uneven weights and of noise under which the error bound holds; unpacks to the two.

    Attributes
    ----------
    concentration, noise
        The paper's mu and sigma, in units of error.
    coef_radius
        The length that coefficients must not exceed (beta).
    delta, noise_delta
        The probabilities with which records and noise may break the bound.
    n_features
        Number of coefficients.
    row_bound
        The length that rows must not exceed.
    proved
        Whether the bound is known to hold with them; not so for those that the paper prints.
    """

    concentration: float
    noise: float
    coef_radius: float
    delta: float
    noise_delta: float
    n_features: int
    row_bound: float
    proved: bool = True

    def __iter__(self) -> Iterator[float]:
        return iter((self.concentration, self.noise))


def bound_constants(
    coef_radius: float, delta: float, noise_delta: float, n_features: int, row_bound: float = 1.0
) -> BoundConstants:
    r"""Return the corrected constants of the error bound.

    .. math::
        \mu = 3 \sqrt{\ln(2/\delta)/2}\, \log_2(1 + e^{\beta R}) + 2 \beta R / \ln 2, \qquad
        \sigma = \beta\, v^{-1}(\delta')

    where v(t) is the probability that the noise is longer than ``t/eta``. With the loss in bits.

    Parameters
    ----------
    coef_radius
        The length that coefficients must not exceed, above 0.
    delta, noise_delta
        Probabilities strictly between 0 and 1: that the records, or the noise, break the bound.
    n_features
        Number of coefficients, the constant's included if there is one.
    row_bound
        R, the length that rows must not exceed; the square root of 2 for rows of length 1 with a constant.

    Returns
    -------
    BoundConstants
        Also unpacks as ``concentration, noise``.

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Paper, theorem ``gen loss``, whose proof has four gaps: it compares an error with a natural logarithm
    (which is below 1 at margin 0), spends delta twice, loses the square root of the logarithm, and loses a
    factor of 2 before the Rademacher complexity. See :func:`paper_bound_constants` for its literal form and
    :func:`sharp_bound_constants` for what a shorter proof gives.

    Examples
    --------
    >>> concentration, noise = bound_constants(coef_radius=1.0, delta=0.05, noise_delta=0.05, n_features=3)
    >>> round(concentration, 3), round(noise, 3)
    (10.605, 12.592)
    """
    beta, d, quantile, n, bound = checked_constants(coef_radius, delta, noise_delta, n_features, row_bound)
    steepest = beta * bound
    mu = 3.0 * math.sqrt(math.log(2.0 / d) / 2.0) * _log_loss(steepest) / _LN2 + 2.0 * steepest / _LN2
    return BoundConstants(mu, beta * quantile, beta, d, float(noise_delta), n, bound)


def sharp_bound_constants(
    coef_radius: float, delta: float, noise_delta: float, n_features: int, row_bound: float = 1.0
) -> BoundConstants:
    r"""Return smaller constants under which the bound holds as well: a shorter proof loses less.

    .. math:: \mu = (2 + \sqrt{\ln(1/\delta)/2})\, \beta R / \ln 2, \qquad \sigma = \beta\, v^{-1}(\delta')

    A record moves the loss by no more than its range, ``beta R / ln 2`` bits, and the Rademacher complexity
    of linear functions has a bound that does not depend on the records, so that delta is spent once.

    Parameters
    ----------
    coef_radius, delta, noise_delta, n_features, row_bound
        As in :func:`bound_constants`.

    Returns
    -------
    BoundConstants
        Also unpacks as ``concentration, noise``.

    Raises
    ------
    InvalidInput
        For values outside their ranges.

    Examples
    --------
    >>> round(sharp_bound_constants(1.0, 0.05, 0.05, 3).concentration, 3)
    4.651
    """
    beta, d, quantile, n, bound = checked_constants(coef_radius, delta, noise_delta, n_features, row_bound)
    mu = (2.0 + math.sqrt(math.log(1.0 / d) / 2.0)) * beta * bound / _LN2
    return BoundConstants(mu, beta * quantile, beta, d, float(noise_delta), n, bound)


def excess_risk(loss_weights: object, noise_rate: float, prices: Prices) -> float:
    """Return ``concentration * |loss_weights| + noise / noise_rate``, what weights and noise cost in error.

    Parameters
    ----------
    loss_weights
        Weight of each record, at least 0, shape (m,): planned, or of a training.
    noise_rate
        The paper's eta, at least 0.
    prices
        A buyer's objective, or the constants of a bound. Other objectives than the buyer's own are allowed:
        this is how buyers are compared.

    Returns
    -------
    float
        Infinite if nothing was bought. It is a function of reported costs only, never of a record.

    Raises
    ------
    InvalidInput
        If weights or noise rate are negative or no numbers.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective, allocate
    >>> objective = BuyerObjective(1.0, 1.0, 0.01)
    >>> allocation = allocate([1.0, 1.0], objective)
    >>> round(excess_risk(allocation.loss_weights, allocation.total_promise, objective), 6)
    0.807107
    """
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    eta = checks.non_negative("noise_rate", noise_rate)
    if eta == 0.0:
        return math.inf
    return float(prices.concentration * np.linalg.norm(weights) + prices.noise / eta)


@dataclass(frozen=True)
class ErrorBound:
    """An upper bound on a model's error, part by part.

    Attributes
    ----------
    training_loss
        Weighted mean loss, in bits.
    noise_loss
        The product of noise and coefficients.
    concentration_part, noise_part
        The excess risk.
    probability
        With which the bound holds, at least.
    """

    training_loss: float
    noise_loss: float
    concentration_part: float
    noise_part: float
    probability: float

    @property
    def value(self) -> float:
        """The bound: the sum of its parts. Above 1 it says nothing."""
        return self.training_loss + self.noise_loss + self.concentration_part + self.noise_part

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        names = ("training_loss", "noise_loss", "concentration_part", "noise_part", "probability", "value")
        return {"schema": SCHEMA} | {name: getattr(self, name) for name in names}


def error_bound(
    data: PublicData,
    coefficients: object,
    loss_weights: object,
    noise_rate: float,
    constants: BoundConstants,
    noise: object,
) -> ErrorBound:
    """Return the bound on the error of a model that was trained on public records.

    The training loss and the noise tell about the records, so that the bound's value on private ones is a
    release that no promise covers: only public data are taken. For private records use
    :func:`excess_risk`, the part that no record decides.

    Parameters
    ----------
    data
        The training records, as the model saw them: rows no longer than the constants' ``row_bound``.
    coefficients
        Shape (features,), no longer than the constants' ``coef_radius``.
    loss_weights
        The weight of each record, 1 in sum.
    noise_rate
        The paper's eta, above 0.
    constants
        From :func:`bound_constants` or :func:`sharp_bound_constants`, with the loss in bits.
    noise
        The noise b' of the training objective, shape (features,); zeros for a model without noise.

    Returns
    -------
    ErrorBound
        Its ``value`` is the bound, its ``probability`` says how sure it is.

    Raises
    ------
    InvalidInput
        If the data are not public by type, shapes do not match, weights do not sum to 1 (to a billionth),
        rows or coefficients are longer than the constants assume, or the constants are the paper's, with
        which the bound can fail.

    Examples
    --------
    >>> data = PublicData([[0.5], [-1.0]], [1, 0], (0, 1), low=-1.0, high=1.0, name="two", source="made up")
    >>> constants = sharp_bound_constants(2.0, 0.1, 0.1, 1)
    >>> bound = error_bound(data, [2.0], [0.5, 0.5], 10.0, constants, noise=[0.0])
    >>> round(bound.training_loss, 4)
    0.3175
    """
    if not isinstance(data, PublicData):
        raise InvalidInput(
            f"expected PublicData, got {type(data).__name__}: "
            "the bound's value on private records is a release."
        )
    if not constants.proved:
        raise InvalidInput(
            "expected those of bound_constants or sharp_bound_constants, got those that the paper prints: "
            "the bound does not hold with the probability that they state."
        )
    w = checks.finite_vector("coefficients", coefficients)
    b = checks.finite_vector("noise", noise)
    if not (w.size == b.size == data.n_features == constants.n_features):
        raise InvalidInput(
            f"expected as many coefficients, noise components and constants' n_features as features "
            f"({data.n_features}), got {w.size}, {b.size} and {constants.n_features}."
        )
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    checks.same_length("loss_weights", weights, "data", data)
    if not abs(float(weights.sum()) - 1.0) <= 1e-9:
        raise InvalidInput("expected loss_weights that sum to 1, got others.")
    eta = checks.positive("noise_rate", noise_rate)
    tolerance = 1.0 + 1e-12
    if float(np.linalg.norm(w)) > constants.coef_radius * tolerance:
        raise InvalidInput("expected coefficients no longer than the constants' coef_radius.")
    if float(np.linalg.norm(data.features, axis=1).max()) > constants.row_bound * tolerance:
        raise InvalidInput("expected rows no longer than the constants' row_bound.")
    losses = np.logaddexp(0.0, -data.signs * (data.features @ w)) / _LN2
    return ErrorBound(
        training_loss=float(weights @ losses),
        noise_loss=float(b @ w),
        concentration_part=float(constants.concentration * np.linalg.norm(weights)),
        noise_part=constants.noise / eta,
        probability=1.0 - constants.delta - constants.noise_delta,
    )


def checked_constants(
    coef_radius: float, delta: float, noise_delta: float, n_features: int, row_bound: float
) -> tuple[float, float, float, int, float]:
    """Return checked beta and delta, v^-1(noise_delta), and the checked number and length of rows."""
    beta = checks.positive("coef_radius", coef_radius)
    d = checks.strictly_between("delta", delta, 0.0, 1.0)
    e = checks.strictly_between("noise_delta", noise_delta, 0.0, 1.0)
    n = checks.whole("n_features", n_features, minimum=1)
    return beta, d, 2.0 * float(gammainccinv(n, e)), n, checks.positive("row_bound", row_bound)


def _log_loss(margin: float) -> float:
    return float(np.logaddexp(0.0, margin))
