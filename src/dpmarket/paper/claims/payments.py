"""Judge lemma `mech design`: expected payments, truthfulness, participation."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.verdicts import Claim, Judgement, Tables, verdict


def _expectation(tables: Tables) -> Judgement:
    table = tables["payments"]
    z = table.number("difference") / table.number("difference_se")
    relative = np.abs(table.number("difference") / table.number("virtual")).max()
    holds = bool((np.abs(z) < 4.5).all())
    return Judgement(
        verdict(holds, False),
        f"Over {table.number('draws')[0]:,.0f} markets each, the means differ by at most {relative:.2%} "
        f"and {np.abs(z).max():.1f} standard errors. In a single market payments and virtual cost differ "
        f"by {table.number('single_market').max():.0%} on average: the identity is one of expectations.",
    )


def _truth(tables: Tables) -> Judgement:
    table = tables["reports"]
    worst = -np.inf
    for seller in table.values_of("seller"):
        part = table.where(seller=seller)
        at = int(np.argmin(np.abs(part.number("report") - part.number("cost")[0])))
        gain = part.number("utility") - part.number("utility")[at]
        worst = max(worst, float(gain.max() / max(part.number("payment")[at], 1e-12)))
    return Judgement(
        verdict(worst <= 1e-8, False),
        f"For sellers of {len(table.values_of('seller'))} different costs, no report from 1 to 5 is worth "
        f"more than the truth: the largest gain is {worst:.0e} of the payment, which is rounding.",
    )


def _participation(tables: Tables) -> Judgement:
    table = tables["reports"]
    at_truth, anywhere, report = np.inf, np.inf, np.nan
    for seller in table.values_of("seller"):
        part = table.where(seller=seller)
        at = int(np.argmin(np.abs(part.number("report") - part.number("cost")[0])))
        at_truth = min(at_truth, float(part.number("utility")[at]))
        low = int(part.number("utility").argmin())
        if part.number("utility")[low] < anywhere:
            anywhere, report = float(part.number("utility")[low]), float(part.number("report")[low])
            cost = float(part.number("cost")[0])
    return Judgement(
        verdict(anywhere >= -1e-9, at_truth >= -1e-9),
        f"At the truth nobody loses (smallest utility {at_truth:.3g}). For all reports c', as Eq. `Eq: IR` "
        f"says, it is not so: a seller with cost {cost:.2f} who reports {report:.2f} ends at "
        f"{anywhere:.3g}. Condition: a report not below the true cost.",
    )


PAYMENT_CLAIMS = (
    Claim(
        "lemma-expectation",
        "Lemma `mech design`",
        "Expected payments equal expected virtual cost, E[Σ t] = E[Σ ψ ε].",
        ("payments",),
        _expectation,
    ),
    Claim(
        "lemma-truth",
        "Lemma `mech design`, Eq. `Eq: IC`",
        "Truth is every seller's best report.",
        ("reports",),
        _truth,
    ),
    Claim(
        "lemma-participation",
        "Lemma `mech design`, Eq. `Eq: IR`",
        "Nobody is worse off for taking part, whatever they report.",
        ("reports",),
        _participation,
    ),
)
