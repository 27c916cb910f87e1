"""The audits' figures: what is drawn is the table, and nothing is left without a name."""

import numpy as np

from dpmarket.figures import draw_gains, draw_promises, new_figure, save


def test_gains_are_drawn_against_the_lie(tmp_path):
    figure, (axes,) = new_figure()
    draw_gains(axes, [-0.5, 0.0, 0.5], [-0.2, 0.0, -0.1], [-0.3, -0.1, -0.2])
    drawn = [line.get_ydata() for line in axes.lines]
    assert any(np.array_equal(values, [-0.2, 0.0, -0.1]) for values in drawn)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert save(figure, tmp_path / "gains.svg").stat().st_size > 1000


def test_what_was_shown_is_drawn_against_the_promise():
    _, (axes,) = new_figure()
    draw_promises(axes, [1.0, 4.0], [("sampled, at least", [0.2, 1.1]), ("exact density", [0.6, 2.5])])
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["the promise", "sampled, at least", "exact density"]
    low, high = axes.lines[0].get_data()
    assert np.array_equal(low, high)
