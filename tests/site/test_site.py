"""The built documentation: links, no network, and how it looks in a browser."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest

from support.browser import opened_browser

DOCS = Path(__file__).parents[2] / "docs"
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "object": "data", "source": "src"}
# Wider than the page, without a box that scrolls around it.
TOO_WIDE = """() => [...document.querySelectorAll("article *")].filter(e => {
    if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let box = e; box; box = box.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX)) return false;
    return true;
}).map(e => e.tagName + " " + e.textContent.slice(0, 40))"""
# What scrolls sideways, and of it what the keyboard does not reach.
SCROLLING = """() => [...document.querySelectorAll("article *")].filter(e => e.scrollWidth > e.clientWidth + 1
    && ["auto", "scroll"].includes(getComputedStyle(e).overflowX))"""
UNREACHED = f"""() => ({SCROLLING})().filter(e => e.getAttribute("tabindex") !== "0" || !e.ariaLabel)
    .map(e => e.outerHTML)"""


class Page(HTMLParser):
    """The links of a page, what it loads, and the places that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.places = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.places |= {own[key] for key in ("id", "name") if own.get(key)}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        if own.get(LOADED.get(tag)):
            self.loaded.append(own[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("myst_parser", reason="needs what the documentation is built with: make docs")
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-q", "-b", "html"]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as browser:
        yield browser


def pages(site):
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


@pytest.mark.slow
def test_no_link_is_broken_and_nothing_comes_from_the_network(site):
    known = {path: Page(path) for path in pages(site)}
    assert len(known) > 40
    problems = []
    for path, page in known.items():
        for address in page.links + page.loaded:
            if address.startswith(("http:", "https:", "//")):
                if address in page.loaded:
                    problems.append((path.name, address))
                continue
            if address.startswith(("mailto:", "data:")):
                continue
            name, place = urldefrag(address)
            name = unquote(name.split("?")[0])
            target = (path.parent / name).resolve() if name else path
            if not target.is_file() or (target in known and unquote(place) not in known[target].places):
                problems.append((path.name, address))
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_fits_the_screen(site, browser, width):
    """No errors, nothing fetched from elsewhere, nothing cut off, at phone and desktop width."""
    page = browser.new_page(viewport={"width": width, "height": 850})
    problems = []
    page.on("console", lambda message: problems.append((page.url, message.text)))
    page.on("pageerror", lambda error: problems.append((page.url, str(error))))
    page.on("request", lambda r: r.url.startswith(("file:", "data:")) or problems.append((page.url, r.url)))
    for path in pages(site):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append((path.name, page.evaluate(TOO_WIDE)))
        problems += [(path.name, "no focus", html[:80]) for html in page.evaluate(UNREACHED)]
    assert problems == []
    page.close()


@pytest.mark.slow
def test_search_works_without_a_network(site, browser):
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: request.url.startswith("file:") or asked.append(request.url))
    page.goto(f"{(site / 'search.html').as_uri()}?q=escrow")
    page.wait_for_selector("ul.search li")
    page.wait_for_function("document.querySelectorAll('ul.search li').length > 2")
    assert "What the words mean" in page.inner_text("#search-results")
    assert page.locator(".nothing-asked").is_hidden()
    page.goto((site / "search.html").as_uri())
    assert page.locator(".nothing-asked").is_visible()
    assert asked == []
    page.close()


@pytest.mark.slow
def test_the_search_leaves_the_appendix_out(site):
    index = json.loads((site / "searchindex.js").read_text()[len("Search.setIndex(") : -1])
    appendix = {index["docnames"].index(name) for name in ("appendix", "performance", "reference/accuracy")}
    found = {place for where in index["terms"].values() for place in np.ravel(where).tolist()}
    assert len(found) > 40
    assert not found & appendix
