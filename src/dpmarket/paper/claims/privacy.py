"""Judge Proposition `algoproof`, the remark on its slack, and privacy with weights from the records."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, verdict

_ROUNDING = 1.0 + 1e-9


def _crowds(table: ResultTable) -> list[ResultTable]:
    return [
        table.where(people=crowd["people"], noise_rate=crowd["noise_rate"])
        for crowd in table.configuration["crowds"]
    ]


def _setting(tables: Tables) -> str:
    config = tables["privacy"].configuration
    crowds = "; ".join(f"m = {c['people']:,}, η = {c['noise_rate']:g}" for c in config["crowds"])
    return (
        f"People of equal weight a = 1/m ({crowds}), Λη from {min(config['products']):g} to "
        f"{max(config['products']):g}; records of two features; the largest ratio of exact output densities "
        "is searched for over the replaced record, the others and the output."
    )


def _bound(tables: Tables) -> Judgement:
    table = tables["privacy"]
    found, paper, ours = (table.number(name) for name in ("found", "paper", "formula"))
    holds = bool((found <= paper * _ROUNDING).all() and (found <= ours * _ROUNDING).all())
    first = _crowds(table)[0]
    tight = int(first.number("product").argmin())
    return Judgement(
        verdict(always=holds, sometimes=False),
        "Nothing above it was found. There is room to sharpen it: at Λη = "
        f"{first.number('product')[tight]:.2g} (m = {first.number('people')[0]:.0f}) it says "
        f"{first.number('paper')[tight]:.2f}, the exact supremum is at least "
        f"{first.number('found')[tight]:.3f}, and a bound that uses that the Hessian changes by one "
        f"rank-one term says {first.number('formula')[tight]:.3f}. From Λη = 2 on no slack is needed at all "
        "([errata](errata.md)).",
    )


def _bound_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _crowds(tables["privacy"]):
        found, paper, ours = (part.number(name) for name in ("found", "paper", "formula"))
        rows.append(
            (
                f"{part.number('people')[0]:,.0f}",
                f"{part.number('noise_rate')[0]:g}",
                f"{(found / paper).min():.2f} to {(found / paper).max():.2f}",
                f"{(found / ours).min():.2f} to {(found / ours).max():.2f}",
            )
        )
    return sheet(
        "The largest privacy loss found over the proposition's, and over the sharper bound; never above 1.",
        ("m", "η", "found / proposition", "found / sharper bound"),
        rows,
    )


def _slack(tables: Tables) -> Judgement:
    table = tables["privacy"]
    product, found, bare = (table.number(name) for name in ("product", "found", "without_slack"))
    below = product < 2.0 * (1.0 - 1e-9)
    overspent = found[below] > bare[below] * _ROUNDING
    safe = bool((found[~below] <= bare[~below] * _ROUNDING).all())
    large = table.number("people_times_l2") > 90.0
    worst = int(np.argmax(np.where(large, found / bare, 0.0)))
    slack = float(table.number("paper")[worst] - bare[worst])
    return Judgement(
        verdict(always=safe and not overspent.any(), sometimes=safe),
        "Δ ≈ 2k/(mΛ) is small when mΛ ≫ 1, but the promises are as small: ε_i = a_i η ≤ kη/m, and Δ/ε is "
        f"about 2/(Λη). With m = {table.number('people')[worst]:,.0f} and mΛ = "
        f"{table.number('people_times_l2')[worst]:.0f} a promise of {bare[worst]:.3g} has Δ = {slack:.2g}, "
        f"and a loss of {found[worst]:.3g} was found. From Λη = 2 on leaving Δ out is safe, whatever mΛ is, "
        "and that is what sensible settings have. Condition: Λη ≥ 2 in the place of mΛ ≫ 1.",
    )


def _slack_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _crowds(tables["privacy"]):
        product, ratio = part.number("product"), part.number("found") / part.number("without_slack")
        over = product[ratio > _ROUNDING]
        rows.append(
            (
                f"{part.number('people')[0]:,.0f}",
                f"{part.number('noise_rate')[0]:g}",
                f"{part.number('without_slack')[0]:g}",
                f"{ratio[product < 2.0 * (1.0 - 1e-9)].max():.1f}",
                f"Λη ≤ {over.max():.2g} (mΛ ≤ {part.number('people_times_l2')[ratio > _ROUNDING].max():.3g})"
                if over.size
                else "nowhere",
                f"{ratio[product >= 2.0 * (1.0 - 1e-9)].max():.2f}",
            )
        )
    return sheet(
        "The largest loss found over the promise a·η when Δ is left out.",
        ("m", "η", "promise aη", "at most, Λη < 2", "above 1 for", "at most, Λη ≥ 2"),
        rows,
    )


def _joint_setting(tables: Tables) -> str:
    config = tables["joint-privacy"].configuration
    return (
        f"m = {', '.join(f'{m}' for m in config['people'])} people with one feature, of whom one label is "
        f"replaced; μ from {min(config['concentrations']):g} to {max(config['concentrations']):g}, Λ = "
        f"{', '.join(f'{x:g}' for x in config['penalties'])}, η = "
        f"{', '.join(f'{x:g}' for x in config['noise_rates'])} given (so that the choice is kinder than "
        "Algorithm 4's, which looks for η as well). For one feature the output density is known exactly."
    )


def _joint(tables: Tables) -> Judgement:
    table = tables["joint-privacy"]
    exact, paper, ours = (table.number(name) for name in ("exact", "paper", "formula"))
    worst = int(np.argmax(exact / paper))
    return Judgement(
        verdict(always=bool((exact <= paper).all()), sometimes=False),
        f"With weights from the records the exact loss of one person is {exact[worst]:.1f} where the "
        f"proposition, which is about fixed weights, says {paper[worst]:.2f} and its sharper form "
        f"{ours[worst]:.2f} (m = {table.number('people')[worst]:.0f}, μ = "
        f"{table.number('concentration')[worst]:g}); above the proposition's value at "
        f"{(exact > paper).sum()} of {exact.size} settings, those with small μ. The paper does not claim the "
        "contrary: it warns that payments leak, and section IV decides without the data for that reason.",
    )


def _joint_robustness(tables: Tables) -> Sheet:
    table = tables["joint-privacy"]
    rows = []
    for l2 in table.values_of("l2"):
        for eta in table.values_of("noise_rate"):
            part = table.where(l2=l2, noise_rate=eta)
            ratio = part.number("exact") / part.number("paper")
            worst = int(ratio.argmax())
            over = part.number("concentration")[ratio > 1.0]
            rows.append(
                (
                    f"{l2:g}",
                    f"{eta:g}",
                    f"{(ratio > 1.0).sum()} of {ratio.size}",
                    f"{ratio[worst]:.2f} (m = {part.number('people')[worst]:.0f})",
                    f"μ ≤ {over.max():g}" if over.size else "none",
                )
            )
    return sheet(
        "The exact loss over what the proposition says about fixed weights, over all m and μ.",
        ("Λ", "η", "above 1 at", "largest", "above 1 for"),
        rows,
    )


PRIVACY_CLAIMS = (
    Claim(
        "prop-bound",
        "Proposition `algoproof`",
        "“the output of Algorithm `alg:basic` … preserves ε + Δ differential privacy, where Δ = 2 log(1 + "
        "k/(mΛ)).”",
        "A weight a costs a privacy loss of at most aη + 2 ln(1 + k/(mΛ)).",
        ("privacy",),
        _setting,
        _bound,
        _bound_robustness,
    ),
    Claim(
        "prop-slack",
        "Section II, remark",
        "“m is large enough such that mΛ ≫ 1 and thus the term Δ is much smaller than the differential "
        "privacy guarantees used in practice.”",
        "The slack Δ is much smaller than the guarantees, and may be left out.",
        ("privacy",),
        _setting,
        _slack,
        _slack_robustness,
        repair="Ask for Λη ≥ 2 instead of mΛ ≫ 1; then no slack is needed, by the matrix determinant lemma.",
    ),
    Claim(
        "appendix-privacy",
        "Appendix, data-dependent payments (implied, not stated)",
        "Implied: the appendix minimises over (w, a, η) together, with a_i η = ε_i as the promise; theorem "
        "`thm: gen mechanism result` asks that “θ* is ε*-differentially private”. The paper itself warns "
        "that “the payments depend on the data and thus, may leak privacy.”",
        "The released weights keep their promises when (a, η) are chosen together with w from the data.",
        ("joint-privacy",),
        _joint_setting,
        _joint,
        _joint_robustness,
    ),
)
