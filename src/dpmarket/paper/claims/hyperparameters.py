"""Judge "Additional Experiments" (Fig. 4) and section II's remarks on choosing weights and noise rate."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.verdicts import Claim, Judgement, Tables, verdict

_SECTION = "Additional Experiments"


def _errors_in_mu(tables: Tables) -> Judgement:
    joint = tables["concentration"].where(method="joint")
    mu = joint.number("concentration")
    parts = []
    falls = rises = slight = True
    for name in ("train_error", "test_error"):
        values, spread = joint.number(name), joint.number(f"{name}_se")
        best = int(values.argmin())
        fall, rise = values[0] - values[best], values[-1] - values[best]
        falls = falls and bool(fall > 2.0 * np.hypot(spread[0], spread[best]))
        rises = rises and bool(rise > 0.0 and best < values.size - 1)
        slight = slight and bool(rise < fall)
        parts.append(
            f"{name.replace('_', ' ')} {values[0]:.3f} at μ = {mu[0]:g}, {values[best]:.3f} at μ = "
            f"{mu[best]:.3g}, {values[-1]:.3f} at μ = {mu[-1]:.0e}"
        )
    return Judgement(verdict(falls and rises and slight, falls), "; ".join(parts) + ".")


def _loss_hides_errors(tables: Tables) -> Judgement:
    joint = tables["concentration"].where(method="joint")
    loss, wrong = joint.number("chosen_loss"), joint.number("train_error")
    best = int(wrong.argmin())
    seen = bool(loss[0] < loss[best] and wrong[0] > wrong[best])
    return Judgement(
        verdict(seen, False),
        f"At the smallest μ the weighted loss that was minimised is {loss[0]:.3f} while {wrong[0]:.1%} of "
        f"the training records end up misclassified; at the best μ it is {loss[best]:.3f} with "
        f"{wrong[best]:.1%}.",
    )


def _terms_needed(tables: Tables) -> Judgement:
    table = tables["concentration"]
    joint = table.where(method="joint")
    best = int(joint.number("test_error").argmin())
    with_terms, error = joint.number("test_error")[best], joint.number("test_error_se")[best]
    bare = table.where(method="without terms")
    without, spread = bare.number("test_error")[0], bare.number("test_error_se")[0]
    worse = bool(without - with_terms > 2.0 * np.hypot(error, spread))
    return Judgement(
        verdict(worse, False),
        "Minimising the loss over (w, a, η) alone ends at a noise rate of "
        f"{bare.number('noise_rate')[0]:.0f} and a test error of {without:.3f}; with the terms it is "
        f"{with_terms:.3f} at the best μ, with a noise rate of {joint.number('noise_rate')[best]:.0f}.",
    )


def _equal_weights(tables: Tables) -> Judgement:
    table = tables["concentration"]
    values = {
        method: (
            float(table.where(method=method).number("test_error")[0]),
            float(table.where(method=method).number("test_error_se")[0]),
        )
        for method in ("equal weights", "proportional", "without records")
    }
    equal, best = values["equal weights"], values["without records"]
    better = equal[0] - best[0] > 2.0 * np.hypot(equal[1], best[1])
    joint = float(table.where(method="joint").number("test_error").min())
    return Judgement(
        verdict(bool(better), False),
        f"Equal weights with η = m·min ε have a test error of {equal[0]:.3f}; weights in proportion to the "
        f"promises {values['proportional'][0]:.3f}, this library's choice (without looking at records) "
        f"{best[0]:.3f}. Looking at the records, as section II suggests, reaches {joint:.3f} at its best "
        "μ: the promises alone are the better guide.",
    )


def _noise_rate(tables: Tables) -> Judgement:
    table = tables["noise-rate"]
    x, test, spread = (table.number(name) for name in ("mean_epsilon", "test_error", "test_error_se"))
    steps = np.diff(test)
    allowed = 2.0 * np.hypot(spread[1:], spread[:-1])
    falls = bool((steps <= np.maximum(allowed, 0.01)).all())
    ends = bool(test[-1] < test[0] - allowed[0])
    return Judgement(
        verdict(falls and ends, ends),
        f"With equal weights the test error falls from {test[0]:.3f} at mean ε = {x[0]:g} to "
        f"{test[-1]:.3f} at "
        f"{x[-1]:g}" + (", with no rise beyond its error." if falls else ", not at every step."),
    )


HYPERPARAMETER_CLAIMS = (
    Claim(
        "fig4b-errors",
        f"{_SECTION}, Fig. 4b",
        "As μ increases, train and test error fall at first, and then increase slightly.",
        ("concentration",),
        _errors_in_mu,
    ),
    Claim(
        "fig4b-loss",
        f"{_SECTION}, Fig. 4b",
        "For a small μ the empirical loss is small even if samples are misclassified.",
        ("concentration",),
        _loss_hides_errors,
    ),
    Claim(
        "fig4b-terms",
        f"{_SECTION}; section II",
        "Optimising the empirical loss alone, over (w, a, η), gives no good model: generalisation terms "
        "are needed.",
        ("concentration",),
        _terms_needed,
    ),
    Claim(
        "fig4a-eta",
        f"{_SECTION}, Fig. 4a",
        "With equal weights and η = m·ε_avg, performance improves with ε_avg (the text states no more).",
        ("noise-rate",),
        _noise_rate,
    ),
    Claim(
        "sec2-equal-weights",
        "Section II",
        "Equal weights with η = m·min ε cannot use that some people need less protection.",
        ("concentration",),
        _equal_weights,
    ),
)
