"""Judge the change of variables of the appendix algorithm, and its line search over the noise rate."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, verdict


def _name(part: ResultTable) -> str:
    return f"Λ = {part.number('l2')[0]:g}, μ = {part.number('concentration')[0]:g}"


def _variable_parts(table: ResultTable) -> list[ResultTable]:
    return [
        table.where(l2=l2, concentration=mu, noise=sigma) for l2, mu, sigma in table.configuration["settings"]
    ]


def _variables_setting(tables: Tables) -> str:
    config = tables["variables"].configuration
    return (
        f"Breast cancer records (m = 341, n = 31), γ = {config['payment_weight']:g}, no cap. Over (w, ε): "
        f"projected descent with backtracking from mean ε = {', '.join(f'{s:g}' for s in config['starts'])}, "
        f"at most {config['most']:,} steps. Over (w, a) at given η: the paper's descent at each of "
        f"{len(config['grid'])} noise rates. Both until the objective is within {config['accuracy']:.0e} of "
        "the optimum (at that η)."
    )


def _variables(tables: Tables) -> Judgement:
    table = tables["variables"]
    accuracy = float(table.configuration["accuracy"])
    direct = table.where(variables="promises")
    ways = [
        direct.where(l2=part.number("l2")[0], concentration=part.number("concentration")[0], start=start)
        for part in _variable_parts(direct)
        for start in direct.values_of("start")
    ]
    reached = [bool(way.number("end_gap")[0] <= 1.01 * accuracy) for way in ways]
    weights = table.where(variables="weights")
    always = bool((weights.number("end_gap") <= 1.01 * accuracy).all())
    first = _variable_parts(table)[0]
    best = float(first.where(variables="promises").number("end_gap").min())
    return Judgement(
        verdict(always=always and not all(reached), sometimes=always),
        f"Over weights at a given noise rate the descent reaches the accuracy at every setting; over the "
        f"promises themselves in {sum(reached)} of {len(reached)} tries within "
        f"{table.configuration['most']:,} steps. Where Λ and 2μ are of one size the whole line search takes "
        f"{first.number('line_search_steps')[0]:,.0f} steps, while descent over promises is still "
        f"{best:.1%} above the optimum after {table.configuration['most']:,}.",
    )


def _variables_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _variable_parts(tables["variables"]):
        direct, weights = part.where(variables="promises"), part.where(variables="weights")
        cells = []
        for start in direct.values_of("start"):
            mine = direct.where(start=start)
            cells.append(f"{mine.number('steps')[0]:,.0f} ({mine.number('end_gap')[0]:.0e})")
        rows.append(
            (
                f"{_name(part)}, σ = {part.number('noise')[0]:g}",
                f"{weights.number('steps')[0]:,.0f}",
                f"{part.number('line_search_steps')[0]:,.0f} ({part.number('line_search_gap')[0]:.0e})",
                *cells,
            )
        )
    starts = tables["variables"].where(variables="promises").values_of("start")
    return sheet(
        "Steps, and in parentheses how far above the optimum the last one is (relative; for the line search, "
        "what the grid of η leaves).",
        (
            "settings",
            "over (w, a), longest at one η",
            "over (w, a), whole line search",
            *(f"over (w, ε), from mean ε {start:g}" for start in starts),
        ),
        rows,
    )


def _searches(table: ResultTable) -> list[ResultTable]:
    """Return the rows of every line search of the printed objective: one draw, one setting, one grid."""
    printed = table.where(reading="as printed")
    return [
        printed.where(l2=l2, noise=sigma, draw=draw, lowest=low)
        for l2, sigma in table.configuration["settings"]
        for draw in printed.values_of("draw")
        for low in table.configuration["lowest"]
    ]


def _printed_setting(tables: Tables) -> str:
    config = tables["printed"].configuration
    return (
        f"Breast cancer records (m = 341, n = 31), μ = {config['concentration']:g}, γ = "
        f"{config['payment_weight']:g}, no cap; {len(config['settings'])} pairs (Λ, σ); grids of "
        f"{config['grid']} mean ε from {', '.join(f'{x:g}' for x in sorted(config['lowest']))} to "
        f"{config['highest']:g}; {config['draws']} draws of b, drawn before the search as the algorithm says."
    )


def _at_edge(search: ResultTable) -> bool:
    return search.text("edge")[0] == "lowest"


def _printed(tables: Tables) -> Judgement:
    table = tables["printed"]
    searches = _searches(table)
    edge = np.array([_at_edge(search) for search in searches])
    reach = np.array([float(search.number("lowest")[0] / search.number("turning")[0]) for search in searches])
    above = reach > 1.5
    two = [
        f"{reading}: mean ε = {table.where(reading=reading).number('chosen')[0]:.3g}"
        for reading in ("expected noise", "bounded coefficients")
    ]
    return Judgement(
        verdict(always=not edge.any(), sometimes=not edge[above].any()),
        f"The line search finds a minimum inside in {(~edge).sum()} of {edge.size} cases: in "
        f"{(~edge[above]).sum()} of {above.sum()} whose grid ends above 1.5 times 2|b|²/(Λσ), and in "
        f"{(~edge[~above]).sum()} of {(~above).sum()} others. Below that value the objective, in which w is "
        "free and b already drawn, is about −2|b|²/(Λη²) and falls without bound, so that a finer grid ends "
        "at its lowest η. Condition: a grid that stays above it. Or a reading with a minimum: "
        f"{'; '.join(two)}.",
    )


def _printed_robustness(tables: Tables) -> Sheet:
    table = tables["printed"]
    lows = sorted(table.configuration["lowest"])
    rows = []
    for l2, sigma in table.configuration["settings"]:
        mine = table.where(reading="as printed", l2=l2, noise=sigma)
        turning = mine.number("turning")
        cells = []
        for low in lows:
            ends = [not _at_edge(mine.where(lowest=low, draw=draw)) for draw in mine.values_of("draw")]
            cells.append(f"{sum(ends)} of {len(ends)}")
        rows.append((f"Λ = {l2:g}, σ = {sigma:g}", f"{turning.min():.2g} to {turning.max():.2g}", *cells))
    return sheet(
        "Draws of b whose line search ends inside the grid, by the lowest mean ε of the grid.",
        ("settings", "2|b|²/(Λσm), by draw", *(f"from {low:g}" for low in lows)),
        rows,
    )


SEARCHING_CLAIMS = (
    Claim(
        "contributions-variables",
        "Contributions",
        "“We observe fast convergence, indicating the usefulness of the change of variables.”",
        "The change of variables from ε to (a, η) is useful.",
        ("variables",),
        _variables_setting,
        _variables,
        _variables_robustness,
    ),
    Claim(
        "algorithm4-minimum",
        "Algorithm `alg:mechanism-base`",
        "“We first optimize f(w, a, η) with respect to (w, a) for a fixed η … and then perform a line "
        "search over the scalar parameter η.”",
        "A line search over the mean epsilon finds the optimum of the objective.",
        ("printed",),
        _printed_setting,
        _printed,
        _printed_robustness,
        repair="Keep |w| ≤ β, as the theorems do (then the paper's σ suffices with probability 1 − δ'), or "
        "choose (a, η) without the noise, whose mean is 0, and train with it.",
    ),
)
