"""Theorem `thm: asymptotic`: the proof's own choice of delta, mu, sigma and delta', and what it gives.

delta = exp(-E_3 nu m^(1/4)) with E_3 = sqrt 2/(sqrt 3 E_2 gamma^(1/4) log(1 + e^beta)), mu(delta) of theorem
`gen loss`, sigma = mu^2, and the delta' that gives this sigma. Logarithms of the loss are to base 2. Where a
computer holds the market it is run, on separable records; costs from U[0, 1].
"""

import math

import numpy as np
from scipy.special import gammaincc

from common import figure, in_parallel, label, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective
from printed import LN2, draw_noise, error, leading_term, train_in_ball
from records import with_margin

SETTINGS = {
    "choices": [[0.1, 5.0, 1e-5], [0.1, 20.0, 1e-5], [0.2, 5.0, 1e-5], [0.1, 5.0, 1e-2], [0.1, 5.0, 1e-3],
                [0.1, 5.0, 1e-7]],  # nu, beta, gamma
    "exponents": [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0],
    "simulated": 5.0,
    "features": 5,
    "margin": 1.0,
    "test_records": 2_000,
    "draws": 20,
    "seed": 0,
}  # fmt: skip
QUICK = {"choices": [[0.1, 5.0, 1e-5]], "simulated": 3.0, "draws": 5}
DENSITY = 0.5  # of virtual costs at 0


def compute(s):
    yield from in_parallel(row, [(s, *choice, exponent) for choice in s.choices for exponent in s.exponents])


def proof_choice(nu, beta, gamma, n, m):
    """Return -ln delta, mu, sigma and -ln delta'."""
    steep = float(np.logaddexp(0.0, beta)) / LN2
    surprise = math.sqrt(2.0) / (math.sqrt(3.0) * 4.0 * DENSITY**-0.25 * gamma**0.25 * steep) * nu * m**0.25
    mu = 3.0 * surprise / math.sqrt(2.0) * steep + beta / LN2
    half = 0.5 * mu * mu / ((6.0 * surprise / math.sqrt(2.0) + 1.0) * 2.0 * beta)
    tail = float(gammaincc(n, half))
    far = half - (n - 1) * math.log(half) + math.lgamma(n)  # beyond the range of floats
    return surprise, mu, mu * mu, -math.log(tail) if tail > 1e-280 else far


def row(s, nu, beta, gamma, exponent):
    m = 10.0**exponent
    surprise, mu, sigma, noise_surprise = proof_choice(nu, beta, gamma, s.features, m)
    proxy = leading_term(mu, sigma, gamma, DENSITY, m)
    found = dict.fromkeys(("objective", "objective_se", "floor", "exceeding", "above"))
    if exponent <= s.simulated:
        found = market(s, beta, (mu, sigma, gamma), round(m), (nu, proxy))
    return [{
        "nu": nu, "beta": beta, "gamma": gamma, "sellers": m, "surprise": surprise,
        "noise_surprise": noise_surprise, "stated": nu * m**0.25 / (2.0 * beta), "mu": mu, "proxy": proxy,
        "probability": math.exp(-surprise) + math.exp(-noise_surprise),
    } | found]  # fmt: skip


def market(s, beta, terms, m, allowances):
    """Return the buyer's objective, and how often it is above floor plus nu, and above the whole bound."""
    dist, totals, floors = Uniform(0.0, 1.0), np.empty(s.draws), np.empty(s.draws)
    for draw in range(s.draws):
        rng = np.random.default_rng([s.seed, draw, m])
        normal = rng.standard_normal(s.features)
        normal /= np.linalg.norm(normal)
        rows, signs, margin = with_margin(m, normal, s.margin, rng)
        test = with_margin(s.test_records, normal, s.margin, rng)[:2]
        outcome = OfflineMechanism(dist, PaperObjective(*terms)).run(dist.sample(m, rng))
        pull = 2.0 * draw_noise(s.features, rng) / outcome.total_epsilon
        w = train_in_ball(rows, signs, outcome.epsilons / outcome.total_epsilon, pull, beta)
        totals[draw] = error(w, *test)[0] + terms[2] * outcome.total_payment
        floors[draw] = float(np.logaddexp(0.0, -margin * beta)) / LN2
    objective, objective_se = mean_and_error(totals)
    above = [float((totals >= floors + allowance).mean()) for allowance in allowances]
    return {"objective": objective, "objective_se": objective_se, "floor": float(floors.mean()),
            "exceeding": above[0], "above": above[1]}  # fmt: skip


def draw(table):
    drawn, (left, right) = figure(columns=2)
    for (nu, beta, gamma), part in table.group_by("nu", "beta", "gamma", maintain_order=True):
        name = f"ν = {nu:g}, β = {beta:g}, γ = {gamma:g}"
        left.plot(part["sellers"], part["proxy"] - nu, "o-", label=name)
        right.plot(part["sellers"], part["surprise"] / part["stated"], "o-", label=name)
    label(left, "What the bound adds to ν", "sellers m", "proxy loss - ν", log="xy")
    label(right, "-ln δ over the stated exponent", "sellers m", "ratio", log="xy", legend=False)
    right.axhline(1.0, color="k", linestyle=":")
    left.legend(fontsize=6)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
