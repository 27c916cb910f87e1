"""Train with given weights and given noise, and count mistakes: what the experiments on records share.

These are simulations on public records: noise comes from a numpy generator and training reads whatever an
experiment wants to study. Nothing made here is private, and nothing is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation.simplex import UNCAPPED
from dpmarket.arrays import FloatArray
from dpmarket.datasets import PublicData
from dpmarket.datasets.bounds import standard_bounds
from dpmarket.learning import PublicScaler
from dpmarket.mechanisms.joint.newton import minimise_in_ball
from dpmarket.mechanisms.joint.problem import FixedWeights, InnerProblem


@dataclass(frozen=True, eq=False)
class Parts:
    """Records of sellers, public records to choose settings on, and records to test on; rows within 1.

    Every pair is (rows with a constant column, labels -1 and +1). The bounds for scaling come from the public
    part alone.
    """

    sellers: tuple[FloatArray, FloatArray]
    public: tuple[FloatArray, FloatArray]
    test: tuple[FloatArray, FloatArray]

    @property
    def n_features(self) -> int:
        """Number of coefficients, the constant's included."""
        return int(self.sellers[0].shape[1])


def split_records(data: PublicData, seller_share: float, public_share: float, seed: int) -> Parts:
    """Split records at random into sellers', public and test records, and scale them by public bounds."""
    rng = np.random.default_rng(seed)
    sellers, rest = data.split(seller_share, rng)
    public, test = rest.split(public_share / (1.0 - seller_share), rng)
    scaler = PublicScaler(*standard_bounds(public), radius=1.0).fit(public.features)

    def rows(part: PublicData) -> tuple[FloatArray, FloatArray]:
        x = scaler.transform(part.features)
        constant = np.full((len(part), 1), 1.0 / math.sqrt(part.n_features))
        longest = math.sqrt(1.0 + 1.0 / part.n_features)
        return np.hstack([x, constant]) / (longest * (1.0 + 1e-12)), part.signs

    return Parts(rows(sellers), rows(public), rows(test))


def draw_noise(n: int, rng: np.random.Generator) -> FloatArray:
    """Return b: its length from Gamma(n, 1), its direction uniform (paper, Algorithm 1)."""
    direction = rng.standard_normal(n)
    return np.asarray(direction * (rng.gamma(n) / np.linalg.norm(direction)))


def train(
    rows: FloatArray,
    signs: FloatArray,
    loss_weights: FloatArray,
    pull: FloatArray,
    l2: float,
    radius: float = math.inf,
) -> FloatArray:
    """Return the coefficients that minimise ``<a, loss(w)> + pull.w + l2/2*|w|^2`` over ``|w| <= radius``.

    Paper, Eq. `Eq: diff privacy eqn` with ``pull = 2b/eta``; zeros train without noise.
    """
    used = np.flatnonzero(loss_weights)
    problem = InnerProblem(
        signs[used, None] * rows[used], np.zeros(used.size), pull, l2, 0.0, UNCAPPED, radius
    )
    start = np.zeros(rows.shape[1])
    tolerance = 1e-9 * (1.0 + float(np.linalg.norm(pull)))
    return minimise_in_ball(FixedWeights(problem, loss_weights[used]), start, radius, tolerance, 500).w


def error(coefficients: FloatArray, rows: FloatArray, signs: FloatArray) -> float:
    """Return the share of records on the wrong side; a record on the boundary counts as wrong."""
    return float(np.mean(signs * (rows @ coefficients) <= 0.0))
