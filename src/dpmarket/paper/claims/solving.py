"""Judge what the paper says about solving its problems: convergence, starts, the appendix objective."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Tables, verdict

_SAME = 1e-3
_FAST = 1000


def _rates(part: ResultTable) -> tuple[float, float]:
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
    return float(np.mean(factors)), float(np.min(fits))


def _settings(table: ResultTable) -> list[ResultTable]:
    return [table.where(concentration=mu) for mu in table.values_of("concentration")]


def _linear(tables: Tables) -> Judgement:
    parts = [part for part in _settings(tables["descent"]) if part.number("condition")[0] > 1.0]
    factor, fit = _rates(parts[0])
    holds = factor < 1.0 and fit > 0.8
    return Judgement(
        verdict(holds, factor < 1.0),
        f"With 2Λμ/m = {parts[0].number('condition')[0]:.2f} the gap shrinks by a factor of {factor:.5f} "
        f"per step (straight line through its logarithm: R² {fit:.3f}). The theorem's projection is onto "
        "the sum alone; here it is onto the whole constraint set.",
    )


def _fast(tables: Tables) -> Judgement:
    table = tables["descent"]
    rows, steps = [], []
    for part in _settings(table):
        steps.append(float(part.number("steps").max()))
        rows.append(f"{steps[-1]:,.0f} (2Λμ/m = {part.number('condition')[0]:.2g})")
    return Judgement(
        verdict(max(steps) < _FAST, min(steps) < _FAST),
        f"The paper names no number; fast is taken as fewer than {_FAST:,} steps to the tolerance of "
        f"{table.configuration['tolerance']:.0e}. Descent takes {'; '.join(rows)}. "
        "Putting the best weights into the objective and taking Newton steps takes at most "
        f"{table.number('newton_steps').max():.0f}.",
    )


def _same_point(tables: Tables) -> Judgement:
    parts = _settings(tables["descent"])
    same = [bool(part.number("apart")[0] < _SAME) for part in parts]
    met = [bool(part.number("sharp_condition")[0] > 1.0) for part in parts]
    phrases = [
        f"{part.number('apart')[0]:.0e} apart at 2Λμ/m = {part.number('condition')[0]:.2g}" for part in parts
    ]
    below = [s for s, part in zip(same, parts, strict=True) if part.number("condition")[0] <= 1.0]
    convex = all(s for s, m in zip(same, met, strict=True) if m)
    return Judgement(
        verdict(all(same), convex and any(below)),
        f"End points of several starts (relative distance): {'; '.join(phrases)}. The theorem's condition is "
        "indeed stricter than needed: 2Λμ > |X|² (squared spectral norm) suffices. Far below it different "
        "starts end at different points.",
    )


def _printed(tables: Tables) -> Judgement:
    table = tables["printed"]
    mine = table.where(reading="as printed")
    x, values = mine.number("mean_epsilon"), mine.number("objective")
    lowest = bool(int(values.argmin()) == int(x.argmin()))
    inside = [
        f"{reading}: mean ε = {table.where(reading=reading).number('chosen')[0]:.3g}"
        for reading in ("expected noise", "bounded coefficients")
    ]
    return Judgement(
        verdict(not lowest, False),
        f"As printed, with the noise b drawn and w free, the objective is {values[x.argmin()]:.3g} at the "
        f"grid's lowest mean ε ({x.min():g}) and falls without bound below it: the line search always ends "
        f"there. Two readings have a minimum inside the grid ({'; '.join(inside)}); the experiments use "
        "the first.",
    )


SOLVING_CLAIMS = (
    Claim(
        "convexify-linear",
        "Theorem `convexify`",
        "For 2Λμ > m projected gradient descent converges at a linear rate.",
        ("descent",),
        _linear,
    ),
    Claim(
        "contributions-fast",
        "Contributions",
        "Fast convergence is observed.",
        ("descent",),
        _fast,
    ),
    Claim(
        "convexify-starts",
        "Appendix, after theorem `convexify`",
        "Smaller Λ and μ suffice: descent from different starts ends at the same stationary point.",
        ("descent",),
        _same_point,
    ),
    Claim(
        "algorithm4-minimum",
        "Algorithm `alg:mechanism-base`",
        "A line search over the mean epsilon finds the optimum of the objective.",
        ("printed",),
        _printed,
    ),
)
