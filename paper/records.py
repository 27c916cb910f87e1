"""The records of the experiments: breast cancer, split and scaled by public bounds, and synthetic ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.datasets import PublicData, breast_cancer, separable, standard_bounds
from dpmarket.learning import PublicScaler

Records = tuple[FloatArray, FloatArray]
LOWEST = math.exp(-4.0)
"""The paper's lowest cost in Fig. 2, e^-4; the highest is five times as much."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Sellers', public and test records: rows in the unit ball, with a constant, and labels -1 and +1."""

    sellers: Records
    public: Records
    test: Records


def split(data: PublicData, seller_share: float, public_share: float, seed: int) -> Parts:
    """Split records at random, and scale them by bounds that come from the public part alone."""
    rng = np.random.default_rng(seed)
    sellers, rest = data.split(seller_share, rng)
    public, test = rest.split(public_share / (1.0 - seller_share), rng)
    scaler = PublicScaler(*standard_bounds(public), radius=1.0).fit(public.features)

    def rows(part: PublicData) -> Records:
        n = part.n_features
        constant = np.full((len(part), 1), 1.0 / math.sqrt(n))
        longest = math.sqrt(1.0 + 1.0 / n) * (1.0 + 1e-12)
        return np.hstack([scaler.transform(part.features), constant]) / longest, part.signs

    return Parts(rows(sellers), rows(public), rows(test))


def wisconsin(features: str = "all") -> PublicData:
    """Return the diagnostic breast cancer set: all 30 features, or the ten "means" over a cell image."""
    data = breast_cancer()
    if features == "all":
        return data
    chosen = np.array([name.startswith("mean") for name in data.feature_names])
    names = tuple(name for name in data.feature_names if name.startswith("mean"))
    bounds = {"low": data.low[chosen], "high": data.high[chosen]}
    return replace(data, features=data.features[:, chosen], feature_names=names, **bounds)


def sellers_of_wisconsin(seed: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return signed rows, costs from U[e^-4, 5e^-4] and virtual costs of the sellers of a 60% split."""
    rows, signs = split(breast_cancer(), 0.6, 0.2, seed).sellers
    costs = LOWEST * (1.0 + 4.0 * rng.random(signs.size))
    return signs[:, None] * rows, costs, 2.0 * costs - LOWEST


def synthetic(records: int, test_records: int, features: int, seed: int) -> tuple[Records, Records]:
    """Return training and test records of one separator through the origin, rows of length at most 1."""
    data = separable(records + test_records, features, np.random.default_rng(seed))
    rows = PublicScaler(-3.0, 3.0, radius=1.0).fit_transform(data.features)
    return (rows[:records], data.signs[:records]), (rows[records:], data.signs[records:])


def with_margin(
    records: int, normal: FloatArray, margin: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, float]:
    """Return rows in the unit ball, labels by ``normal``, and their margin (`assumption: sep`)."""
    x = rng.standard_normal((records, normal.size))
    signs = np.where(x @ normal > 0.0, 1.0, -1.0)
    x += (signs * margin)[:, None] * normal
    rows = x / np.maximum(np.linalg.norm(x, axis=1), 4.0)[:, None]
    return rows, signs, float((signs * (rows @ normal)).min())
