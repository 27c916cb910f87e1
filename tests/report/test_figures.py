"""Figures as files and as part of a page."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from dpmarket import InvalidInput
from dpmarket.errors import FileProblem
from dpmarket.report.charts import draw_options
from dpmarket.report.figures import (
    COLOURS,
    MARKERS,
    STYLES,
    draw_epsilons,
    draw_rule,
    inline_svg,
    new_figure,
    save,
)
from dpmarket.report.forecast import Option


def options(*errors):
    """Return options with these errors, and the second as the campaign's own."""
    found = [Option("budget", 0.5 * 2**k, 10.0 * 2**k, error, 0.5, 0.5) for k, error in enumerate(errors)]
    return found, found[1]


DRAWINGS = [
    lambda axes: draw_rule(axes, [1, 2], [1, 0], [1.5], [0.5], cutoff=1.8, unit="payment", worth=[0.5, 0.0]),
    lambda axes: draw_rule(axes, [1, 2], [1, 0], [], [], cutoff=None, unit="epsilon"),
    lambda axes: draw_options(axes, *options(0.4, 0.3, 0.2), "$"),
    lambda axes: draw_epsilons(axes, [0.5, 1.0], [("sampled", [0.3, 0.7]), ("spent", [0.5, 1.0])]),
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_drawing_is_well_formed_and_takes_its_colours_from_the_page(draw):
    figure, (axes,) = new_figure()
    draw(axes)
    text = inline_svg(figure, "one", "Title & <more>", 'It "shows" <this>.')
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'Title & <more>. It "shows" <this>.'
    assert root[0].text == "Title & <more>"
    assert "currentColor" in text
    fixed = set(re.findall(r"(?<!, )#[0-9a-fA-F]{6}", text)) - {"#ffffff"}
    assert fixed == set()
    assert COLOURS[0] in text or COLOURS[1] in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert all(name == "one" or name.startswith("one-") for name in ids)
    assert len(set(ids)) == len(ids)
    used = {a or b for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    assert used <= set(ids)


@pytest.mark.parametrize("least", [0.0004, 0.003, 0.007])
def test_the_words_beside_the_axis_of_errors_do_not_touch(least):
    figure, (axes,) = new_figure()
    draw_options(axes, *options(0.012, 0.01, least), "EUR")
    figure.canvas.draw()
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = sorted((tick.label1.get_window_extent() for tick in ticks), key=lambda box: box.y0)
    assert len(boxes) >= 2
    assert all(below.y1 < above.y0 for below, above in pairwise(boxes))
    assert not any(tick.label1.get_text() for tick in axes.yaxis.get_minor_ticks())


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_figure_gives_the_same_bytes_every_time(tmp_path, ending):
    for name in ("one", "two"):
        figure, (axes,) = new_figure()
        axes.plot([0, 1], [0, 1], label="line")
        axes.legend()
        save(figure, tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 1000


def test_an_unknown_ending_and_an_existing_file_are_refused(tmp_path):
    figure, _ = new_figure(panels=2)
    with pytest.raises(InvalidInput, match="svg"):
        save(figure, tmp_path / "figure.bmp")
    save(figure, tmp_path / "figure.svg")
    with pytest.raises(FileProblem, match="exists"):
        save(figure, tmp_path / "figure.svg")
    save(figure, tmp_path / "figure.svg", overwrite=True)


def test_series_differ_in_more_than_colour():
    assert len(set(COLOURS)) == len(COLOURS) == len(set(STYLES)) == len(set(MARKERS))
