"""Judge "Additional Experiments" (Fig. 4) and section II's remarks on choosing weights and noise rate."""

from __future__ import annotations

import numpy as np

from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.experiments.verdicts import Claim, Judgement, Sheet, Tables, sheet, verdict, yes

_SECTION = "Additional Experiments"


def _given(tables: Tables) -> list[tuple[str, ResultTable]]:
    table = tables["concentration"]
    return [(str(name), table.where(given=name)) for name in table.values_of("given")]


def _joint(part: ResultTable) -> ResultTable:
    return part.where(method="joint")


def _setting(tables: Tables) -> str:
    config = tables["concentration"].configuration
    return (
        f"Synthetic records as in the paper's appendix, separable, m = {config['records']}; promises ε_i = "
        f"5/c_i with c from U[1, 5] (the text names costs but no promises); {_given(tables)[0][0]}; the norm "
        f"of a squared, as in the paper's appendix; μ from {min(config['concentrations']):g} to "
        f"{max(config['concentrations']):g}; {config['data_sets']} data sets, {config['noise_draws']} draws "
        "of the noise each."
    )


def _shape(part: ResultTable, name: str) -> tuple[bool, bool, bool, int]:
    """Return whether a curve in mu falls beyond error, rises again, by less; and where it is best."""
    joint = _joint(part)
    values, spread = joint.number(name), joint.number(f"{name}_se")
    best = int(values.argmin())
    fall, rise = values[0] - values[best], values[-1] - values[best]
    return (
        bool(fall > 2.0 * np.hypot(spread[0], spread[best])),
        bool(rise > 0.0 and best < values.size - 1),
        bool(rise < fall),
        best,
    )


def _errors_in_mu(tables: Tables) -> Judgement:
    part = _given(tables)[0][1]
    joint = _joint(part)
    mu = joint.number("concentration")
    phrases, all_three, falls = [], True, True
    for name in ("train_error", "test_error"):
        fell, rose, slightly, best = _shape(part, name)
        values = joint.number(name)
        all_three, falls = all_three and fell and rose and slightly, falls and fell
        phrases.append(
            f"{name.replace('_', ' ')} {values[0]:.3f} at μ = {mu[0]:g}, {values[best]:.3f} at μ = "
            f"{mu[best]:.3g}, {values[-1]:.3f} at μ = {mu[-1]:.0e}"
        )
    others = [_shape(other, "test_error") for _, other in _given(tables)]
    everywhere = all_three and all(fell and rose and slightly for fell, rose, slightly, _ in others)
    ending = "" if everywhere else " Condition: promises and σ such that both ends are bad, see below."
    return Judgement(
        verdict(always=everywhere, sometimes=all_three), "; ".join(phrases).capitalize() + "." + ending
    )


def _errors_robustness(tables: Tables) -> Sheet:
    rows = []
    for name, part in _given(tables):
        fell, rose, slightly, best = _shape(part, "test_error")
        values = _joint(part).number("test_error")
        rows.append(
            (
                name,
                f"{values[0]:.3f}",
                f"{values[best]:.3f} at μ = {_joint(part).number('concentration')[best]:g}",
                f"{values[-1]:.3f}",
                yes(fell),
                yes(rose and slightly),
            )
        )
    return sheet(
        "Test error at the smallest, the best and the largest μ.",
        ("settings", "smallest μ", "best μ", "largest μ", "falls beyond error", "then rises, by less"),
        rows,
    )


def _loss_hides_errors(tables: Tables) -> Judgement:
    joint = _joint(_given(tables)[0][1])
    loss, wrong = joint.number("chosen_loss"), joint.number("train_error")
    best = int(wrong.argmin())
    seen = bool(loss[0] < loss[best] and wrong[0] > wrong[best])
    return Judgement(
        verdict(always=seen, sometimes=False),
        f"At the smallest μ the weighted loss that was minimised is {loss[0]:.3f} while {wrong[0]:.1%} of "
        f"the training records end up misclassified; at the best μ it is {loss[best]:.3f} with "
        f"{wrong[best]:.1%}.",
    )


