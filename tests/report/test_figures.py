"""Figures as part of a page."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from dpmarket.report.charts import COLOURS, STYLES, draw_rule, inline_svg, new_figure

DRAWINGS = {
    "both": ([1.5], [0.5], {"cutoff": 1.8, "unit": "payment", "worth": [0.5, 0.0], "currency": "$"}),
    "the rule alone": ([], [], {"cutoff": None, "unit": "epsilon"}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_well_formed_takes_its_colours_from_the_page_and_is_the_same_every_time(name):
    costs, values, options = DRAWINGS[name]

    def drawn():
        figure, (axes,) = new_figure()
        draw_rule(axes, [1, 2], [1, 0], costs, values, **options)
        return inline_svg(figure, "one", "Title & <more>", 'It "shows" <this>.')

    text = drawn()
    assert text == drawn()
    assert "<dc:date>" not in text
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'Title & <more>. It "shows" <this>.'
    assert root[0].text == "Title & <more>"
    assert "currentColor" in text
    assert set(re.findall(r"(?<!, )#[0-9a-fA-F]{6}", text)) - {"#ffffff"} == set()
    assert COLOURS[0] in text or COLOURS[1] in text
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert all(identity == "one" or identity.startswith("one-") for identity in ids)
    assert len(set(ids)) == len(ids)
    assert {a or b for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)} <= set(ids)


def test_series_differ_in_more_than_colour():
    assert len(set(COLOURS)) == len(COLOURS) == len(set(STYLES))
