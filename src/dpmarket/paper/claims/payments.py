"""Judge lemma `mech design`: expected payments, truthfulness, participation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, tiny, verdict

_LEMMA = "Lemma `mech design`"


def _expectation_setting(tables: Tables) -> str:
    config = tables["payments"].configuration
    return (
        f"Algorithm 2 without cap, μ = σ = 1, γ = {', '.join(f'{g:g}' for g in config['payment_weights'])}; "
        f"m = {', '.join(f'{m:,}' for m in config['sellers'])}; {config['draws']:,} markets each."
    )


def _expectation(tables: Tables) -> Judgement:
    table = tables["payments"]
    z = table.number("difference") / table.number("difference_se")
    relative = np.abs(table.number("difference") / table.number("virtual")).max()
    holds = bool((np.abs(z) < 4.5).all())
    return Judgement(
        verdict(always=holds, sometimes=False),
        f"Over {table.number('draws')[0]:,.0f} markets each, the means differ by at most {relative:.2%} "
        f"and {np.abs(z).max():.1f} standard errors. In a single market payments and virtual cost differ "
        f"by up to {table.number('single_market').max():.0%} on average: the identity is one of "
        "expectations.",
    )


def _expectation_robustness(tables: Tables) -> Sheet:
    table = tables["payments"]
    rows = []
    for low in table.values_of("low"):
        for gamma in table.values_of("payment_weight"):
            part = table.where(low=low, payment_weight=gamma)
            relative = part.number("difference") / part.number("virtual")
            z = np.abs(part.number("difference") / part.number("difference_se"))
            rows.append(
                (
                    f"U[{low:g}, {part.number('high')[0]:g}]",
                    f"{gamma:g}",
                    f"{relative.min():+.2%} to {relative.max():+.2%}",
                    f"{z.max():.1f}",
                )
            )
    return sheet(
        "Expected payments less expected virtual cost, over all m.",
        ("costs", "γ", "relative difference", "largest, in standard errors"),
        rows,
    )


@dataclass(frozen=True)
class _Tried:
    """What came of every report in one market: utilities over all of its sellers that tried."""

    market: str
    gain: float
    truth: float
    above: float
    below: float
    cost: float
    report: float


def _tried(tables: Tables) -> list[_Tried]:
    table = tables["reports"]
    return [_market(str(name), table.where(market=name)) for name in table.values_of("market")]


def _market(name: str, table: ResultTable) -> _Tried:
    gain, truth, above, below, cost, report = -np.inf, np.inf, np.inf, np.inf, np.nan, np.nan
    for seller in table.values_of("seller"):
        part = table.where(seller=seller)
        true, reports, utility = float(part.number("cost")[0]), part.number("report"), part.number("utility")
        at = int(np.argmin(np.abs(reports - true)))
        gain = max(gain, float((utility - utility[at]).max() / max(part.number("payment").max(), 1e-12)))
        truth = min(truth, float(utility[at]))
        above = min(above, float(utility[at:].min()))
        low = int(utility[: at + 1].argmin())
        if utility[low] < below:
            below, cost, report = float(utility[low]), true, float(reports[low])
    return _Tried(name, gain, truth, above, below, cost, report)


def _reports_setting(tables: Tables) -> str:
    config = tables["reports"].configuration
    return (
        f"Algorithm 2, μ = σ = 1, in {len(config['towns'])} markets; in each the sellers at the "
        f"{', '.join(f'{q:.0%}' for q in config['quantiles'])} quantiles of costs try {config['reports']} "
        "reports over the whole support while the others tell the truth."
    )


def _truth(tables: Tables) -> Judgement:
    worst = max(one.gain for one in _tried(tables))
    return Judgement(
        verdict(always=worst <= 1e-8, sometimes=False),
        f"In none of {len(_tried(tables))} markets is any report worth more to a seller than the truth: the "
        f"largest gain is {tiny(worst)} of the payment.",
    )


def _truth_robustness(tables: Tables) -> Sheet:
    rows = [(one.market, f"{tiny(one.gain)}", f"{one.truth:.3g}") for one in _tried(tables)]
    return sheet(
        "Other costs, sizes, payment weights and caps.",
        ("market", "gain of the best lie, share of the payment", "smallest utility of the truth"),
        rows,
    )


def _participation(tables: Tables) -> Judgement:
    tried = _tried(tables)
    at_truth, above = min(one.truth for one in tried), min(one.above for one in tried)
    worst = min(tried, key=lambda one: one.below)
    return Judgement(
        verdict(always=worst.below >= -1e-9, sometimes=min(at_truth, above) >= -1e-9),
        f"At the truth nobody loses (smallest utility {at_truth:.3g}), nor with a report above it "
        f"({above:.3g}). Eq. `Eq: IR` says so for all reports c'; who reports too little can lose: in the "
        f"market {worst.market} a seller with cost {worst.cost:.2f} who reports {worst.report:.2f} ends at "
        f"{worst.below:.3g}. Nothing in the paper rests on those reports. Condition: a report not below the "
        "true cost.",
    )


def _participation_robustness(tables: Tables) -> Sheet:
    rows = [
        (one.market, f"{one.truth:.3g}", f"{one.above:.3g}", f"{one.below:.3g}") for one in _tried(tables)
    ]
    return sheet(
        "The smallest utility by report.",
        ("market", "truth", "reports at or above the cost", "reports at or below the cost"),
        rows,
    )


PAYMENT_CLAIMS = (
    Claim(
        "lemma-expectation",
        _LEMMA,
        "“E_c[Σ t_i(D, c)] = E_c[Σ ε_i(D, c) ψ(c_i)]”",
        "Expected payments equal expected virtual cost, E[Σ t] = E[Σ ψ ε].",
        ("payments",),
        _expectation_setting,
        _expectation,
        _expectation_robustness,
    ),
    Claim(
        "lemma-truth",
        f"{_LEMMA}, Eq. `Eq: IC`",
        "“the payment model … satisfies the IC and IR constraints”; IC: “no seller would misrepresent their "
        "privacy sensitivity if others report truthfully”.",
        "Truth is every seller's best report.",
        ("reports",),
        _reports_setting,
        _truth,
        _truth_robustness,
    ),
    Claim(
        "lemma-participation",
        f"{_LEMMA}, Eq. `Eq: IR`",
        "“COST(c_i, c_−i, c'_i, c_−i; ε_i, t_i) ≤ 0 ∀ i, c'_i, c”",
        "Nobody is worse off for taking part, whatever they report.",
        ("reports",),
        _reports_setting,
        _participation,
        _participation_robustness,
        repair="Put c'_i = c_i in Eq. `Eq: IR`: the constraint for truthful reports is what the proof uses.",
    ),
)