def _loss_robustness(tables: Tables) -> Sheet:
    rows = []
    for name, part in _given(tables):
        loss, wrong = _joint(part).number("chosen_loss"), _joint(part).number("train_error")
        best = int(wrong.argmin())
        rows.append(
            (
                name,
                f"{loss[0]:.3f}, {wrong[0]:.1%}",
                f"{loss[best]:.3f}, {wrong[best]:.1%}",
                yes(loss[0] < loss[best]),
            )
        )
    return sheet(
        "Weighted loss as chosen, and share of training records misclassified.",
        ("settings", "smallest μ", "best μ", "smaller loss at the smallest μ"),
        rows,
    )


def _terms_needed(tables: Tables) -> Judgement:
    part = _given(tables)[0][1]
    joint, bare = _joint(part), part.where(method="without terms")
    best = int(joint.number("test_error").argmin())
    with_terms, error = joint.number("test_error")[best], joint.number("test_error_se")[best]
    without, spread = bare.number("test_error")[0], bare.number("test_error_se")[0]
    worse = bool(without - with_terms > 2.0 * np.hypot(error, spread))
    return Judgement(
        verdict(always=worse, sometimes=False),
        "Minimising the loss over (w, a, η) alone ends at a noise rate of "
        f"{bare.number('noise_rate')[0]:.0f} and a test error of {without:.3f}; with the terms it is "
        f"{with_terms:.3f} at the best μ, with a noise rate of {joint.number('noise_rate')[best]:.0f}.",
    )


def _terms_robustness(tables: Tables) -> Sheet:
    rows = []
    for name, part in _given(tables):
        bare, joint = part.where(method="without terms"), _joint(part)
        best = int(joint.number("test_error").argmin())
        rows.append(
            (
                name,
                f"{bare.number('test_error')[0]:.3f} ± {2.0 * bare.number('test_error_se')[0]:.3f}",
                f"{joint.number('test_error')[best]:.3f} ± {2.0 * joint.number('test_error_se')[best]:.3f}",
            )
        )
    return sheet(
        "Test error without the terms (μ = σ = 0) and with them, at the best μ tried; ± two standard errors.",
        ("settings", "without", "with"),
        rows,
    )


def _simple(part: ResultTable, method: str) -> tuple[float, float]:
    mine = part.where(method=method)
    return float(mine.number("test_error")[0]), float(mine.number("test_error_se")[0])


def _equal_weights(tables: Tables) -> Judgement:
    part = _given(tables)[0][1]
    equal, best = _simple(part, "equal weights"), _simple(part, "without records")
    better = equal[0] - best[0] > 2.0 * np.hypot(equal[1], best[1])
    joint = float(_joint(part).number("test_error").min())
    return Judgement(
        verdict(always=bool(better), sometimes=False),
        f"Equal weights with η = m·min ε have a test error of {equal[0]:.3f}; weights in proportion to the "
        f"promises {_simple(part, 'proportional')[0]:.3f}, this library's choice (without looking at "
        f"records) {best[0]:.3f}. Looking at the records as well reaches {joint:.3f} at its best μ.",
    )


def _equal_robustness(tables: Tables) -> Sheet:
    rows = []
    for name, part in _given(tables):
        cells = [_simple(part, method) for method in ("equal weights", "proportional", "without records")]
        shown = (f"{mean:.3f} ± {2.0 * spread:.3f}" for mean, spread in cells)
        rows.append((name, *shown, f"{_joint(part).number('test_error').min():.3f}"))
    return sheet(
        "Test error of four ways to keep given promises; ± two standard errors.",
        ("settings", "a = 1/m, η = m min ε", "a = ε/Σε", "a, η without records", "with records, best μ"),
        rows,
    )


def _rate_setting(tables: Tables) -> str:
    config = tables["noise-rate"].configuration
    features, l2 = config["settings"][0]
    return (
        f"Synthetic separable records, m = {config['records']}, n = {features}, Λ = {l2:g}, equal weights; "
        f"ε_avg from {min(config['mean_epsilons']):g} to {max(config['mean_epsilons']):g}; "
        f"{config['data_sets']} data sets, {config['noise_draws']} draws of the noise each."
    )


