r"""The paper's algorithms as it prints them, where the package has something else in their place.

They use random numbers from numpy, read records as an experiment wants them, and protect nobody. Symbols are
the paper's: weights a, total eta, virtual costs psi, prices mu, sigma and gamma, penalty Lambda (``l2``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq, minimize_scalar, newton
from scipy.special import expit, gammainccinv

from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.mechanisms.joint import Inner, Solution, solve_newton
from dpmarket.numerics import project_to_capped_simplex
from dpmarket.privacy import NoiseNorm, Release, logistic_loss

LN2 = math.log(2.0)


# Algorithm 1: training with given weights


def draw_noise(n: int, rng: np.random.Generator) -> FloatArray:
    """Return b: its length from Gamma(n, 1), its direction uniform."""
    direction = rng.standard_normal(n)
    return np.asarray(direction * (rng.gamma(n) / np.linalg.norm(direction)))


def train(
    rows: FloatArray, signs: FloatArray, weights: FloatArray, pulls: FloatArray, l2: float
) -> FloatArray:
    """Minimise ``<a, log(1 + exp(-y w.x))> + pull.w + l2/2 |w|^2`` for each row of pulls (step 3).

    A pull is ``2b/eta``. Newton steps, halved until the objective falls, for all pulls at once.
    """
    used = weights > 0.0
    signed, a = signs[used, None] * rows[used], weights[used]
    w = np.zeros_like(pulls)

    def value(w: FloatArray) -> FloatArray:
        losses = np.logaddexp(0.0, -(w @ signed.T)) @ a
        return np.asarray(losses + (pulls * w).sum(1) + 0.5 * l2 * (w * w).sum(1))

    now, scale = value(w), 1.0 + np.linalg.norm(pulls, axis=1)
    for _ in range(500):
        s = expit(-(w @ signed.T))
        gradient = pulls + l2 * w - (a * s) @ signed
        left = np.linalg.norm(gradient, axis=1) > 1e-9 * scale
        if not left.any():
            return w
        curvature = (a * s * (1.0 - s))[:, None, :] * signed.T @ signed
        step = np.linalg.solve(curvature + l2 * np.eye(w.shape[1]), -gradient[..., None])[..., 0]
        length = left.astype(float)
        for _ in range(40):
            moved = w + length[:, None] * step
            reached = value(moved)
            worse = reached > now + 1e-4 * length * (gradient * step).sum(1) + 1e-14 * (1.0 + abs(now))
            if not worse.any():
                break
            length[worse] *= 0.5
        w, now = moved, reached
    raise ArithmeticError("expected the coefficients to converge, they did not.")


def train_in_ball(
    rows: FloatArray, signs: FloatArray, weights: FloatArray, pull: FloatArray, radius: float
) -> FloatArray:
    """Minimise the noisy loss over ``|w| <= radius``: with the ridge penalty that the ball amounts to."""

    def trained(log_penalty: float) -> FloatArray:
        return train(rows, signs, weights, pull[None], math.exp(log_penalty))[0]

    lowest, highest = math.log(1e-6), math.log((1.0 + float(np.linalg.norm(pull))) / radius)
    w = trained(lowest)
    if np.linalg.norm(w) <= radius:
        return w
    return trained(
        brentq(lambda log: float(np.linalg.norm(trained(log))) - radius, lowest, highest, xtol=1e-10)
    )


def error(w: FloatArray, rows: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the share of records on the wrong side of each row of w; on the boundary counts as wrong."""
    return np.asarray((signs * (np.atleast_2d(w) @ rows.T) <= 0.0).mean(axis=1))


def weights_for(epsilons: FloatArray, l2: float, n: int) -> tuple[float, FloatArray]:
    """Return the package's eta and weights for given epsilons; eta = 0 where l2 is too small for them."""
    try:
        weights = Release(logistic_loss(), NoiseNorm.euclidean(n), l2).weights(epsilons)
    except Infeasible:
        return 0.0, epsilons
    return weights.noise_rate, weights.loss_weights


# Algorithm 2: deciding without the data


def proxy_loss(epsilons: FloatArray, psi: FloatArray, mu: float, sigma: float, gamma: float) -> float:
    """Return ``mu |eps|/sum(eps) + sigma/sum(eps) + gamma <eps, psi>``; infinite if nothing is bought."""
    total = float(epsilons.sum())
    if total == 0.0:
        return math.inf
    spread = mu * float(np.linalg.norm(epsilons))
    return (spread + sigma) / total + gamma * float(epsilons @ psi)


