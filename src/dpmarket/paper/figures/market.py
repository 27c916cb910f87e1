"""Draw Fig. 2: error and payments, overall error buyer by buyer, and what a real guarantee costs."""

from __future__ import annotations

from dpmarket.figures.canvas import Figure, new_figure
from dpmarket.paper.figures.series import TableLike, series

_WEIGHT = "payment weight γ (error per unit of money)"
_OVERALL = (
    ("joint", "fixed", "appendix algorithm"),
    ("joint", "tuned", "appendix, tuned at each γ"),
    ("naive", "fixed", "naive (μ = σ = 0)"),
    ("naive", "tuned", "naive, tuned at each γ"),
    ("offline", "fixed", "offline, certified"),
    ("baseline", "tuned", "no privacy, no payment"),
    ("guess", "tuned", "buys nothing, guesses"),
)


def draw_market(table: TableLike) -> Figure:
    """Return three panels: error, payments, overall error; bands are two standard errors over splits."""
    figure, (left, middle, right) = new_figure(panels=3, width=4.2, height=4.3)
    euler = table.where(reading="euler")
    for look, (buyer, mark, label) in enumerate(_OVERALL):
        mine = euler.where(buyer=buyer, **{mark: 1})
        x, found = mine.means_by("payment_weight", "test_error", "expected_payments", "overall")
        if buyer in ("joint", "offline") and mark == "fixed":
            series(left, x, *found["test_error"], look, label)
            series(middle, x, *found["expected_payments"], look, label)
        if buyer == "baseline":
            series(left, x, *found["test_error"], look, label, marked=False)
        series(right, x, *found["overall"], look, label, marked=buyer not in ("baseline", "guess"))
    for axes in (left, middle, right):
        axes.set_xscale("log")
        axes.set_xlabel(_WEIGHT)
    left.set_ylabel("test error (share of records)")
    left.set_ylim(bottom=0.0)
    middle.set_yscale("log")
    middle.set_ylabel("expected payments (money)")
    right.set_ylabel("overall error: error + γ × payments")
    right.set_ylim(bottom=0.0)
    left.legend()
    middle.legend()
    right.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.45, -0.18))
    return figure
