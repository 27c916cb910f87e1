"""Judge what the paper says about descent on the appendix problem: convexity, rate, starts."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, verdict, yes

_SAME = 1e-3
_STRAIGHT = 0.8


def _convexity_setting(tables: Tables) -> str:
    config = tables["convexity"].configuration
    return (
        f"m = {config['people']} records of three kinds (the worst ones, breast cancer, random); 2Λμ/m from "
        f"{min(config['ratios']):g} to {max(config['ratios']):g}, divided between Λ and 2μ in the ratios "
        f"{', '.join(f'{b:g}' for b in config['balances'])}; the smallest eigenvalue of the Hessian over "
        f"{config['points']} random points (w, a) and over points far out."
    )


def _convexity(tables: Tables) -> Judgement:
    table = tables["convexity"]
    met = table.number("ratio") > 1.0
    holds = bool((table.number("lowest")[met] > 0.0).all())
    worst = table.where(records="worst")
    below = worst.number("ratio") < 1.0
    lost = int((worst.number("lowest")[below] < 0.0).sum())
    return Judgement(
        verdict(always=holds, sometimes=False),
        f"Where 2Λμ > m every eigenvalue found is positive ({met.sum()} settings). For the worst records the "
        f"condition is also necessary: below it {lost} of {below.sum()} settings have a negative one, even "
        "along directions that keep the sum of the weights. For given records 2Λμ > |X|² (squared spectral "
        "norm, at most m) suffices.",
    )


def _convexity_robustness(tables: Tables) -> Sheet:
    table = tables["convexity"]
    rows = []
    for kind in table.values_of("records"):
        for balance in table.values_of("balance"):
            part = table.where(records=kind, balance=balance)
            convex = part.number("lowest") > 0.0
            rows.append(
                (
                    str(kind),
                    f"{balance:g}",
                    f"{part.number('ratio')[convex].min():g}",
                    f"{part.number('sharp_ratio')[convex].min():.2g}",
                    f"{part.number('ratio')[~convex].max():g}" if (~convex).any() else "none",
                    f"{part.number('ratio')[part.number('inside') > 0.0].min():g}",
                )
            )
    return sheet(
        "The smallest 2Λμ/m tried at which no negative eigenvalue was found, and the largest at which one "
        "was.",
        (
            "records",
            "Λ/(2μ)",
            "convex from 2Λμ/m =",
            "2Λμ/|X|² there",
            "not convex up to",
            "within the sum, from",
        ),
        rows,
    )


def _parts(table: ResultTable) -> list[ResultTable]:
    return [table.where(l2=l2, concentration=mu) for l2, mu in table.configuration["settings"]]


def _line(part: ResultTable) -> tuple[float, float]:
    """Return the factor per step over the middle of the descents' logarithmic gap, and how straight it is."""
    factors, fits = [], []
    for start in part.values_of("start"):
        mine = part.where(start=start)
        step, gap = mine.number("step"), mine.number("gap")
        use = (gap > 1e-9 * gap[0]) & (gap > 1e-11) & (gap < 0.5 * gap[0])
        if use.sum() < 3:
            continue
        slope, offset = np.polyfit(step[use], np.log(gap[use]), 1)
        left = np.log(gap[use]) - (slope * step[use] + offset)
        factors.append(float(np.exp(slope)))
        fits.append(1.0 - float(left.var() / np.log(gap[use]).var()))
    return (float(np.mean(factors)), float(np.min(fits))) if factors else (np.nan, np.nan)


def _name(part: ResultTable) -> str:
    return f"Λ = {part.number('l2')[0]:g}, μ = {part.number('concentration')[0]:g}"


def _descent_setting(tables: Tables) -> str:
    config = tables["descent"].configuration
    return (
        f"Breast cancer records (m = 341, n = 31), η = {config['noise_rate']:g}, σ = {config['noise']:g}, "
        f"γ = {config['payment_weight']:g}, no cap; step size 1/K as in the proof; {config['starts']} starts "
        f"from N(0, 1); tolerance {config['tolerance']:.0e}; {len(config['settings'])} pairs (Λ, μ). The "
        "projection is onto the whole constraint set; the pseudo-code's is onto the sum alone."
    )


def _linear(tables: Tables) -> Judgement:
    parts = [part for part in _parts(tables["descent"]) if part.number("condition")[0] > 1.0]
    lines = [_line(part) for part in parts]
    holds = all(factor < 1.0 and fit > _STRAIGHT for factor, fit in lines)
    phrases = "; ".join(
        f"{_name(part)}: {factor:.4f} (R² {fit:.3f})"
        for part, (factor, fit) in zip(parts, lines, strict=True)
    )
    return Judgement(
        verdict(always=holds, sometimes=all(factor < 1.0 for factor, _ in lines)),
        "The logarithm of the gap to the minimum falls along a straight line. Factor per step where "
        f"2Λμ/m > 1: {phrases}.",
    )


def _linear_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _parts(tables["descent"]):
        factor, fit = _line(part)
        rows.append(
            (
                _name(part),
                f"{part.number('condition')[0]:.2g}",
                f"{factor:.5f}" if np.isfinite(factor) else "too few steps",
                f"{fit:.3f}" if np.isfinite(fit) else "",
                f"{part.number('steps').max():,.0f}",
            )
        )
    return sheet(
        "The factor by which a step shrinks the gap, also far below the theorem's condition.",
        ("Λ and μ", "2Λμ/m", "factor per step", "R² of the line", "steps"),
        rows,
    )


