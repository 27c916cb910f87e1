"""Fit an estimator to records that lie elsewhere: weights from one sum, noise here, sums over rows there.

The numbers are those of :meth:`~dpmarket.learning.estimator.PrivateLogisticRegression.fit` on all records
together: penalty, noise rate and release plan are the same floats, because every sum over people is rounded
once, and the released point is the same wherever both proofs leave one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning.by_passes import Looks, RemoteProblem, Sizes
from dpmarket.learning.estimator import PrivateLogisticRegression
from dpmarket.learning.geometry import Geometry
from dpmarket.learning.labels import read_classes
from dpmarket.learning.problem import Problem
from dpmarket.learning.rows import Rows
from dpmarket.learning.solver import check_attainable, minimise
from dpmarket.privacy import NoiseShape, Weights
from dpmarket.privacy.noise import SecureNoise
from dpmarket.privacy.promise_curve import PromiseCurve
from dpmarket.privacy.release import round_to_grid
from dpmarket.privacy.weights import Shares, share_without_slack

_CHUNK = 64
_SAMPLE = 8192


class RemoteRecords(Protocol):
    """Records that lie elsewhere, already checked and scaled.

    ``records``, ``features``, ``parts``: how many rows, columns and parts there are.
    """

    records: int
    features: int
    parts: int

    def usable_total(self, reserve: float) -> float:
        """Return the sum over people of what is left of promises, rounded once."""
        ...

    def weight_total(self, shares: Shares) -> float:
        """Return the sum of people's weights, rounded once."""
        ...

    def sample(self, count: int, shares: Shares, *, constant: bool) -> Rows:
        """Return about so many rows with their weights."""
        ...

    def looks(self, shares: Shares, unit: float, *, constant: bool) -> Looks:
        """Return what adds up kernels over all rows, scaled by ``unit``."""
        ...


def check_fit_for_remote(estimator: PrivateLogisticRegression) -> None:
    """Refuse what is not computed by passes over records.

    Raises
    ------
    InvalidInput
        More than two classes, classes that are not declared, or a delta.
    """
    if estimator.classes is None or len(read_classes(estimator.classes, None)) != 2:
        raise InvalidInput(
            "expected two declared classes: models of more labels are trained on one file, in memory."
        )
    if estimator.delta is not None:
        raise InvalidInput("expected delta to be None: models with a delta are trained in memory.")
    estimator._settings()


def geometry_for_remote(
    estimator: PrivateLogisticRegression, features: int, shape: NoiseShape | None
) -> Geometry:
    """Return what is public about rows of so many features."""
    found: Geometry = estimator._geometry(features, shape, 2)
    return found


def fit_remotely(
    estimator: PrivateLogisticRegression, records: RemoteRecords, shape: NoiseShape | None = None
) -> Shares:
    """Fit an estimator to records that lie elsewhere; return how promises became weights.

    Attributes per person (``epsilons_``, ``loss_weights_``, ``people_``) are not set: they would be as long
    as there are people.

    Parameters
    ----------
    estimator
        With declared classes; fitted in place.
    records
        Checked and scaled already.
    shape
        The norm in which their rows are at most 1 long; None for the Euclidean one.

    Raises
    ------
    InvalidInput
        As :func:`check_fit_for_remote`, or nobody was promised more than what is set aside.
    Infeasible
        The penalty is too small for weights in proportion to promises, or for the numbers to be computed.

    Notes
    -----
    Guaranteed: everything is refused before noise is drawn, as in memory; noise is drawn here and nowhere
    else.
    """
    check_fit_for_remote(estimator)
    source = estimator._settings()
    geometry = geometry_for_remote(estimator, records.features, shape)
    geometry.check_source(source)
    shares, weights = _weights(estimator, geometry, records)
    plan = geometry.plan(weights)
    constant = bool(estimator.fit_intercept)
    count = max(_SAMPLE, 100 * geometry.n_coefficients)
    start_problem = geometry.problem(records.sample(count, shares, constant=constant), weights, plan)
    sizes = Sizes(
        geometry.n_coefficients,
        records.records + _CHUNK * records.parts,
        float(weights.loss_weights[0]) * (1.0 + records.records * 2.0**-52),
    )
    _check_attainable(sizes, start_problem, geometry.largest_noise(weights.noise_rate))
    high, low = geometry.noise(source, weights.noise_rate, plan.noise_accuracy)
    unit = start_problem.unit
    problem = RemoteProblem(
        sizes,
        start_problem.l2,
        high * unit,
        low * unit,
        start_problem.row_bound,
        start_problem.gradient_bound,
    )
    looks = records.looks(shares, unit, constant=constant)
    minimum = problem.minimise(looks, _start(start_problem, problem))
    cells = round_to_grid(minimum.high * unit, minimum.low * unit, plan.grid)
    stretch = estimator._stretch(weights, geometry, prepared=False)
    estimator._release(cells, plan, weights, geometry, stretch)
    del estimator.loss_weights_
    estimator.n_features_in_ = records.features
    estimator.delta_ = 0.0
    estimator.classes_ = read_classes(estimator.classes, None)
    estimator.certifiable_ = isinstance(source, SecureNoise) and bool(source.certifiable)
    return shares


def _weights(
    estimator: PrivateLogisticRegression, geometry: Geometry, records: RemoteRecords
) -> tuple[Shares, Weights]:
    """Return how promises become weights, and everybody's weight as that of one person: public sums."""
    reserve = float(estimator.numerical_epsilon)
    total = records.usable_total(reserve)
    if not total > 0.0:
        raise InvalidInput(
            f"expected at least one promise above {reserve!r}, which is set aside; found none."
        )
    rows = min(int(estimator.rows_per_person), geometry.n_coefficients)
    l2 = estimator.l2
    if l2 is None:
        l2 = geometry.suggested_l2(np.array([total]), int(estimator.rows_per_person))
    curve = PromiseCurve(float(l2), geometry.row_bound, rows, geometry.euclidean_bound)
    share = share_without_slack(total, curve)
    if share is None:
        raise Infeasible(
            f"expected l2 >= {geometry.least_l2(total):.6g} for weights in proportion to promises, got "
            f"{l2!r}: with a smaller one train in memory."
        )
    shares = Shares(reserve, share)
    together = np.array([records.weight_total(shares)])
    return shares, Weights(
        together, total / geometry.row_bound, float(l2), geometry.row_bound, rows, reserve,
        geometry.euclidean_bound,
    )  # fmt: skip


def _check_attainable(sizes: Sizes, problem: Problem, noise_norm: float) -> None:
    noise = noise_norm * problem.unit
    check_attainable(sizes, problem.l2, noise, problem.row_bound, problem.gradient_bound)
    if not (sizes.total * problem.row_bound + noise) / problem.l2 < problem.largest:
        raise Infeasible("expected coefficients that fit the grid in 52 bits; a larger l2 is needed.")


def _start(sample: Problem, problem: RemoteProblem) -> FloatArray:
    """Return the minimum on a sample of the rows, with the same noise: only a start."""
    rough = 1e-3 * problem.sizes.total * problem.row_bound / np.sqrt(max(len(sample.rows), 1))
    bound = max(float(rough), problem.gradient_bound)
    found = minimise(
        sample.rows, problem.l2, problem.linear_high, problem.linear_low, problem.row_bound, bound
    )
    return np.array(found.high)
