"""The page in a real browser: phone and desktop, light and dark."""

import pytest

from support.browser import opened_browser

VISIBLE = """element => {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 250 && box.height > 100 && style.visibility === "visible" && style.display !== "none"
        && box.left >= 0 && box.right <= document.documentElement.clientWidth;
}"""
CONTRAST = """() => {
    const light = text => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(
            v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const texts = "p, td, th, figcaption, caption, svg text, h1, h2, .tiles span";
    const worst = [...document.querySelectorAll(texts)]
        .map(e => light(getComputedStyle(e)[e.tagName === "text" ? "fill" : "color"]))
        .map(ink => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
    return Math.min(...worst);
}"""


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as browser:
        yield browser


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_looks_right_in_a_browser(browser, demo, width, scheme):
    """No errors, nothing fetched, no horizontal scrolling; charts visible, with words, text legible."""
    page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    problems, fetched = [], []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(demo.report.as_uri())
    assert problems == []
    assert fetched == [demo.report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    charts = page.query_selector_all("svg.chart")
    assert len(charts) == 3
    for chart in charts:
        assert chart.evaluate(VISIBLE)
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label")) > 40
    assert page.evaluate(CONTRAST) > 4.5
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert dark == (scheme == "dark")
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.close()