def _fast(tables: Tables) -> Judgement:
    parts = _parts(tables["descent"])
    one = [part for part in parts if part.number("apart")[0] < _SAME]
    straight = [fit > _STRAIGHT for factor, fit in map(_line, one) if np.isfinite(factor)]
    steps = np.array([float(part.number("steps").max()) for part in parts])
    condition = np.array([float(part.number("condition")[0]) for part in parts])
    same = np.flatnonzero(condition > 1.0)
    quick, slow = same[steps[same].argmin()], same[steps[same].argmax()]
    return Judgement(
        verdict(always=all(straight), sometimes=any(straight)),
        "Fast is read as the theorem has it: a linear (geometric) rate. It is seen at all "
        f"{sum(straight)} of {len(straight)} settings at which every start ends at one point. At the same "
        f"2Λμ/m = {condition[quick]:.2f} it takes {steps[quick]:,.0f} steps with {_name(parts[quick])} and "
        f"{steps[slow]:,.0f} with {_name(parts[slow])}: what counts is that Λ and 2μ are of one size. "
        "(Newton steps on w alone, with the best weights put in, take at most "
        f"{tables['descent'].number('newton_steps').max():.0f}.)",
    )


def _fast_robustness(tables: Tables) -> Sheet:
    parts = sorted(_parts(tables["descent"]), key=lambda part: -float(part.number("condition")[0]))
    rows = [
        (
            f"{part.number('condition')[0]:.2g}",
            _name(part),
            f"{part.number('l2')[0] / (2.0 * part.number('concentration')[0]):.2g}",
            f"{part.number('steps').max():,.0f}",
            f"{part.number('newton_steps').max():.0f}",
        )
        for part in parts
    ]
    return sheet(
        "Steps to the tolerance, for the same and for other 2Λμ/m.",
        ("2Λμ/m", "Λ and μ", "Λ/(2μ)", "steps of descent", "Newton steps"),
        rows,
    )


def _same_point(tables: Tables) -> Judgement:
    parts = _parts(tables["descent"])
    same = [bool(part.number("apart")[0] < _SAME) for part in parts]
    condition = [float(part.number("condition")[0]) for part in parts]
    below = [c for c, s in zip(condition, same, strict=True) if s and c <= 1.0]
    apart = [c for c, s in zip(condition, same, strict=True) if not s]
    convex = all(s for s, part in zip(same, parts, strict=True) if part.number("sharp_condition")[0] > 1.0)
    ending = f" At 2Λμ/m = {max(apart):.1g} and below they end at different points." if apart else ""
    return Judgement(
        verdict(always=all(same), sometimes=convex and bool(below)),
        f"Different starts end at the same point (relative distance below {_SAME:g}) down to 2Λμ/m = "
        f"{min(below):.1g}, {1.0 / min(below):,.0f} times below the theorem's condition: as the paper "
        f"suspects, it is stricter than needed.{ending} Condition: not too far below.",
    )


def _starts_robustness(tables: Tables) -> Sheet:
    parts = sorted(_parts(tables["descent"]), key=lambda part: -float(part.number("condition")[0]))
    rows = [
        (
            _name(part),
            f"{part.number('condition')[0]:.2g}",
            f"{part.number('sharp_condition')[0]:.2g}",
            f"{part.number('apart')[0]:.0e}",
            yes(part.number("apart")[0] < _SAME),
        )
        for part in parts
    ]
    return sheet(
        "How far apart the end points of different starts are.",
        ("Λ and μ", "2Λμ/m", "2Λμ/|X|²", "relative distance", "same point"),
        rows,
    )


SOLVING_CLAIMS = (
    Claim(
        "convexify-convex",
        "Theorem `convexify`",
        "“the objective function … is strictly convex in (w, a) if 2Λμ > m for any σ, η ∈ R₊.”",
        "For 2Λμ > m the appendix objective is strictly convex in (w, a).",
        ("convexity",),
        _convexity_setting,
        _convexity,
        _convexity_robustness,
    ),
    Claim(
        "convexify-linear",
        "Theorem `convexify`",
        "“for 2Λμ > m, there exists 0 < α < 1, such that f(wᵗ, aᵗ, η) − f*_η ≤ αᵗ (f(w⁰, a⁰, η) − f*_η).”",
        "For 2Λμ > m projected gradient descent converges at a linear rate.",
        ("descent",),
        _descent_setting,
        _linear,
        _linear_robustness,
    ),
    Claim(
        "contributions-fast",
        "Contributions",
        "“We observe fast convergence”",
        "Convergence is fast: at a linear rate, as the theorem says.",
        ("descent",),
        _descent_setting,
        _fast,
        _fast_robustness,
    ),
    Claim(
        "convexify-starts",
        "Appendix, after theorem `convexify`",
        "“in practice, smaller values of Λ, μ, would be sufficient … projected gradient descent on (w, a) "
        "for a fixed η converges to the same stationary point for different initializations.”",
        "Smaller Λ and μ suffice: descent from different starts ends at the same stationary point.",
        ("descent",),
        _descent_setting,
        _same_point,
        _starts_robustness,
    ),
)
