"""Judge the error bound and the asymptotic theorems."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.verdicts import Claim, Judgement, Tables, verdict


def _error_bound(tables: Tables) -> Judgement:
    table = tables["error-bound"]
    broken, corrected = table.number("printed_broken"), table.number("corrected_broken")
    allowed = float(table.number("allowed")[0])
    records = table.number("records")
    fails = records[broken > allowed]
    return Judgement(
        verdict(bool((broken <= allowed).all()), False),
        "Records all alike and a small coefficient of the wrong sign: every prediction is wrong, and the "
        f"printed bound is below 1 in {broken.max():.0%} of runs at m = "
        f"{fails[0] if fails.size else records[-1]:,.0f} (allowed: {allowed:.0%}), because ln 2 < 1. With "
        f"the loss in bits and the corrected constants it is broken in {corrected.max():.0%}.",
    )


def _asymptotic(tables: Tables) -> Judgement:
    table = tables["asymptotic"]
    radius = max(table.values_of("coef_radius"))
    part = table.where(buyer="offline", coef_radius=radius)
    m, value, floor = (part.number(name) for name in ("sellers", "objective", "floor"))
    exceeding = part.number("exceeding")
    falls = bool(value[-1] < value[0])
    within = bool(exceeding[-1] < exceeding[0])
    nu = table.configuration["allowance"]
    return Judgement(
        verdict(falls and within, falls),
        f"With β = {radius:g} the mean of error + γ·payments falls from {value[0]:.3f} (m = {m[0]:,.0f}) "
        f"to {value[-1]:.3f} (m = {m[-1]:,.0f}), towards log(1 + e^(−ρβ)) = {floor[-1]:.3f}; the share of "
        f"runs above that + {nu:g} falls from {exceeding[0]:.0%} to {exceeding[-1]:.0%}. Hyper-parameters "
        "are constants here; the theorem lets them grow with m.",
    )


def _online_asymptotic(tables: Tables) -> Judgement:
    table = tables["asymptotic"]
    radius = max(table.values_of("coef_radius"))
    offline, literal = (
        table.where(buyer=buyer, coef_radius=radius).number("objective") for buyer in ("offline", "literal")
    )
    spread = table.where(buyer="offline", coef_radius=radius).number("objective_se")
    similar = bool(abs(literal[-1] - offline[-1]) <= 2.0 * spread[-1] + 0.01)
    return Judgement(
        verdict(similar, bool(literal[-1] < literal[0])),
        f"On U[0, 1] Algorithm 3 reaches {literal[-1]:.4f} at the largest m, offline {offline[-1]:.4f}; at "
        f"the smallest {literal[0]:.3f} against {offline[0]:.3f}.",
    )


def _arrivals(tables: Tables) -> Judgement:
    table = tables["arrivals"]
    worst, few = 0.0, 0.0
    for curve in table.values_of("curve"):
        for m in table.values_of("expected_sellers"):
            part = table.where(curve=curve, expected_sellers=m)
            product = part.number("ratio") * part.number("participation")
            worst = max(worst, float(product.max()))
            few = max(few, float(part.number("ratio")[part.number("participation").argmin()]))
    lowest = float(table.number("participation").min())
    return Judgement(
        verdict(worst <= 1.0 + 0.02, worst <= 2.0),
        f"Loss with a fraction ξ of the sellers over loss with all, times ξ: at most {worst:.3f} for ξ "
        f"from {lowest:g} to 1 (at ξ = {lowest:g} the loss is {few:.1f} times as large); 1 would be 1/ξ.",
    )


def _budget(tables: Tables) -> Judgement:
    table = tables["budget"]
    bounded = True
    phrases = []
    for low in table.values_of("low"):
        for target in table.values_of("target"):
            part = table.where(low=low, target=target)
            budget = part.number("budget")[np.isfinite(part.number("budget"))]
            bounded = bounded and bool((np.diff(budget) < 0.0).all())
            phrases.append(
                f"U[{low:g}, {part.number('high')[0]:g}], excess risk {target:g}: {budget[0]:.3g} to "
                f"{budget[-1]:.3g} (limit {part.number('limit')[0]:g})"
            )
    return Judgement(
        verdict(bounded, False),
        ("It even falls" if bounded else "It does not always fall")
        + " with the number of sellers: "
        + "; ".join(phrases)
        + ".",
    )


THEORY_CLAIMS = (
    Claim(
        "gen-loss",
        "Theorem `gen loss`",
        "The error is at most loss + μ|a| + σ/η with probability 1 − δ − δ', with the printed constants.",
        ("error-bound",),
        _error_bound,
    ),
    Claim(
        "thm-asymptotic",
        "Theorem `thm: asymptotic`",
        "On separable data the buyer's objective exceeds log(1 + e^(−ρβ)) + ν with vanishing probability.",
        ("asymptotic",),
        _asymptotic,
    ),
    Claim(
        "thm-perf-bounds-online",
        "Theorem `thm: perf bounds`",
        "The online algorithm achieves similar bounds as the offline one.",
        ("asymptotic",),
        _online_asymptotic,
    ),
    Claim(
        "thm-perf-bounds-arrivals",
        "Theorem `thm: perf bounds`",
        "If only a fraction ξ of the sellers comes, the loss grows by O(1/ξ).",
        ("arrivals",),
        _arrivals,
    ),
    Claim(
        "contributions-budget",
        "Contributions",
        "Because the buyer chooses whom to buy from, the budget for a given loss is bounded.",
        ("budget",),
        _budget,
    ),
)
