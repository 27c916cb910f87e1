"""The exact solver against three solvers that share no code and no idea with it.

- enumeration: all splits of the sellers into capped, interior and left out, in 60-digit arithmetic;
- the path on a fine grid of spreads, cutoffs by bisection, minima refined by golden-section search;
- cvxpy at fixed total promises.
"""

import itertools

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpmarket.allocation import BuyerObjective, allocate

KINDS = ("uniform", "log-normal", "two clusters", "twelve orders", "ties", "packed")
# Seeds of instances that have every kind of cost with no cap, a cap that nobody reaches and one that some do,
# with and without a bound that holds, one minimum and several. The slow tests take many more at random.
FOR_ENUMERATION = (0, 1, 2, 3, 5, 8, 10, 13, 15, 17, 21, 24, 26, 34, 40, 65, 66, 67)
FOR_THE_PATH = (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 15, 16, 20, 24, 29, 31)
FOR_CVXPY = (0, 1, 3, 5, 7, 8, 10, 11, 15, 16, 19, 21, 22, 24, 32, 42, 58)


def random_instance(seed, largest):
    """Return random virtual costs and an objective; kinds, caps and bounds take turns."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    m = int(rng.integers(1, largest + 1))
    if kind == "uniform":
        psi = rng.uniform(0.5, 9.0, m)
    elif kind == "log-normal":
        psi = rng.lognormal(0.0, 2.0, m)
    elif kind == "two clusters":
        cheap = rng.random(m) < 0.3
        psi = np.where(cheap, rng.uniform(0.01, 0.1, m), rng.uniform(20.0, 40.0, m))
    elif kind == "twelve orders":
        psi = 10.0 ** rng.uniform(-6.0, 6.0, m)
    elif kind == "ties":
        psi = rng.integers(1, 4, m).astype(float)
    else:
        psi = rng.choice([1e3, 1e6]) + 1e-9 * rng.random(m)
    objective = random_objective(rng, m, float(np.median(psi)))
    return psi, objective


def random_objective(rng, m, typical_cost):
    concentration, noise = 10.0 ** rng.uniform(-1.0, 1.0, 2)
    # The dimensionless price of payments decides between "cheapest only" and "everybody alike".
    payment_weight = 10.0 ** rng.uniform(-4.0, 2.0) * concentration**2 / (noise * typical_cost)
    cap = None
    if rng.random() < 0.6:
        whole = m / rng.integers(1, m + 1)
        cap = whole if rng.random() < 0.4 else rng.uniform(1.0, max(1.5, 0.7 * m))
    free = np.sqrt(noise / (payment_weight * typical_cost))
    mean = None if rng.random() < 0.5 else free * 10.0 ** rng.uniform(-1.0, 0.7) / m
    return BuyerObjective(concentration, noise, payment_weight, cap, mean)


# --- enumeration ---------------------------------------------------------------------------------


def by_enumeration(psi, objective):
    """Return (value, weights, total promise) of the best point that can be the minimum."""
    with mp.workdps(60):
        m = len(psi)
        order = np.argsort(psi, kind="stable")
        x = [mp.mpf(float(psi[i])) for i in order]
        mu, sigma, gamma = (
            mp.mpf(v) for v in (objective.concentration, objective.noise, objective.payment_weight)
        )
        cap = mp.mpf(1)
        if objective.weight_cap is not None:
            cap = min(mp.mpf(objective.weight_cap) / m, cap)
        bound = mp.inf
        if objective.max_mean_epsilon is not None:
            bound = m * mp.mpf(objective.max_mean_epsilon)
        best = (mp.inf, None, None)
        for weights, eta in candidates(x, mu, sigma, gamma, cap, bound):
            norm = mp.sqrt(sum(a * a for a in weights))
            cost = sum(a * p for a, p in zip(weights, x, strict=True))
            value = mu * norm + sigma / eta + gamma * eta * cost
            if value < best[0]:
                best = (value, weights, eta)
        value, weights, eta = best
        in_order = np.empty(m)
        in_order[order] = [float(a) for a in weights]
        return float(value), in_order, float(eta)


def candidates(x, mu, sigma, gamma, cap, bound):
    """Yield weights and total promise of every point that can be the minimum."""
    m = len(x)
    for N, l in itertools.combinations(range(m + 1), 2):  # noqa: E741
        inside, capped = x[N:l], x[:N]
        n, A = l - N, 1 - cap * N
        if A <= 0:
            continue
        S = sum(inside)
        V = sum((p - S / n) ** 2 for p in inside)
        weight = N * cap**2 + A**2 / n
        level = cap * sum(capped) + A * S / n
        spreads = rising_root(sigma * gamma * weight, sigma * gamma * V - mu**2 * level, mu**2 * V)
        if bound < mp.inf:
            squared = ((mu / (gamma * bound)) ** 2 - V) / weight
            if squared > 0:
                spreads.append(mp.sqrt(squared))
        for s in spreads:
            r = (A * s + S) / n
            slack = mp.mpf(10) ** -25 * (abs(r) + s)
            fits = inside[-1] <= r + slack and r - inside[0] <= cap * s + slack
            fits = fits and (l == m or x[l] >= r - slack)
            fits = fits and (N == 0 or r - capped[-1] >= cap * s - slack)
            if not fits:
                continue
            a = [cap] * N + [(r - p) / s for p in inside] + [mp.mpf(0)] * (m - l)
            eta = mu / (gamma * s * mp.sqrt(sum(w * w for w in a)))
            if eta <= bound * (1 + mp.mpf(10) ** -25):
                yield a, eta
    # Corners: N sellers at the cap. Feasible points, so they may be compared without further tests.
    for N in range(1, m + 1):
        if abs(N * cap - 1) < mp.mpf(10) ** -14 * N:
            a = [mp.mpf(1) / N] * N + [mp.mpf(0)] * (m - N)
            cost = sum(x[:N]) / N
            yield a, min(mp.sqrt(sigma / (gamma * cost)), bound)


def rising_root(c3, c1, c0):
    """Return [the larger positive root of c3 s^3 + c1 s + c0] for c3 > 0 and c0 >= 0, or []."""
    if c1 >= 0:
        return []
    low, high = mp.sqrt(-c1 / (3 * c3)), mp.sqrt(-c1 / c3)
    if c3 * low**3 + c1 * low + c0 > 0:
        return []
    for _ in range(190):
        middle = (low + high) / 2
        if c3 * middle**3 + c1 * middle + c0 > 0:
            high = middle
        else:
            low = middle
    return [high]


def assert_matches_enumeration(seed):
    psi, objective = random_instance(seed, 7)
    value, weights, eta = by_enumeration(psi, objective)
    found = allocate(psi, objective)
    assert found.objective_value <= value * (1 + 1e-14)
    assert found.objective_value >= value * (1 - 1e-14)
    assert found.total_promise == pytest.approx(eta, rel=1e-10)
    np.testing.assert_allclose(found.loss_weights, weights, atol=1e-10)
    assert found.kkt_residual < 1e-12


@pytest.mark.parametrize("seed", FOR_ENUMERATION)
def test_solver_agrees_with_enumeration(seed):
    assert_matches_enumeration(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_solver_agrees_with_enumeration_on_many_more(block):
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        assert_matches_enumeration(seed)


# --- the path on a grid --------------------------------------------------------------------------


def along_the_path(psi, objective, log_spreads):
    """Return objective and total promise at given spreads, cutoffs by bisection."""
    mu, sigma, gamma = objective.concentration, objective.noise, objective.payment_weight
    m = psi.size
    cap = 1.0 if objective.weight_cap is None else min(objective.weight_cap / m, 1.0)
    s = np.exp(np.atleast_1d(log_spreads))[:, None]
    shifted = psi - psi.min()
    low, high = np.zeros_like(s), shifted.max() + s
    for _ in range(110):
        r = 0.5 * (low + high)
        enough = np.clip((r - shifted) / s, 0.0, cap).sum(axis=1, keepdims=True) >= 1.0
        low, high = np.where(enough, low, r), np.where(enough, r, high)
    a = np.clip((high - shifted) / s, 0.0, cap)
    a /= a.sum(axis=1, keepdims=True)
    norm = np.sqrt((a * a).sum(axis=1))
    eta = mu / (gamma * s[:, 0] * norm)
    bound = np.inf if objective.max_mean_epsilon is None else m * objective.max_mean_epsilon
    eta = np.minimum(eta, bound)
    return mu * norm + sigma / eta + gamma * eta * (a @ psi), eta


def by_path_grid(psi, objective, points=2500):
    """Return the best value on the path and the number of dips, each refined."""
    spread = max(float(np.ptp(psi)), float(psi.max()), 1e-300)
    grid = np.linspace(np.log(spread) - 36.0, np.log(spread) + 16.0, points)
    values, _ = along_the_path(psi, objective, grid)
    # At the bound the objective is flat in the spread where only eta is held: ignore rounding there.
    drop = np.diff(values) < -1e-13 * values[:-1]
    dips = [i for i in range(1, points - 1) if drop[i - 1] and not drop[i]]
    refined = []
    for i in sorted({*dips, int(values.argmin())}, key=lambda i: values[i])[:4]:
        result = minimize_scalar(
            lambda u: float(along_the_path(psi, objective, u)[0][0]),
            bounds=(grid[max(i - 2, 0)], grid[min(i + 2, points - 1)]),
            method="bounded",
            options={"xatol": 1e-8},
        )
        refined.append(min(float(result.fun), float(values[i])))
    return min(refined), len(dips)


def assert_not_above_the_path(seed, largest):
    psi, objective = random_instance(seed, largest)
    found = allocate(psi, objective)
    value, _ = by_path_grid(psi, objective)
    assert found.objective_value <= value * (1 + 1e-9)
    assert found.objective_value >= value * (1 - 1e-7)
    assert found.kkt_residual < 1e-9


@pytest.mark.parametrize("seed", FOR_THE_PATH)
def test_solver_is_never_above_brute_force_over_the_path(seed):
    assert_not_above_the_path(5000 + seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_solver_is_never_above_brute_force_over_the_path_on_many_more(block):
    for seed in range(6000 + 40 * block, 6040 + 40 * block):
        assert_not_above_the_path(seed, 120)


def test_several_local_minima_are_all_found_and_compared():
    rng = np.random.default_rng(2)
    several, not_first, not_last = 0, 0, 0
    for _ in range(60):
        m = int(rng.integers(3, 40))
        few = int(rng.integers(1, max(2, m // 3)))
        psi = np.r_[rng.uniform(0.001, 0.05, few), rng.uniform(1.0, 1.2, m - few) * 30.0]
        mu = 1.0
        objective = BuyerObjective(mu, 1.0, 10.0 ** rng.uniform(-3.0, -1.0) / 30.0)
        found = allocate(psi, objective)
        value, dips = by_path_grid(psi, objective, points=1000)
        assert found.objective_value == pytest.approx(value, rel=1e-9)
        assert len(found.local_minima) == dips
        values = [minimum.objective_value for minimum in found.local_minima]
        assert found.objective_value == pytest.approx(min(values), rel=1e-13)
        etas = [minimum.total_promise for minimum in found.local_minima]
        assert etas == sorted(etas, reverse=True)
        if dips > 1:
            several += 1
            not_first += int(np.argmin(values)) > 0
            not_last += int(np.argmin(values)) < dips - 1
    # The instances are chosen so that both the first and the last minimum lose sometimes.
    assert several >= 10
    assert not_first >= 3
    assert not_last >= 3


# --- cvxpy at fixed total promises ---------------------------------------------------------------


def by_cvxpy(psi, objective, eta):
    """Return the value of a feasible point near cvxpy's minimiser at this total promise."""
    m = psi.size
    mu, sigma, gamma = objective.concentration, objective.noise, objective.payment_weight
    cap = 1.0 if objective.weight_cap is None else min(objective.weight_cap / m, 1.0)
    scale = gamma * eta / mu
    a = cp.Variable(m)
    problem = cp.Problem(
        cp.Minimize(cp.norm(a, 2) + scale * ((psi - psi.min()) @ a)),
        [a >= 0, a <= cap, cp.sum(a) == 1],
    )
    problem.solve(solver=cp.CLARABEL)
    # Make it feasible to rounding, so that its value is an upper bound for the minimum.
    weights = np.clip(a.value, 0.0, cap)
    for _ in range(100):
        weights = np.clip(
            weights + (1.0 - weights.sum()) * (weights < cap) / max((weights < cap).sum(), 1), 0.0, cap
        )
    if abs(weights.sum() - 1.0) > 1e-12:
        return np.inf
    return mu * np.sqrt(weights @ weights) + sigma / eta + gamma * eta * (weights @ psi)


def assert_not_above_cvxpy(seed):
    psi, objective = random_instance(seed, 30)
    found = allocate(psi, objective)
    bound = np.inf
    if objective.max_mean_epsilon is not None:
        bound = psi.size * objective.max_mean_epsilon
    etas = np.minimum(found.total_promise * np.array([0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0]), bound)
    values = np.array([by_cvxpy(psi, objective, eta) for eta in np.unique(etas)])
    assert np.isfinite(values).any()
    assert found.objective_value <= values.min() * (1 + 1e-9)
    at_own = by_cvxpy(psi, objective, found.total_promise)
    if np.isfinite(at_own):
        assert found.objective_value == pytest.approx(at_own, rel=1e-5)
    assert found.kkt_residual < 1e-9


@pytest.mark.parametrize("seed", FOR_CVXPY)
def test_solver_is_never_above_cvxpy(seed):
    assert_not_above_cvxpy(9000 + seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_solver_is_never_above_cvxpy_on_many_more(block):
    for seed in range(9100 + 20 * block, 9120 + 20 * block):
        assert_not_above_cvxpy(seed)
