"""The announced problem solved in another way: bisection of the level at every entry of the menu.

Shares no code with the solver: no sorting, no running sums, no Newton steps, no duality, no pruning.
"""

import numpy as np

STEP = 1.0 / 256.0


def solve_announced(objective, table, quotas, caps, groups, entries, psi):
    """Minimise A|a|^2 + B/eta^2 + gamma sum psi H(a eta), or the paper's form, over entries eta and weights.

    ``quotas`` and ``caps`` are per seller: the sum of weights of the seller's group, and the largest weight.
    Return the minimum, and the best entry's total and weights.
    """
    paper, gamma, m = hasattr(objective, "mu"), objective.payment_weight, psi.size
    if table.is_identity:
        slopes, knots = np.ones(1), np.tile([0.0, np.inf], (entries.size, 1))
    else:
        slopes, knots = np.diff(table.costs) / np.diff(table.shares), table.shares / entries[:, None]
    u = (gamma * entries / (objective.mu if paper else 2.0 * objective.sampling_error))[:, None]
    # The marginal cost of a weight on chord h is a + u psi e_h: invert it chord by chord.
    ends = np.minimum(knots[:, None, 1:], caps[:, None])
    begins = np.minimum(knots[:, None, :-1], caps[:, None])
    prices = u[:, :, None] * slopes * psi[:, None]

    def weights_at(level):
        return np.clip(level[..., None] - prices - begins, 0.0, ends - begins).sum(axis=-1)

    low = np.zeros((entries.size, m))
    high = np.broadcast_to(u * slopes[-1] * psi.max() + caps.max(), low.shape)
    for _ in range(54):
        middle = 0.5 * (low + high)
        a = weights_at(middle)
        sums = np.zeros_like(a)
        for g in np.unique(groups):
            sums[:, groups == g] = a[:, groups == g].sum(axis=1, keepdims=True)
        short = sums < quotas
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    a = weights_at(high)
    squares = (a**2).sum(axis=1)
    if paper:
        inner = squares + 2.0 * u[:, 0] * (a @ psi)
        alpha, beta = objective.mu / (2.0 * entries), objective.sigma + 0.5 * objective.mu * entries
        bound = objective.max_mean_epsilon
        totals = np.minimum(np.sqrt(beta / (alpha * inner)), np.inf if bound is None else bound * m)
        values = alpha * inner * totals + beta / totals
    else:
        shares, totals = a * entries[:, None], entries
        cost = shares if table.is_identity else np.interp(shares, table.shares, table.costs)
        error = objective.sampling_error * squares + objective.noise_error / entries**2
        values = error + gamma * (cost @ psi)
    best = values.argmin()
    return values[best], totals[best], a[best]


def menu(low, high, *bounds):
    """Return the public entries exp(k/256) from low to high, and bounds that bind."""
    k = np.arange(np.floor(np.log(low) / STEP), np.ceil(np.log(high) / STEP) + 1)
    entries = np.exp(STEP * k)
    return np.concatenate((entries[entries < min((high, *bounds))], bounds))
