r"""Theorem `convexify`, first part: the smallest eigenvalue of the appendix objective's Hessian in (w, a).

With signed rows u and :math:`s_i = 1/(1 + e^{w \cdot u_i})` its blocks are
:math:`\Lambda I + \sum_i a_i s_i (1 - s_i) u_i u_i^T`, the columns :math:`-s_i u_i`, and :math:`2 \mu I`.
It is looked at for three kinds of records: breast cancer; the worst ones, which lie close to two opposite
directions across the coefficients, so that every s can be 1; and random ones. Points (w, a) are drawn at
random, and w also far out, where the s are largest. ``inside`` looks only along directions that keep the sum
of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpmarket.arrays import FloatArray
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.solving import draw_convexity
from dpmarket.planning.rows import Row

RECORDS = ("worst", "breast cancer", "random")


@dataclass(frozen=True)
class ConvexityConfig:
    """Settings: ratios are 2*l2*mu/m, balances are l2/(2*mu)."""

    ratios: tuple[float, ...] = (0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 4.0)
    balances: tuple[float, ...] = (1.0, 0.01, 100.0)
    people: int = 60
    points: int = 20
    seed: int = 0


FULL = ConvexityConfig()
QUICK = ConvexityConfig(ratios=(0.1, 0.9, 1.01, 2.0), balances=(1.0, 100.0), people=20, points=3)


@dataclass(frozen=True)
class _Task:
    config: ConvexityConfig
    records: str
    balance: float


def compute(config: ConvexityConfig, work: Work) -> ResultTable:
    """Return one row per kind of records, balance and ratio: the smallest eigenvalue found."""
    tasks = [_Task(config, kind, balance) for kind in RECORDS for balance in config.balances]
    return work.table("convexity", _rows, tasks, config)


def signed_rows(kind: str, people: int, seed: int) -> FloatArray:
    """Return signed rows of length at most 1 of a kind of records."""
    rng = np.random.default_rng(seed)
    if kind == "breast cancer":
        rows, signs = split_records(breast_cancer(), 0.6, 0.2, seed).sellers
        chosen = rng.permutation(len(signs))[:people]
        return np.asarray(signs[chosen, None] * rows[chosen])
    if kind == "random":
        rows = rng.standard_normal((people, 5))
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None])
    tilt = 0.02
    half = np.where(np.arange(people) % 2 == 0, 1.0, -1.0)
    return np.column_stack([np.full(people, tilt), half * math.sqrt(1.0 - tilt * tilt)])


def hessian(rows: FloatArray, w: FloatArray, a: FloatArray, l2: float, mu: float) -> FloatArray:
    """Return the Hessian of the appendix objective in (w, a).

    Examples
    --------
    >>> hessian(np.array([[1.0]]), np.zeros(1), np.ones(1), l2=1.0, mu=2.0).tolist()
    [[1.25, -0.5], [-0.5, 4.0]]
    """
    s = expit(-(rows @ w))
    cross = -(s[:, None] * rows).T
    first = l2 * np.eye(rows.shape[1]) + (rows.T * (a * s * (1.0 - s))) @ rows
    return np.block([[first, cross], [cross.T, 2.0 * mu * np.eye(len(rows))]])


def _rows(task: _Task) -> list[Row]:
    config = task.config
    rows = signed_rows(task.records, config.people, config.seed)
    m, n = rows.shape
    rng = np.random.default_rng([config.seed, 1])
    # A direction in which every margin is negative, as far as there is one: there the s tend to 1.
    down = -np.linalg.pinv(rows) @ np.ones(m)
    down /= np.linalg.norm(down)
    points = [(reach * down, np.full(m, 1.0 / m)) for reach in (0.0, 1.0, 10.0, 1_000.0)]
    points += [
        (5.0 * rng.standard_normal((n,)), rng.dirichlet(np.full(m, 0.3))) for _ in range(config.points)
    ]
    # An orthonormal basis of the directions that keep the sum of the weights.
    basis = np.linalg.qr(np.column_stack([np.ones(m), rng.standard_normal((m, m - 1))]))[0][:, 1:]
    found = []
    for ratio in config.ratios:
        mu = math.sqrt(ratio * m / task.balance) / 2.0
        l2 = 2.0 * mu * task.balance
        lowest, inside = math.inf, math.inf
        for w, a in points:
            matrix = hessian(rows, w, a, l2, mu)
            lowest = min(lowest, float(np.linalg.eigvalsh(matrix)[0]))
            cross = matrix[:n, n:] @ basis
            part = np.block([[matrix[:n, :n], cross], [cross.T, 2.0 * mu * np.eye(m - 1)]])
            inside = min(inside, float(np.linalg.eigvalsh(part)[0]))
        found.append(
            {
                "records": task.records,
                "balance": task.balance,
                "ratio": ratio,
                "l2": l2,
                "concentration": mu,
                "sharp_ratio": ratio * m / float(np.linalg.norm(rows, 2)) ** 2,
                "lowest": lowest / min(l2, 2.0 * mu),
                "inside": inside / min(l2, 2.0 * mu),
            }
        )
    return found


CONVEXITY = Experiment(
    "convexity", "Paper, theorem `convexify`: the smallest eigenvalue of the Hessian",
    FULL, QUICK, compute, draw_convexity,
)  # fmt: skip
