"""Judge how the proxy loss falls: the rate, its probability, weaker densities, fewer sellers."""

from __future__ import annotations

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, verdict
from dpmarket.paper.figures.rate import SHAPES

_LEMMA = "Lemma `thm: offline perf`"


def _parts(table: ResultTable, *, steady: bool) -> list[ResultTable]:
    """Return the rows of every shape and scale: of densities above 0 at 0, or of those that rise from 0."""
    return [
        table.where(shape=shape, scale=scale)
        for shape in table.values_of("shape")
        if (table.where(shape=shape).number("power")[0] == 0.0) == steady
        for scale in table.values_of("scale")
    ]


def _slope(part: ResultTable) -> float:
    m, loss = part.number("sellers"), part.number("loss")
    return float(np.log(loss[-1] / loss[-2]) / np.log(m[-1] / m[-2]))


def _rate_setting(tables: Tables) -> str:
    config = tables["rate"].configuration
    return (
        "Algorithm 2 without cap, μ = σ = 1, γ = "
        f"{', '.join(f'{g:.0e}' for g in config['payment_weights'])}; m from {min(config['sellers']):,} to "
        f"{max(config['sellers']):,}; {config['draws']:,} draws of costs each; densities of costs that are "
        "above 0 at 0 (U[0, 1], U[0, 3], e^(−c) on [0, 1]) or rise from it (2c and 3c² on [0, 1])."
    )


def _rate(tables: Tables) -> Judgement:
    parts = _parts(tables["rate"], steady=True)
    slopes = [_slope(part) for part in parts]
    reached = [float(part.number("loss")[-1] / part.number("leading")[-1]) for part in parts]
    holds = all(abs(slope + 0.25) < 0.03 for slope in slopes) and all(abs(r - 1.0) < 0.05 for r in reached)
    return Judgement(
        verdict(always=holds, sometimes=False),
        f"The slope of log loss against log m is between {min(slopes):.3f} and {max(slopes):.3f} at the two "
        f"largest m, and the loss there is {min(reached):.3f} to {max(reached):.3f} times the leading term "
        "with E₂ = 4 f_Ψ(0)^(−1/4), to which the printed constant tends ([errata](errata.md)): the lemma's "
        "bound is sharp.",
    )


def _rate_robustness(tables: Tables) -> Sheet:
    rows = [
        (
            SHAPES[part.text("shape")[0]],
            f"{part.number('scale')[0]:,.0f}",
            f"{_slope(part):.4f}",
            f"{part.number('loss')[0] / part.number('leading')[0]:.3f}",
            f"{part.number('loss')[-1] / part.number('leading')[-1]:.4f}",
        )
        for part in _parts(tables["rate"], steady=True)
    ]
    m = tables["rate"].number("sellers")
    return sheet(
        "Other costs with mass at 0, and another γ.",
        (
            "costs",
            "μ²/(σγ)",
            "slope at the end",
            f"loss / leading term, m = {m.min():,.0f}",
            f"m = {m.max():,.0f}",
        ),
        rows,
    )


def _falls(shares: FloatArray, draws: int) -> bool:
    """Whether shares of draws fall, up to three standard errors of each step."""
    spread = np.sqrt(np.maximum(shares * (1.0 - shares), 1.0 / draws) / draws)
    return bool((np.diff(shares) <= 3.0 * np.hypot(spread[1:], spread[:-1])).all())


def _probability(tables: Tables) -> Judgement:
    table = tables["rate"]
    config = table.configuration
    part = _parts(table, steady=True)[0]
    shares, m = part.number("exceeding"), part.number("sellers")
    falls = all(_falls(one.number("exceeding"), config["draws"]) for one in _parts(table, steady=True))
    spread = part.number("spread") * m**0.25
    phrases = ", ".join(f"{share:.1%}" for share in shares)
    return Judgement(
        verdict(always=falls and bool(shares[-1] <= shares[0]), sometimes=falls),
        f"For r' = {config['excess']:g} and the bound (1 + {config['margin']:g} m^(−r')) times the leading "
        f"term: {phrases} of the draws are above it on U[0, 1] for m = {m[0]:,.0f} to {m[-1]:,.0f}. The "
        f"relative spread of the loss times m^(1/4) stays between {spread.min():.2f} and {spread.max():.2f}: "
        "fluctuations of size m^(−1/4), for which exceeding by m^(−r') has the probability "
        "exp(−const·m^(1/2−2r')) that the lemma states.",
    )


def _probability_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _parts(tables["rate"], steady=True):
        m = part.number("sellers")
        spread = part.number("spread") * m**0.25
        rows.append(
            (
                SHAPES[part.text("shape")[0]],
                f"{part.number('scale')[0]:,.0f}",
                f"{part.number('exceeding')[0]:.1%}",
                f"{part.number('exceeding')[-1]:.1%}",
                f"{spread[0]:.3f} to {spread[-1]:.3f}",
            )
        )
    m = tables["rate"].number("sellers")
    return sheet(
        "Share of draws above the bound, and the relative spread of the loss times m^(1/4). Where the "
        "density changes near 0, the loss needs more sellers to come near its leading term.",
        ("costs", "μ²/(σγ)", f"above, m = {m.min():,.0f}", f"above, m = {m.max():,.0f}", "spread · m^(1/4)"),
        rows,
    )


