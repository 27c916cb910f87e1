"""Judge Proposition `algoproof`, the remark on its slack, and privacy with weights from the records."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.verdicts import Claim, Judgement, Tables, verdict


def _bound(tables: Tables) -> Judgement:
    table = tables["privacy"]
    found, paper, ours = (table.number(name) for name in ("found", "paper", "formula"))
    holds = bool((found <= paper).all() and (found <= ours * (1.0 + 1e-12)).all())
    tight = int(table.number("product").argmin())
    return Judgement(
        verdict(holds, False),
        f"Nothing above it was found, but it is loose: at Λη = {table.number('product')[tight]:.2g} it "
        f"claims {paper[tight]:.2f}, the exact supremum is at least {found[tight]:.3f}, this library's "
        f"bound {ours[tight]:.3f}. From Λη = 2 on the slack is not needed at all.",
    )


def _slack(tables: Tables) -> Judgement:
    table = tables["privacy"]
    product, found, bare = (table.number(name) for name in ("product", "found", "without_slack"))
    below = product < 2.0
    overspent = found[below] > bare[below]
    safe = bool((found[~below] <= bare[~below] * (1.0 + 1e-12)).all())
    worst = float((found / bare).max())
    return Judgement(
        verdict(safe and not overspent.any(), safe),
        "Leaving Δ out is safe from Λη = 2 on, whatever mΛ is. Below it the true loss can exceed a·η: up to "
        f"{worst:.1f} times, at Λη = {product[int((found / bare).argmax())]:.2g}. Condition: Λη ≥ 2 (the "
        "paper asks for mΛ ≫ 1).",
    )


def _joint(tables: Tables) -> Judgement:
    table = tables["joint-privacy"]
    exact, paper, ours = (table.number(name) for name in ("exact", "paper", "formula"))
    worst = int(np.argmax(exact / paper))
    return Judgement(
        verdict(bool((exact <= paper).all()), False),
        f"With weights from the records the exact loss of one person is {exact[worst]:.1f} where the "
        f"proposition says {paper[worst]:.2f} and the tight formula {ours[worst]:.2f} "
        f"({table.number('people')[worst]:.0f} people, μ = {table.number('concentration')[worst]:g}); "
        f"above the proposition's value at {(exact > paper).sum()} of {exact.size} settings. Such an "
        "outcome carries no certificate.",
    )


PRIVACY_CLAIMS = (
    Claim(
        "prop-bound",
        "Proposition `algoproof`",
        "A weight a costs a privacy loss of at most aη + 2 log(1 + k/(mΛ)).",
        ("privacy",),
        _bound,
    ),
    Claim(
        "prop-slack",
        "Section II, remark",
        "The slack Δ is much smaller than the guarantees, and may be left out.",
        ("privacy",),
        _slack,
    ),
    Claim(
        "appendix-privacy",
        "Appendix, data-dependent payments",
        "The released weights keep their promises when (a, η) are chosen together with w from the data.",
        ("joint-privacy",),
        _joint,
    ),
)
