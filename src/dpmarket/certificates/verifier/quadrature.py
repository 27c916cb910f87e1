"""Integrate many sellers' rules at once: pieces are halved where two rules of different order disagree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_COARSE, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(5)
_FINE, _FINE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES = np.concatenate([_COARSE, _FINE])
_ROUNDS = 30
_HALVINGS = 26


def integrals(rule: Callable[[Any, Any], Any], starts: Any, end: float, tolerance: float) -> Any:
    """Return the integral of each seller's non-increasing rule from its start to the common end.

    Parameters
    ----------
    rule
        Takes positions of sellers and points, arrays of one length; returns the rule's values there.
    starts
        Where each seller's integral begins.
    end
        The common end.
    tolerance
        What may be wrong, relative to the rule's value at its start times the start.

    Raises
    ------
    ArithmeticError
        If halving does not lead to that accuracy.
    """
    owner = np.arange(starts.size)
    left, right = starts, _last_above_zero(rule, starts, end)
    allowed = tolerance * starts * rule(owner, starts)
    total = np.zeros(starts.size)
    for k in range(_ROUNDS):
        half = 0.5 * (right - left)
        z = (left + half)[:, None] + half[:, None] * _NODES
        values = rule(np.repeat(owner, _NODES.size), z.ravel()).reshape(z.shape)
        coarse = half * (values[:, : _COARSE.size] @ _COARSE_WEIGHTS)
        fine = half * (values[:, _COARSE.size :] @ _FINE_WEIGHTS)
        # Each further halving gets less of what is allowed, so that all of them together stay within it.
        good = np.abs(fine - coarse) <= allowed[owner] * 0.5 ** (0.5 * k + 2.0)
        np.add.at(total, owner[good], fine[good])
        owner, left, right = (np.concatenate([part[~good]] * 2) for part in (owner, left, right))
        if not owner.size:
            return total
        first, middle = np.arange(owner.size) < owner.size // 2, 0.5 * (left + right)
        left, right = np.where(first, left, middle), np.where(first, middle, right)
    raise ArithmeticError("an integral was not found")


def _last_above_zero(rule: Callable[[Any, Any], Any], starts: Any, end: float) -> Any:
    """Return where each rule comes down to 0, or the common end: zeros beyond would hide what is before."""
    owner = np.arange(starts.size)
    low, high = starts.copy(), np.full(starts.size, end)
    stays = rule(owner, high) > 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = rule(owner, middle) > 0.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(stays, end, high)
