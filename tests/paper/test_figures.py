"""Every figure, drawn from the published tables: labelled, with its set-up, and legible without colour."""

from pathlib import Path

import numpy as np
import pytest

from dpmarket.figures import save
from dpmarket.paper.experiments.catalogue import EXPERIMENTS, PAPER_FIGURES
from dpmarket.paper.experiments.results_page import read_tables

PUBLISHED = Path(__file__).parents[2] / "docs/paper"
TABLES = read_tables(PUBLISHED)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_published_figure_is_labelled_and_legible_without_colour(experiment, tmp_path):
    figure = experiment.draw(TABLES[experiment.name])
    for axes in figure.axes:
        if not axes.axison:
            assert axes.texts, "a drawing without axes says what it shows"
            continue
        assert axes.get_ylabel()
        assert axes.get_xlabel() or axes.patches, "an axis of numbers has a label"
        lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
        looks = [(line.get_linestyle(), line.get_marker()) for line in lines]
        assert len(set(looks)) >= min(len(looks), 4)  # matplotlib names all broken lines alike
        for line in lines:
            values = np.asarray(line.get_ydata(), dtype=float)
            assert values.size == 0 or np.isfinite(values).any()
    assert figure.get_suptitle().startswith("Paper")
    setup = figure.get_supxlabel()
    assert any(letter.isdigit() for letter in setup), "a figure says how it was made"
    places = [axes.get_subplotspec().get_gridspec().ncols for axes in figure.axes]
    assert max(places) <= 2, "at most two panels side by side"
    figure.set_layout_engine("none")  # finding the margins takes as long as drawing
    assert save(figure, tmp_path / "figure.svg").stat().st_size < 200_000
    published = PUBLISHED / "figures" / f"{experiment.name}.svg"
    assert published.stat().st_size < 200_000
    assert b"<image" not in published.read_bytes(), "lines and letters, no raster"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_legends_are_inside_their_panels(experiment):
    figure = experiment.draw(TABLES[experiment.name])
    figure.canvas.draw()
    assert not figure.legends
    for axes in figure.axes:
        legend = axes.get_legend()
        if legend is not None:
            box, panel = legend.get_window_extent(), axes.get_window_extent()
            assert panel.x0 - 2 <= box.x0
            assert box.x1 <= panel.x1 + 2
            assert panel.y0 - 2 <= box.y0
            assert box.y1 <= panel.y1 + 2


def test_the_papers_figures_carry_its_numbers():
    for name, experiments in PAPER_FIGURES.items():
        for experiment in experiments:
            number = name.removeprefix("fig")
            assert f"Paper Fig. {number}" in experiment.draw(TABLES[experiment.name]).get_suptitle()
            assert experiment.title.startswith(f"Paper Fig. {number}")


def test_the_offline_line_is_under_the_others_and_broader():
    for axes in EXPERIMENTS[[e.name for e in EXPERIMENTS].index("online")].draw(TABLES["online"]).axes:
        offline = [line for line in axes.get_lines() if str(line.get_label()).startswith("offline")]
        others = [line for line in axes.get_lines() if line not in offline]
        assert len(offline) == 1
        assert offline[0].get_linewidth() > 2.0 * max(line.get_linewidth() for line in others)
        assert offline[0].get_zorder() < min(line.get_zorder() for line in others)
