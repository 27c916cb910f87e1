"""Draw Fig. 4: errors against the noise rate, and errors and loss against the price of uneven weights."""

from __future__ import annotations

from dpmarket.figures.canvas import COLOURS, Figure, new_figure
from dpmarket.paper.figures.series import TableLike, series

_METHODS = (
    ("without terms", "μ = σ = 0"),
    ("equal weights", "a = 1/m,\nη = m min ε"),
    ("proportional", "a = ε/Σε"),
    ("without records", "a, η without\nrecords"),
)


def draw_noise_rate(table: TableLike) -> Figure:
    """Return one panel: train and test error against the mean epsilon."""
    figure, (axes,) = new_figure()
    x = table.number("mean_epsilon")
    for look, (name, label) in enumerate((("train_error", "train"), ("test_error", "test"))):
        series(axes, x, table.number(name), table.number(f"{name}_se"), look, label)
    axes.set_xscale("log")
    axes.set_xlabel("mean epsilon, η = m × mean epsilon")
    axes.set_ylabel("misclassified (share of records)")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    return figure


def draw_concentration(table: TableLike) -> Figure:
    """Return two panels: errors and loss against mu, and the test error of simpler choices."""
    figure, (left, right) = new_figure(panels=2)
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