def optimal_epsilons(psi: FloatArray, mu: float, sigma: float, gamma: float) -> tuple[float, float, float]:
    """Return (loss, lambda, factor) of the optimum without cap, ``eps = factor (lambda - gamma psi)^+``.

    ``psi`` rises. Lambda solves the paper's equation (Eq:lambda); the left side is evaluated wherever one
    seller more is bought from, and each interval in which it changes from plus to minus has a local minimum
    of the loss. The best of them is returned.
    """
    x = gamma * (psi - psi[0])
    count, first, second = np.arange(1.0, psi.size + 1.0), np.cumsum(x), np.cumsum(x * x)
    base = gamma * float(psi[0])

    def sums(level: FloatArray | float, k: FloatArray | int) -> tuple[FloatArray, FloatArray]:
        n, one, two = count[k], first[k], second[k]
        return n * level - one, n * level * level - 2.0 * level * one + two

    def left_side(level: FloatArray | float, k: FloatArray | int) -> FloatArray:
        n1, n2 = sums(level, k)
        return base + level - sigma / mu**2 * n2 - n2 / n1

    ends = np.append(x[1:], x[-1] + max(mu**2 / sigma, x[-1], base) + 1.0)
    inside = np.flatnonzero(ends > x)
    after = left_side(ends[inside], inside)
    before = np.append(base, after[:-1])
    best = (math.inf, 0.0, 0.0)
    for at in np.flatnonzero((before >= 0.0) & (after < 0.0)):
        k = int(inside[at])
        low = float(x[k]) if at else 1e-12 * float(ends[k])
        level = float(
            brentq(lambda v, k=k: float(left_side(v, k)), low, float(ends[k]), xtol=1e-300, rtol=1e-14)
        )
        n1, n2 = (float(value) for value in sums(level, k))
        factor = mu / (math.sqrt(n2) * n1)
        priced = factor * (base * n1 + level * float(first[k]) - float(second[k]))
        loss = (mu * math.sqrt(n2) + sigma / factor) / n1 + priced
        best = min(best, (loss, base + level, factor))
    return best


@dataclass(frozen=True)
class LineSearch:
    """What a grid over eta found: total, weights, objective at each grid point, steps of the descent."""

    total: float
    weights: FloatArray
    values: FloatArray
    steps: int


def algorithm2(
    psi: FloatArray, mu: float, sigma: float, gamma: float, totals: FloatArray, cap: float = 1.0
) -> LineSearch:
    """Algorithm 2, step 1, as printed: projected gradient descent over weights for each total of a grid."""
    step = min(1.0 / (mu * math.sqrt(psi.size)), 1.0)  # the gradient's Lipschitz constant is mu/|a|
    values, steps, best, found = [], 0, math.inf, (0.0, psi)
    for eta in totals:
        a = np.full(psi.size, 1.0 / psi.size)
        for _ in range(100_000):
            norm = float(np.linalg.norm(a))
            moved = project_to_capped_simplex(a - step * (mu * a / norm + gamma * eta * psi), cap)
            change, a = float(np.linalg.norm(moved - a)), moved
            steps += 1
            if change <= 1e-8 * norm:
                break
        values.append(mu * float(np.linalg.norm(a)) + sigma / eta + gamma * eta * float(a @ psi))
        if values[-1] < best:
            best, found = values[-1], (float(eta), a)
    return LineSearch(*found, np.array(values), steps)


# Algorithm 3: online


def algorithm3(
    psi: FloatArray, mu: float, sigma: float, gamma: float, sellers: int, density: float
) -> FloatArray:
    """Return each seller's epsilon; ``density`` is that of virtual costs at 0."""
    level = math.sqrt(mu**2 * gamma / (sigma * sellers * density))
    factor = 2.0 * math.sqrt(3.0) * gamma**1.5 * mu / ((density * sellers) ** 1.5 * level**3.5)
    return np.asarray(factor * np.maximum(level - gamma * psi, 0.0))


# Algorithm 4: deciding with the data


def algorithm4(
    inner: Inner, psi: FloatArray, sigma: float, gamma: float, totals: FloatArray, noise: FloatArray,
    starts: FloatArray | None = None, radius: float = math.inf,
) -> tuple[float, Solution, FloatArray]:  # fmt: skip
    """Return total, solution and the objective at each total of a grid (a line search over ``m eps_avg``).

    ``noise`` is b: as printed the noise is drawn before the search; 0 is its mean. ``radius`` bounds |w|.
    The minimum at one total is found by Newton steps in place of descent; theorem `convexify` is about it.
    Between the best total's neighbours the search ends at a root of the objective's slope.
    """
    begin = np.zeros((1, inner.rows.shape[1])) if starts is None else starts

    def solve(eta: float) -> Solution:
        at = Inner(inner.rows, gamma * eta * psi, 2.0 * noise / eta, inner.l2, inner.mu, inner.cap)
        return min((in_ball(at, w, radius) for w in begin), key=lambda each: each.value)

    def slope(eta: float, at: Solution) -> float:
        """Return the derivative in log eta, by the envelope theorem."""
        pull = 2.0 * float(noise @ at.coefficients)
        return gamma * eta * float(at.weights @ psi) - (sigma + pull) / eta

    found = [solve(eta) for eta in totals]
    slopes = [slope(eta, at) for eta, at in zip(totals, found, strict=True)]
    values = np.array([each.value for each in found]) + sigma / totals
    k = int(values.argmin())
    best = float(totals[k]), found[k]
    k -= slopes[k] > 0.0  # the minimum lies between totals k and k + 1, unless it is an end of the grid
    if 0 <= k < len(found) - 1 and slopes[k] < 0.0 < slopes[k + 1]:
        ends = math.log(totals[k]), math.log(totals[k + 1])
        eta = math.exp(brentq(lambda log: slope(math.exp(log), solve(math.exp(log))), *ends, xtol=1e-12))
        best = eta, solve(eta)
    return *best, values


