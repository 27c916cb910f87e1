r"""Losses of linear models, described by what privacy accounting and training need to know.

Training minimises :math:`\sum_i a_i \ell(W x_i, y_i) + \langle b, W \rangle + \frac{\Lambda}{2} |W|^2` over
K rows of coefficients. A loss states K and the constants of :class:`Loss`; a noise
(:mod:`dpmarket.privacy.noise_norm`) states the rest, and :class:`~dpmarket.privacy.release.Release` joins
them. The derivative must be bounded and smooth: a corner (hinge, Huber) is rounded off, and a squared hinge
continues as a line. Two families implement the contract:

* :class:`SigmoidLoss`, K = 1: :math:`\ell' = \mathrm{scale} \cdot (\sigma(\mathrm{slope} \cdot z + shift_i)
  - target_i)`, shift and target affine in the label. :func:`logistic_loss`, :func:`hinge_loss`,
  :func:`quantile_loss` and :func:`log_cosh_loss` are members; a new member is one function. Certificates
  accept classifiers of scale 1 with the label as target, and regressions whose shift is ``(0, -slope)`` with
  ``scale`` 1 or ``4 / slope``: s times the loss is the same model as the penalty divided by s.
* :class:`Softmax`, one row of coefficients for each of K classes.

**Log-determinant terms.** Let t in [0, 1] be the length of :math:`\ell'` as a share of its reach. A record of
weight a with :math:`c = a R_2^2 / \Lambda` changes the log determinant of the Hessian by at most

.. math:: \sum_k m_k \log(1 + c\, g_k(t)), \qquad g_k(t) = p_k (1 - t) + q_k t + v_k t (1 - t),

with ``times`` m, ``start`` p, ``end`` q and ``bend`` v, all at least 0: each :math:`g_k` is concave.

*Sigmoid losses.* With targets in [low, high], far = max(high, 1 - low) and kappa = scale * slope, the target
at the far end gives :math:`1 - \sigma = far (1 - t)`, so that the curvature
:math:`\kappa \sigma (1 - \sigma)` is :math:`\kappa far (1 - t)(1 - far + far\, t)`: p = kappa far (1 - far),
q = 0, v = kappa far^2. Every other target and side has, at the same curvature, a point of the far target with
a larger t (mirror sigma at 1/2), so that the bound holds wherever the charge maximises over t.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput

_MOST_LABEL = 2.0**20
_UP = 1.0 + 2.0**-50


class Term(NamedTuple):
    """One log-determinant term ``times * log(1 + c (start (1 - t) + end t + bend t (1 - t)))``."""

    times: float
    start: float
    end: float
    bend: float


class Loss(ABC):
    r"""What an implementation must state: constants that hold for every record, and two derivatives.

    Without a delta, estimators accept :class:`SigmoidLoss` and :class:`Softmax` only: the rounding errors of
    their gradients are bounded (:mod:`dpmarket.learning.sums`).

    Norms of :math:`\ell'`, a vector with one entry per output, bound it for all labels and outputs. All
    constants are rounded up.

    Attributes
    ----------
    outputs, rank
        K, rows of coefficients; and the largest rank of the second derivative in the outputs.
    reach, reach_2
        S, the largest sum of absolute values of the first derivative; and its largest Euclidean norm.
    span
        How far another label alone moves the first derivative; None if it also moves the second.
    terms
        Log-determinant terms of one record.
    curvature, curvature_1
        The largest eigenvalue of the second derivative; and how far outputs that move by at most 1 each move
        the first derivative, as ``reach``.
    third, relative_third
        The largest nuclear norm of the second derivative's change while outputs move by at most 1 each; and
        M, so that such a change lies within plus and minus M times the second derivative.
    variance
        Usual variance of the first derivative, for planning.
    """

    outputs: int
    rank: int
    reach: float
    reach_2: float
    span: float | None
    terms: tuple[Term, ...]
    curvature: float
    curvature_1: float
    third: float
    relative_third: float
    variance: float

    @abstractmethod
    def derivatives(self, outputs: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the first derivative, shape (records, K)."""

    @abstractmethod
    def curvatures(self, outputs: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return d and v, each of shape (records, K): the second derivative is ``diag(d) - v v^T``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""

    def _state(self, **constants: Any) -> None:
        """Set constants of a frozen value."""
        for name, value in constants.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class SigmoidLoss(Loss):
    """A loss of one output whose derivative is ``scale * (sigmoid(slope * z + shift) - target)``.

    Parameters
    ----------
    scale, slope
        Above 0.
    shift, target
        Each a pair (constant, factor of the label).
    labels
        The least and the largest label; records outside are limited to them. Targets lie in [0, 1] there.

    Attributes
    ----------
    largest_shift
        Largest absolute value of a shift. All others are those of :class:`Loss`.

    Examples
    --------
    >>> loss = log_cosh_loss(0.5)
    >>> loss.reach, loss.terms[0]
    (0.5, Term(times=1.0, start=1.0, end=0.0, bend=1.0))
    """

    scale: float
    slope: float
    shift: tuple[float, float]
    target: tuple[float, float]
    labels: tuple[float, float]
    largest_shift: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("scale", "slope"):
            self._state(**{name: checks.strictly_between(name, getattr(self, name), 1e-6, 1e6)})
        for name in ("shift", "target", "labels"):
            pair = checks.finite_vector(name, getattr(self, name))
            if pair.size != 2:
                raise InvalidInput(f"expected {name} to be two numbers, got {pair.size}.")
            self._state(**{name: (float(pair[0]), float(pair[1]))})
        low, high = self.labels
        if not -_MOST_LABEL <= low <= high <= _MOST_LABEL:
            raise InvalidInput("expected labels to be (low, high) with low <= high, both within 2^20 of 0.")
        targets = [self.target[0] + self.target[1] * label for label in self.labels]
        if not 0.0 <= min(targets) <= max(targets) <= 1.0:
            raise InvalidInput("expected targets between 0 and 1 for every label.")
        largest_shift = max(abs(self.shift[0] + self.shift[1] * label) for label in self.labels) * _UP
        if not largest_shift <= 1e9:
            raise InvalidInput("expected shifts of at most 1e9; choose a larger width or narrower labels.")
        kappa, far = self.scale * self.slope, max(max(targets), 1.0 - min(targets))
        self._state(
            outputs=1,
            rank=1,
            reach=self.scale * far,
            reach_2=self.scale * far,
            # Where labels move the shift, they move the second derivative.
            span=self.scale * (max(targets) - min(targets)) * _UP if self.shift[1] == 0.0 else None,
            terms=(Term(1.0, kappa * far * (1.0 - far), 0.0, kappa * far * far),),
            curvature=kappa / 4.0,
            curvature_1=kappa / 4.0,
            third=kappa * self.slope / (6.0 * math.sqrt(3.0)) * _UP,
            relative_third=self.slope,
            variance=0.2 * self.scale**2,  # at w = 0 it is at most a quarter
            largest_shift=largest_shift,
        )

    @property
    def family(self) -> FloatArray:
        """Scale, slope, shift and target as the kernels take them, shape (6,)."""
        return np.array([self.scale, self.slope, *self.shift, *self.target])

    def derivatives(self, outputs: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the first derivative, shape (records, 1)."""
        limited = np.clip(labels, *self.labels)
        z = self.slope * outputs[:, 0]
        z += self.shift[0] if self.shift[1] == 0.0 else self.shift[0] + self.shift[1] * limited
        with np.errstate(over="ignore"):
            found = np.asarray(1.0 / (1.0 + np.exp(-z)))
        found -= self.target[0] + self.target[1] * limited
        found *= self.scale
        return found[:, None]

    def curvatures(self, outputs: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the second derivative and 0, each of shape (records, 1)."""
        limited = np.clip(labels, *self.labels)
        z = self.slope * outputs[:, 0] + (self.shift[0] + self.shift[1] * limited)
        found = np.asarray(self.scale * self.slope * expit(z) * expit(-z))[:, None]
        return found, np.zeros_like(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        pairs = {name: list(getattr(self, name)) for name in ("shift", "target", "labels")}
        return {"kind": "sigmoid", "scale": self.scale, "slope": self.slope, **pairs}


@dataclass(frozen=True)
class Softmax(Loss):
    r"""The softmax loss (cross-entropy) of K classes, labels numbered from 0.

    With p the probabilities and :math:`t = 1 - p_y`, :math:`|p - e_y|_1 = 2 t`; at a given t the
    determinant is largest where the wrong classes are equally likely.

    Parameters
    ----------
    outputs
        K, at least 2.

    Examples
    --------
    >>> Softmax(3).reach, Softmax(3).terms[0]
    (2.0, Term(times=1.0, start=0.0, end=0.0, bend=1.5))
    """

    outputs: int

    def __post_init__(self) -> None:
        classes = checks.whole("outputs", self.outputs, minimum=2)
        others = classes - 1.0
        # One term of the right class against the others, K - 2 among the others.
        first = Term(1.0, 0.0, 0.0, classes / others)
        terms = (first,) if others == 1.0 else (first, Term(others - 1.0, 0.0, 1.0 / others, 0.0))
        self._state(
            outputs=classes,
            rank=classes - 1,
            reach=2.0,
            reach_2=math.sqrt(2.0) * _UP,
            span=2.0,
            terms=terms,
            curvature=0.5,
            curvature_1=1.0,  # the mean absolute deviation of numbers in [-1, 1] is at most 1
            third=2.0 * (1.0 - 1.0 / classes) * _UP,
            relative_third=2.0,
            variance=1.0 - 1.0 / classes,  # of equal probabilities
        )

    def derivatives(self, outputs: FloatArray, labels: FloatArray) -> FloatArray:
        """Return probabilities less 1 for the right class, shape (records, K)."""
        found = _probabilities(outputs)
        found[np.arange(len(found)), labels.astype(np.intp)] -= 1.0
        return found

    def curvatures(self, outputs: FloatArray, labels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities twice: their covariance is ``diag(p) - p p^T``."""
        p = _probabilities(outputs)
        return p, p

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {"kind": "softmax", "classes": self.outputs}


def _probabilities(outputs: FloatArray) -> FloatArray:
    """Return softmax probabilities, shape (records, K): class by class, much faster than record by record."""
    scores = outputs.T
    found = np.exp(scores - scores.max(axis=0))
    found /= found.sum(axis=0)
    return np.asarray(found.T)


def logistic_loss() -> SigmoidLoss:
    """Return the logistic loss; labels from 0 to 1, fractions included (binomial regression).

    Returns
    -------
    SigmoidLoss

    Examples
    --------
    >>> logistic_loss().reach
    1.0
    """
    return SigmoidLoss(1.0, 1.0, (0.0, 0.0), (0.0, 1.0), (0.0, 1.0))


def hinge_loss(width: float = 0.5) -> SigmoidLoss:
    """Return the hinge loss of a support vector machine, its corner smoothed; labels 0 and 1.

    Parameters
    ----------
    width
        Width of the corner, in units of the margin, > 0.

    Returns
    -------
    SigmoidLoss

    Examples
    --------
    >>> hinge_loss(0.5).shift
    (2.0, -4.0)
    """
    tau = checks.positive("width", width)
    return SigmoidLoss(1.0, 1.0 / tau, (1.0 / tau, -2.0 / tau), (0.0, 1.0), (0.0, 1.0))


def quantile_loss(share: float, width: float = 0.1, label_bound: float = 2.0**10) -> SigmoidLoss:
    """Return the pinball loss of a quantile, its corner smoothed.

    Parameters
    ----------
    share, width
        Which share of labels lies below the quantile, strictly between 0 and 1; and the corner's width, in
        units of the label, > 0.
    label_bound
        Labels further from 0 count as that far.

    Returns
    -------
    SigmoidLoss

    Examples
    --------
    >>> quantile_loss(0.25).reach
    0.75
    """
    q = checks.strictly_between("share", share, 0.0, 1.0)
    tau = checks.positive("width", width)
    # The derivative in the output z of the loss of y - z: sigmoid((z - y) / width) - q.
    return SigmoidLoss(1.0, 1.0 / tau, (0.0, -1.0 / tau), (q, 0.0), (-label_bound, label_bound))


def log_cosh_loss(width: float, label_bound: float = 2.0**10) -> SigmoidLoss:
    """Return ``width**2 log cosh((z - y) / width)``: squares near 0, absolute values beyond ``width``.

    Parameters
    ----------
    width, label_bound
        Where errors start to count linearly, > 0; and where labels are cut off, in units of the label.

    Returns
    -------
    SigmoidLoss

    Examples
    --------
    >>> log_cosh_loss(0.5).reach
    0.5
    """
    tau = checks.positive("width", width)
    return SigmoidLoss(2.0 * tau, 2.0 / tau, (0.0, -2.0 / tau), (0.5, 0.0), (-label_bound, label_bound))


def loss_from(data: Any) -> SigmoidLoss | Softmax:
    """Return the loss that ``to_dict`` described; refuses anything else."""
    if isinstance(data, dict):
        rest = {name: value for name, value in data.items() if name != "kind"}
        if data.get("kind") == "softmax" and set(rest) == {"classes"}:
            return Softmax(rest["classes"])
        if data.get("kind") == "sigmoid" and set(rest) == {"scale", "slope", "shift", "target", "labels"}:
            return SigmoidLoss(**rest)
    raise InvalidInput("expected a loss: of the kind 'sigmoid' or 'softmax', with its constants only.")
