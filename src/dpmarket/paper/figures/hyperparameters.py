"""Draw Fig. 4: errors against the noise rate, and errors and loss against the price of uneven weights."""

from __future__ import annotations

from dpmarket.figures.canvas import COLOURS, Figure
from dpmarket.paper.figures.series import TableLike, series, span
from dpmarket.paper.figures.sheet import new_sheet

_METHODS = (
    ("without terms", "μ = σ = 0"),
    ("equal weights", "a = 1/m,\nη = m min ε"),
    ("proportional", "a = ε/Σε"),
    ("without records", "a, η without\nrecords"),
)


def draw_noise_rate(table: TableLike) -> Figure:
    """Return two panels: train and test error against the mean epsilon, and test error in other settings."""
    config = table.configuration
    setup = (
        f"synthetic separable records, m = {config['records']}, {config['test_records']:,} test records, "
        f"equal weights, η = m ε_avg, {config['data_sets']} data sets × {config['noise_draws']} draws of b, "
        f"ε_avg = {span(config['mean_epsilons'])}; bands: two standard errors over data sets"
    )
    figure, (left, right) = new_sheet("Paper Fig. 4a: performance with respect to η", setup, 2)
    features, l2 = config["settings"][0]
    mine = table.where(features=features, l2=l2)
    x = mine.number("mean_epsilon")
    for look, (name, label) in enumerate((("train_error", "train"), ("test_error", "test"))):
        series(left, x, mine.number(name), mine.number(f"{name}_se"), look, label)
    left.set_title(f"n = {features}, Λ = {l2:g}", fontsize=10)
    for look, (n, penalty) in enumerate(config["settings"]):
        part = table.where(features=n, l2=penalty)
        x, y = part.number("mean_epsilon"), part.number("test_error")
        series(right, x, y, part.number("test_error_se"), look, f"n = {n}, Λ = {penalty:g}")
    right.set_title("test error, other settings", fontsize=10)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("mean epsilon ε_avg")
        axes.set_ylabel("misclassified (share of records)")
        axes.set_ylim(bottom=0.0)
        axes.legend(fontsize=8)
    return figure


def draw_concentration(table: TableLike) -> Figure:
    """Return two panels: errors and loss against mu, and the test error of simpler choices."""
    config = table.configuration
    first = table.values_of("given")[0]
    setup = (
        f"synthetic separable records, m = {config['records']}, {first}, c from U[1, 5]; μ = "
        f"{span(config['concentrations'])}, {config['grid']} values of η, {config['starts']} starts; "
        f"{config['data_sets']} data sets × {config['noise_draws']} draws of b; bands and bars: two standard "
        "errors over data sets"
    )
    figure, (left, right) = new_sheet("Paper Fig. 4b: performance with respect to μ", setup, 2)
    table = table.where(given=first)
    joint = table.where(method="joint")
    x = joint.number("concentration")
    for look, (name, label) in enumerate(
        (
            ("train_error", "train error"),
            ("test_error", "test error"),
            ("chosen_loss", "empirical loss Σ a ℓ(w), as chosen"),
        )
    ):
        series(left, x, joint.number(name), joint.number(f"{name}_se"), look, label)
    left.set_xscale("log")
    left.set_xlabel("price of uneven weights μ")
    left.set_ylabel("share of records; loss (nats)")
    left.set_ylim(bottom=0.0)
    left.legend(fontsize=8)
    tests = joint.number("test_error")
    best = int(tests.argmin())
    names = [label for _, label in _METHODS] + [f"best μ\n({x[best]:.3g})"]
    means = [table.where(method=method).number("test_error")[0] for method, _ in _METHODS] + [tests[best]]
    errors = [table.where(method=method).number("test_error_se")[0] for method, _ in _METHODS]
    errors.append(joint.number("test_error_se")[best])
    right.bar(names, means, yerr=[2.0 * value for value in errors], color=COLOURS[0], capsize=3, width=0.6)
    right.set_ylabel("test error (share of records)")
    right.tick_params(axis="x", labelsize=8)
    return figure
