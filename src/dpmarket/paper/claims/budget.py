"""Judge what the paper says about budgets: that one suffices for a given loss, and how to meet one."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, tiny, verdict, yes


def _budget_parts(table: ResultTable) -> list[ResultTable]:
    return [
        table.where(low=low, target=target)
        for low in table.values_of("low")
        for target in table.values_of("target")
    ]


def _budget_setting(tables: Tables) -> str:
    config = tables["budget"].configuration
    return (
        "Expected payments of the cheapest plan that reaches a given excess risk μ|a| + σ/η, with "
        f"μ = {config['concentration']:g} and σ = {config['noise']:g}; targets "
        f"{', '.join(f'{t:g}' for t in config['targets'])}; m from {min(config['sellers']):,} to "
        f"{max(config['sellers']):,}; costs from U[1, 5] and U[0, 1]."
    )


def _budget(tables: Tables) -> Judgement:
    table = tables["budget"]
    falls, reached, phrases = True, True, []
    for part in _budget_parts(table):
        possible = np.isfinite(part.number("budget"))
        budget = part.number("budget")[possible]
        falls = falls and bool((np.diff(budget) < 0.0).all())
        reached = reached and bool(possible.all())
        phrases.append(
            f"U[{part.number('low')[0]:g}, {part.number('high')[0]:g}], excess risk "
            f"{part.number('target')[0]:g}: {budget[0]:.3g} (m = {part.number('sellers')[possible][0]:,.0f}) "
            f"to {budget[-1]:.3g}, limit {part.number('limit')[0]:g}"
        )
    return Judgement(
        verdict(always=falls and reached, sometimes=falls),
        f"Where the target can be reached, the budget even {'falls' if falls else 'does not always fall'} "
        f"with the number of sellers: {'; '.join(phrases)}. Condition: enough sellers. No money brings the "
        "excess risk below μ/√m, so that a target of 0.1 with μ = 1 needs more than 100 people.",
    )


def _budget_robustness(tables: Tables) -> Sheet:
    table = tables["budget"]
    counts = sorted(table.values_of("sellers"))
    rows = []
    for part in _budget_parts(table):
        order = np.argsort(part.number("sellers"))
        budget = part.number("budget")[order]
        cells = [f"{value:.3g}" if math.isfinite(value) else "out of reach" for value in budget]
        rows.append(
            (
                f"U[{part.number('low')[0]:g}, {part.number('high')[0]:g}]",
                f"{part.number('target')[0]:g}",
                *cells,
                f"{part.number('limit')[0]:g}",
                yes((np.diff(budget[np.isfinite(budget)]) < 0.0).all()),
            )
        )
    return sheet(
        "Budget by number of sellers.",
        ("costs", "target", *(f"m = {m:,.0f}" for m in counts), "limit", "falls"),
        rows,
    )


def _payments(table: ResultTable) -> tuple[FloatArray, FloatArray]:
    """Return payment weights, and mean payments of the appendix algorithm with one setting for all."""
    mine = table.where(reading="euler", buyer="joint", fixed=1.0)
    weights, found = mine.means_by("payment_weight", "expected_payments")
    return weights, found["expected_payments"][0]


def _adjusted_setting(tables: Tables) -> str:
    config = tables["budget-lie"].configuration
    return (
        "That payments fall with γ: the table of Fig. 2. What adjusting γ does to a seller: "
        f"{len(config['rooms'])} small markets with costs from U[0, 1], μ = σ = 1; one seller tries "
        f"{config['reports']} reports while the others tell the truth, and γ is set so that total payments "
        "meet the budget."
    )


def _lies(tables: Tables) -> list[tuple[str, float, float, float, float, float]]:
    """Return for each market its name, the seller's cost, and what the truth and the best lie are worth.

    The last three are the gain of the best lie with γ adjusted, its report, and the gain with γ fixed.
    """
    table = tables["budget-lie"]
    found = []
    for name in table.values_of("market"):
        part = table.where(market=name)
        true = float(part.number("cost")[0])
        reports, adjusted = part.number("report"), part.number("utility")
        truth, best = int(np.argmin(np.abs(reports - true))), int(adjusted.argmax())
        fixed = part.number("utility_fixed_weight")
        gain, honest = float(adjusted[best] - adjusted[truth]), float(fixed.max() - fixed[truth])
        found.append((str(name), true, float(adjusted[truth]), gain, float(reports[best]), honest))
    return found


def _adjusted(tables: Tables) -> Judgement:
    _, payments = _payments(tables["market"])
    lies = _lies(tables)
    _, true, utility, gain, report, honest = lies[0]
    monotone = bool((np.diff(payments) < 0.0).all())
    truthful = max(one[3] for one in lies) <= 1e-9
    pays = sum(one[3] > 1e-9 for one in lies)
    return Judgement(
        verdict(always=monotone and truthful, sometimes=monotone),
        "Payments fall with γ, so that a budget can be met. Done with the actual reports it can make lying "
        f"pay: in a market of three, a seller with cost {true:g} gains {gain:.2g} (from {utility:.4f}) by "
        f"reporting {report:.2f}; with γ announced before the reports the best lie gains {tiny(honest)}. So "
        f"in {pays} of {len(lies)} markets. Condition: choose γ from the cost distribution, before the "
        "reports.",
    )


def _adjusted_robustness(tables: Tables) -> Sheet:
    rows = [
        (
            name,
            f"{utility:.4f}",
            f"{gain:.2g}",
            f"{report:.2f}" if gain > 1e-9 else "the truth",
            f"{tiny(honest)}",
        )
        for name, _, utility, gain, report, honest in _lies(tables)
    ]
    return sheet(
        "Other budgets, caps, costs and numbers of sellers: what the best lie gains.",
        (
            "market, cost of the seller",
            "utility of the truth",
            "γ adjusted after",
            "best report",
            "γ announced",
        ),
        rows,
    )


BUDGET_CLAIMS = (
    Claim(
        "contributions-budget",
        "Contributions",
        "“because the buyer can selectively choose sellers to acquire data from, the budget required for a "
        "given bound on the misclassification loss is bounded.”",
        "Because the buyer chooses whom to buy from, the budget for a given loss is bounded.",
        ("budget",),
        _budget_setting,
        _budget,
        _budget_robustness,
    ),
    Claim(
        "fig2a-budget",
        "Numerical Results, offline, practical usage",
        "“if the platform has a budget constraint, the platform can iteratively adjust γ to obtain the "
        "optimal estimator within the given budget.”",
        "With a budget, the platform can adjust γ iteratively until payments fit.",
        ("budget-lie", "market"),
        _adjusted_setting,
        _adjusted,
        _adjusted_robustness,
    ),
)