class JointChoices:
    """Algorithm 4 with the noise at its mean, 0: the best (w, a) at each price ``gamma eta``, remembered.

    The problem at one total depends on ``gamma eta`` alone: one instance serves every gamma and sigma.
    Where the problem need not be convex, random starts and the solutions at neighbouring prices are tried.
    ``products`` are the values of sigma gamma to be asked for: the best price is sqrt(sigma gamma/<a, psi>).
    """

    def __init__(
        self, rows: FloatArray, psi: FloatArray, l2: float, mu: float, cap: float, products: FloatArray
    ) -> None:
        self.inner, self.psi = Inner(rows, psi, np.zeros(rows.shape[1]), l2, mu, cap), psi
        is_convex = 2.0 * l2 * mu > float(np.linalg.norm(rows, 2)) ** 2
        drawn = np.random.default_rng(0).standard_normal((0 if is_convex else 4, rows.shape[1]))
        self.starts = [np.zeros(rows.shape[1]), *drawn]
        low, high = 0.5 * products.min() / psi.max(), 2.0 * products.max() / psi.min()
        self.logs = np.linspace(0.5 * math.log(low), 0.5 * math.log(high), 20)
        self.found = [self._best(log, self.starts) for log in self.logs]
        for k in [*range(1, len(self.found)), *range(len(self.found) - 2, -1, -1)]:
            near = [each.coefficients for each in self.found[max(k - 1, 0) : k + 2]]
            self.found[k] = self._best(self.logs[k], near)

    def choose(self, sigma: float, gamma: float) -> tuple[float, Solution, float]:
        """Return total, solution and objective of the best total."""

        def at(log: float) -> tuple[float, Solution]:
            k = int(np.clip(np.searchsorted(self.logs, log), 1, self.logs.size - 1))
            near = [each.coefficients for each in self.found[k - 1 : k + 1]]
            solution = self._best(log, near[:1] if len(self.starts) == 1 else near)
            return solution.value + sigma * gamma / math.exp(log), solution

        def slope(log: float) -> float:
            return 2.0 * log + math.log(float(self.psi @ at(log)[1].weights) / (sigma * gamma))

        values = np.array([each.value for each in self.found]) + sigma * gamma / np.exp(self.logs)
        ends = []
        for k in np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1:
            bounds = self.logs[k - 1], self.logs[k + 1]
            end = minimize_scalar(
                lambda log: at(log)[0], bounds=bounds, method="bounded", options={"xatol": 1e-6}
            )
            ends.append(float(end.x))
        log = min(ends, key=lambda log: at(log)[0])
        # Near its minimum the objective is flat: its slope finds the place with all digits.
        place, found = newton(slope, log, x1=log + 1e-6, tol=1e-12, full_output=True, disp=False)
        log = float(place) if found.converged and abs(place - log) < 1e-4 else log
        value, solution = at(log)
        return math.exp(log) / gamma, solution, value

    def _best(self, log: float, starts: list[FloatArray]) -> Solution:
        inner = self.inner
        at = Inner(inner.rows, math.exp(log) * self.psi, inner.pull, inner.l2, inner.mu, inner.cap)
        return min((solve_newton(at, w) for w in starts), key=lambda each: each.value)


def naive_weights(rows: FloatArray, prices: FloatArray, l2: float, cap: float) -> tuple[FloatArray, float]:
    """Return the naive model's weights (mu = 0) and objective at one total: the best of five starts."""
    inner = Inner(rows, prices, np.zeros(rows.shape[1]), l2, 0.0, cap)
    starts = [np.zeros(rows.shape[1]), *np.random.default_rng(0).standard_normal((4, rows.shape[1]))]
    best = min((solve_greedy(inner, start) for start in starts), key=lambda each: each.value)
    return best.weights, best.value