def _steps(part: ResultTable) -> tuple[bool, bool]:
    """Return whether the test error never rises beyond its error, and falls over all."""
    test, spread = part.number("test_error"), part.number("test_error_se")
    allowed = 2.0 * np.hypot(spread[1:], spread[:-1])
    return bool((np.diff(test) <= np.maximum(allowed, 0.01)).all()), bool(test[-1] < test[0] - allowed[0])


def _rates(tables: Tables) -> list[ResultTable]:
    table = tables["noise-rate"]
    return [table.where(features=n, l2=l2) for n, l2 in table.configuration["settings"]]


def _noise_rate(tables: Tables) -> Judgement:
    part = _rates(tables)[0]
    x, test = part.number("mean_epsilon"), part.number("test_error")
    falls, ends = _steps(part)
    return Judgement(
        verdict(always=falls and ends, sometimes=ends),
        f"With equal weights the test error falls from {test[0]:.3f} at mean ε = {x[0]:g} to {test[-1]:.3f} "
        "at "
        f"{x[-1]:g}" + (", with no rise beyond its error." if falls else ", not at every step."),
    )


def _rate_robustness(tables: Tables) -> Sheet:
    rows = []
    for part in _rates(tables):
        test, x = part.number("test_error"), part.number("mean_epsilon")
        falls, ends = _steps(part)
        half = x[np.argmax(test <= 0.5 * (test[0] + test[-1]))]
        rows.append(
            (
                f"{part.number('features')[0]:.0f}",
                f"{part.number('l2')[0]:g}",
                f"{test[0]:.3f} to {test[-1]:.3f}",
                f"{half:.2g}",
                yes(falls and ends),
            )
        )
    return sheet(
        "Other numbers of features and penalties.",
        ("n", "Λ", "test error", "half way at ε_avg", "falls, no rise beyond error"),
        rows,
    )


HYPERPARAMETER_CLAIMS = (
    Claim(
        "fig4a-eta",
        f"{_SECTION}, Fig. 4a",
        "“We fix a_i = 1/m and vary η … Therefore, we solve logistic regression while adding noise to ensure "
        "differential privacy.” (The text states no more.)",
        "With equal weights and η = m·ε_avg, performance improves with ε_avg.",
        ("noise-rate",),
        _rate_setting,
        _noise_rate,
        _rate_robustness,
    ),
    Claim(
        "fig4b-errors",
        f"{_SECTION}, Fig. 4b",
        "“as μ increases, there is a reduction in both train and test misclassification errors at first, and "
        "then it increases slightly.”",
        "As μ increases, train and test error fall at first, and then increase slightly.",
        ("concentration",),
        _setting,
        _errors_in_mu,
        _errors_robustness,
    ),
    Claim(
        "fig4b-loss",
        f"{_SECTION}, Fig. 4b",
        "“for a smaller μ, the empirical loss is small even if samples are misclassified.”",
        "For a small μ the empirical loss is small even if samples are misclassified.",
        ("concentration",),
        _setting,
        _loss_hides_errors,
        _loss_robustness,
    ),
    Claim(
        "fig4b-terms",
        f"{_SECTION}; section II",
        "“optimizing over the empirical loss alone might not result in a good logistic regression model. "
        "Hence, it is also necessary to consider generalization terms in the optimization.”",
        "Optimising the empirical loss alone, over (w, a, η), gives no good model.",
        ("concentration",),
        _setting,
        _terms_needed,
        _terms_robustness,
    ),
    Claim(
        "sec2-equal-weights",
        "Section II",
        "“one can choose a_i = 1/m and η = m min_i ε_i. However, such a choice is unable to exploit the fact "
        "that we need to protect some data points more than others.”",
        "Equal weights with η = m·min ε cannot use that some people need less protection.",
        ("concentration",),
        _setting,
        _equal_weights,
        _equal_robustness,
    ),
)