def _density(tables: Tables) -> Judgement:
    parts = _parts(tables["rate"], steady=False)
    falls = all(bool((np.diff(part.number("loss")) < 0.0).all()) for part in parts)
    wanted = [-0.5 / (2.0 + float(part.number("power")[0])) for part in parts]
    slopes = [_slope(part) for part in parts]
    near = all(abs(slope - want) < 0.03 for slope, want in zip(slopes, wanted, strict=True))
    phrases = "; ".join(
        f"density like c^{part.number('power')[0]:.0f}: {slope:.3f} (expected {want:.3f})"
        for part, slope, want in zip(parts, slopes, wanted, strict=True)
    )
    return Judgement(
        verdict(always=falls and near, sometimes=falls),
        "The proof goes through with (λ − γψ)⁺ of order m^(−1/(n+2)), where n is the first derivative of the "
        f"density that is not 0 at 0: the loss falls like m^(−1/(2(n+2))). Slopes at the two largest m: "
        f"{phrases}. Similar in kind, slower in rate.",
    )


def _density_robustness(tables: Tables) -> Sheet:
    rows = [
        (
            SHAPES[part.text("shape")[0]],
            f"{part.number('scale')[0]:,.0f}",
            f"{part.number('loss')[0]:.4f} to {part.number('loss')[-1]:.4f}",
            f"{_slope(part):.4f}",
            f"{-0.5 / (2.0 + part.number('power')[0]):.4f}",
        )
        for part in (
            *(one for one in _parts(tables["rate"], steady=True) if one.text("shape")[0] == "power 0"),
            *_parts(tables["rate"], steady=False),
        )
    ]
    return sheet(
        "The exponent of the rate for densities that rise from 0, beside U[0, 1].",
        ("costs", "μ²/(σγ)", "loss", "slope at the end", "−1/(2(n+2))"),
        rows,
    )


def _arrivals_parts(table: ResultTable) -> list[ResultTable]:
    return [
        table.where(curve=curve, expected_sellers=m)
        for curve in table.values_of("curve")
        for m in table.values_of("expected_sellers")
    ]


def _arrivals_setting(tables: Tables) -> str:
    config = tables["arrivals"].configuration
    return (
        f"Costs from U[{config['low']:g}, {config['high']:g}], where the theorem's assumption holds; curves "
        f"made for m = {', '.join(f'{m:,}' for m in config['expected_sellers'])} expected sellers, of whom a "
        f"fraction ξ from {min(config['participations']):g} to 1 comes; μ = {config['concentration']:g}, "
        f"σ = {config['noise']:g}, γ = {config['payment_weight']:g}; {config['draws']} draws."
    )


def _arrivals(tables: Tables) -> Judgement:
    worst, few = 0.0, 0.0
    for part in _arrivals_parts(tables["arrivals"]):
        worst = max(worst, float((part.number("ratio") * part.number("participation")).max()))
        few = max(few, float(part.number("ratio")[part.number("participation").argmin()]))
    lowest = float(tables["arrivals"].number("participation").min())
    return Judgement(
        verdict(always=worst <= 1.0 + 0.02, sometimes=worst <= 2.0),
        f"Loss with a fraction ξ of the sellers over loss with all, times ξ: at most {worst:.3f} for ξ "
        f"from {lowest:g} to 1 (at ξ = {lowest:g} the loss is {few:.1f} times as large); 1 would be 1/ξ.",
    )


def _arrivals_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _arrivals_parts(tables["arrivals"]):
        order = np.argsort(part.number("participation"))
        share, ratio = part.number("participation")[order], part.number("ratio")[order]
        half = int(np.argmin(np.abs(share - 0.5)))
        name = {"literal": "Algorithm 3", "population": "population curve"}[part.text("curve")[0]]
        rows.append(
            (
                name,
                f"{part.number('expected_sellers')[0]:,.0f}",
                f"{ratio[0]:.2f} (1/ξ = {1.0 / share[0]:.0f})",
                f"{ratio[half]:.2f} (1/ξ = {1.0 / share[half]:.0f})",
                f"{(ratio * share).max():.3f}",
            )
        )
    lowest = float(tables["arrivals"].number("participation").min())
    return sheet(
        "Loss over loss with everybody, for the printed curve and for one fitted to the whole distribution.",
        ("curve", "expected sellers", f"ξ = {lowest:g}", "ξ = 0.5", "largest ratio · ξ"),
        rows,
    )


RATE_CLAIMS = (
    Claim(
        "lemma-rate",
        _LEMMA,
        "“L_m(c, ε̂) ≤ E₂ σ^(1/4) μ^(1/2) γ^(1/4) / (√3 m^(1/4)) + O(m^(−1/4−r'))”",
        "The proxy loss is O(m^(−1/4)), with constant E₂ σ^(1/4) μ^(1/2) γ^(1/4) / √3.",
        ("rate",),
        _rate_setting,
        _rate,
        _rate_robustness,
    ),
    Claim(
        "lemma-probability",
        _LEMMA,
        "“with probability at least 1 − δ̄ where δ̄ = O(exp(−m^(1/2−2r')))”",
        "The bound on the proxy loss is exceeded with a probability that vanishes like exp(−m^(1/2−2r')).",
        ("rate",),
        _rate_setting,
        _probability,
        _probability_robustness,
    ),
    Claim(
        "footnote-density",
        "Assumption `assumption: pdf`, footnote",
        "“Similar results also hold under a weaker assumption such as dⁿf_C(c)/dcⁿ ≠ 0 in an interval around "
        "0 for some n.”",
        "Where the density of costs is 0 at 0 but rises from it, the loss still tends to 0 at a power of m.",
        ("rate",),
        _rate_setting,
        _density,
        _density_robustness,
    ),
    Claim(
        "thm-perf-bounds-arrivals",
        "Theorem `thm: perf bounds` and its proof",
        "“Thus, we see that E₄ is of the order O(1/ξ).”",
        "If only a fraction ξ of the sellers comes, the loss grows by O(1/ξ).",
        ("arrivals",),
        _arrivals_setting,
        _arrivals,
        _arrivals_robustness,
    ),
)