def corner(scores: FloatArray, cap: float) -> FloatArray:
    """Return the corner of the capped simplex with the least ``<a, scores>``: the lowest scores."""
    weights, left = np.zeros(scores.size), 1.0
    for i in np.argsort(scores, kind="stable"):
        weights[i] = min(cap, left)
        left = left - cap if left - cap > 1e-12 else 0.0
        if left == 0.0:
            break
    return weights


def solve_greedy(inner: Inner, start: FloatArray) -> Solution:
    """Return a point that is best in weights and best in w, each with the other fixed; for mu = 0.

    Weights move between corners of the capped simplex and the objective falls with each move, so this ends.
    There may be many such points.
    """
    w, trace = start, list[float]()
    weights = corner(inner.scores(w), inner.cap)
    for _ in range(500):
        found = solve_newton(inner, w, weights)
        trace.append(found.value)
        scores = inner.scores(found.coefficients)
        chosen = corner(scores, inner.cap)
        if float((weights - chosen) @ scores) <= 2.0**-49 * (1.0 + abs(found.value)):
            return Solution(found.coefficients, weights, found.value, tuple(trace))
        w, weights = found.coefficients, chosen
    raise NotConverged("expected the choice of sellers to settle within 500 turns, it did not.")


def in_ball(inner: Inner, start: FloatArray, radius: float) -> Solution:
    """Return the solution over ``|w| <= radius``: with the ridge penalty that the ball amounts to."""
    solve = solve_greedy if inner.mu == 0.0 else solve_newton
    free = solve(inner, start)
    if np.linalg.norm(free.coefficients) <= radius:
        return free

    def at(log_penalty: float) -> Solution:
        heavier = Inner(inner.rows, inner.prices, inner.pull, math.exp(log_penalty), inner.mu, inner.cap)
        return solve(heavier, start)

    low, high = math.log(inner.l2), math.log(inner.l2 + inner.scale / radius)
    log = brentq(lambda log: float(np.linalg.norm(at(log).coefficients)) - radius, low, high, xtol=1e-13)
    found = at(log)
    value = inner.value(found.coefficients, found.weights)
    return Solution(found.coefficients, found.weights, value, found.trace)


def pseudocode_descent(
    inner: Inner, start: FloatArray, step: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Run Algorithm 4's inner loop to the letter: weights are projected onto their sum alone."""
    w, a = start, np.full(len(inner.rows), 1.0 / len(inner.rows))
    for _ in range(steps):
        by_w, by_a = inner.gradient(w, a), inner.scores(w) + 2.0 * inner.mu * a
        w, a = w - step * by_w, a - step * by_a
        a = a + (1.0 - a.sum()) / a.size
    return w, a


# Theorem `gen loss`: constants (mu, sigma) of the error bound


def noise_quantile(noise_delta: float, n: int) -> float:
    """Return the inverse of v at delta'."""
    return 2.0 * float(gammainccinv(n, noise_delta))


def printed_constants(
    beta: float, delta: float, noise_delta: float, n: int, base: float
) -> tuple[float, float]:
    """Return mu and sigma as printed; ``base`` is that of the logarithm in ``log(1 + e^beta)``."""
    rate = math.log(1.0 / delta) / math.sqrt(2.0)
    mu = 3.0 * rate * float(np.logaddexp(0.0, beta)) / math.log(base) + beta / LN2
    return mu, (6.0 * rate + 1.0) * 2.0 * beta * noise_quantile(noise_delta, n)


def repaired_constants(beta: float, delta: float, noise_delta: float, n: int) -> tuple[float, float]:
    """Return what the paper's own proof gives, with delta/2 for each use of McDiarmid's inequality."""
    mu = (
        3.0 * math.sqrt(math.log(2.0 / delta) / 2.0) * float(np.logaddexp(0.0, beta)) / LN2 + 2.0 * beta / LN2
    )
    return mu, beta * noise_quantile(noise_delta, n)


def short_constants(beta: float, delta: float, noise_delta: float, n: int) -> tuple[float, float]:
    """Return what the short proof of docs/paper.md gives."""
    mu = (2.0 + math.sqrt(math.log(1.0 / delta) / 2.0)) * beta / LN2
    return mu, beta * noise_quantile(noise_delta, n)


def leading_term(mu: float, sigma: float, gamma: float, density: float, sellers: float) -> float:
    """Return lemma `thm: offline perf`'s leading term, with ``E_2 = 4 f(0)^(-1/4)``."""
    return 4.0 * density**-0.25 / math.sqrt(3.0) * (sigma * mu**2 * gamma / sellers) ** 0.25


def slopes(xs: FloatArray, ys: FloatArray) -> list[float]:
    """Return the slopes of log y against log x between neighbours."""
    points = list(zip(np.log(xs), np.log(ys), strict=True))
    return [float((b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(points)]
