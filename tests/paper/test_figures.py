"""Every figure, drawn from the published tables: labelled, and legible without colour."""

from pathlib import Path

import numpy as np
import pytest

from dpmarket.figures import save
from dpmarket.paper.experiments.catalogue import EXPERIMENTS
from dpmarket.paper.experiments.results_page import read_tables

PUBLISHED = Path(__file__).parents[2] / "docs/paper"
TABLES = read_tables(PUBLISHED)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_published_figure_is_labelled_and_legible_without_colour(experiment, tmp_path):
    figure = experiment.draw(TABLES[experiment.name])
    for axes in figure.axes:
        assert axes.get_ylabel()
        assert axes.get_xlabel() or axes.patches, "an axis of numbers has a label"
        lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
        looks = [(line.get_linestyle(), line.get_marker()) for line in lines]
        assert len(set(looks)) >= min(len(looks), 4)  # matplotlib names all broken lines alike
        for line in lines:
            assert np.isfinite(np.asarray(line.get_ydata(), dtype=float)).any()
    figure.set_layout_engine("none")  # finding the margins takes as long as drawing
    assert save(figure, tmp_path / "figure.svg").stat().st_size < 150_000
    published = PUBLISHED / "figures" / f"{experiment.name}.svg"
    assert published.stat().st_size < 150_000
    assert b"<image" not in published.read_bytes(), "lines and letters, no raster"
