"""The announced problem solved in another way: bisection of the level at every entry of the menu.

Shares no code with the solver: no sorting, no running sums, no Newton steps, no duality, no pruning.
"""

from __future__ import annotations

import numpy as np

STEP = 1.0 / 256.0


class AnnouncedProblem:
    """min over entries eta and weights of A|a|^2 + B/eta^2 + gamma sum psi H(a eta), or the paper's form.

    ``quotas`` and ``caps`` are per seller: the sum of weights of the seller's group, and the largest weight.
    """

    def __init__(self, objective, table, quotas, caps, groups, entries):
        self.objective, self.table = objective, table
        self.quotas, self.caps, self.groups = map(np.asarray, (quotas, caps, groups))
        self.entries = np.asarray(entries)

    def solve(self, psi):
        """Return J, the best entry's total and weights for each row of virtual costs."""
        psi = np.atleast_2d(psi)[:, None, :]
        chords = self.table.shares.size - 1
        size = max(int(2e6 // (psi.size * chords)), 1)
        parts = [self._solve(psi, self.entries[k : k + size]) for k in range(0, self.entries.size, size)]
        values, totals, weights = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        best, rows = values.argmin(axis=1), np.arange(psi.shape[0])
        return values[rows, best], totals[rows, best], weights[rows, best]

    def _solve(self, psi, entries):
        """Return J, totals and weights, for each row and entry."""
        paper, gamma, m = hasattr(self.objective, "mu"), self.objective.payment_weight, psi.shape[2]
        if self.table.is_identity:
            slopes, knots = np.ones(1), np.tile([0.0, np.inf], (entries.size, 1))
        else:
            slopes = np.diff(self.table.costs) / np.diff(self.table.shares)
            knots = self.table.shares / entries[:, None]
        u = gamma * entries / (self.objective.mu if paper else 2.0 * self.objective.sampling_error)
        u = u[:, None]
        # The marginal cost of a weight on chord h is a + u psi e_h: invert it chord by chord.
        ends = np.minimum(knots[:, None, 1:], self.caps[:, None])
        begins = np.minimum(knots[:, None, :-1], self.caps[:, None])
        prices = u[:, :, None] * slopes * psi[..., None]

        def weights_at(level):
            return np.clip(level[..., None] - prices - begins, 0.0, ends - begins).sum(axis=-1)

        low = np.zeros((psi.shape[0], entries.size, m))
        high = np.broadcast_to(u * slopes[-1] * psi.max() + self.caps.max(), low.shape)
        for _ in range(54):
            middle = 0.5 * (low + high)
            a = weights_at(middle)
            sums = np.zeros_like(a)
            for g in np.unique(self.groups):
                sums[..., self.groups == g] = a[..., self.groups == g].sum(axis=-1, keepdims=True)
            short = sums < self.quotas
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        a = weights_at(high)
        squares = (a**2).sum(axis=-1)
        if paper:
            inner = squares + 2.0 * u[:, 0] * (psi * a).sum(axis=-1)
            mu, sigma = self.objective.mu, self.objective.sigma
            alpha, beta = mu / (2.0 * entries), sigma + 0.5 * mu * entries
            bound = self.objective.max_mean_epsilon
            total = np.minimum(np.sqrt(beta / (alpha * inner)), np.inf if bound is None else bound * m)
            return alpha * inner * total + beta / total, total, a
        shares = a * entries[:, None]
        cost = shares if self.table.is_identity else np.interp(shares, self.table.shares, self.table.costs)
        error = self.objective.sampling_error * squares + self.objective.noise_error / entries**2
        totals = np.broadcast_to(entries, error.shape)
        return error + gamma * (psi * cost).sum(axis=-1), totals, a


def menu(low, high, *bounds):
    """Return the public entries exp(k/256) from low to high, and bounds that bind."""
    k = np.arange(np.floor(np.log(low) / STEP), np.ceil(np.log(high) / STEP) + 1)
    entries = np.exp(STEP * k)
    return np.concatenate((entries[entries < min((high, *bounds))], bounds))
