"""The page for sellers: its verdicts are the verifier's on every file, good or forged; it asks no network."""

import base64
import functools
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from dpmarket.certificates import receipt_page, verify
from dpmarket.certificates.verifier.statements import NOT_PROMISED
from support.browser import opened_browser
from support.forged_receipts import cases, random_cases, strange_cases

NODE = shutil.which("node")


@functools.cache
def expected(case):
    """Return what the verifier says, as (check, verdict, why), reading the first line as sellers do."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(case.certificate)
        file.flush()
        found = verify(Path(file.name), receipt=case.receipt, cost=case.cost, digest=case.digest)
    return [(check.name, check.verdict, check.detail) for check in found.checks]


def comparable(checks):
    """Leave out how a kind of error is called, and how ids are quoted."""
    words = (
        re.sub(r"\(\w+\)$|id (['\"]).*?\1,(?= promise)|'", "", why.replace('"', "'")) for _, _, why in checks
    )
    return [(name, verdict, why) for (name, verdict, _), why in zip(checks, words, strict=True)]


def given(case):
    """Return a case as plain data; JSON knows no infinity."""
    cost = None if case.cost is None else str(case.cost).replace("inf", "Infinity").replace("nan", "NaN")
    files = [base64.b64encode(part).decode() for part in (case.certificate, case.receipt)]
    return [*files, cost, case.digest]


DECODE = "const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));"
CHECK_ALL = """cases.map(([certificate, receipt, cost, digest]) => checkReceipt(
    bytes(certificate), bytes(receipt), cost === null ? null : Number(cost), digest,
).map(({ name, verdict, detail }) => [name, verdict, detail]))"""


def script():
    """Return the page's script without the part that needs a page."""
    page = receipt_page().decode()
    return re.search(r"<script>(.*)</script>", page, re.DOTALL)[1].split("// The page:")[0]


def by_node(chosen):
    decode = 'const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));'
    program = f"{script()}\n{decode}\nconst cases = {json.dumps([given(case) for case in chosen])};\n"
    program += f"process.stdout.write(JSON.stringify({CHECK_ALL}));"
    done = subprocess.run([NODE, "-"], input=program.encode(), capture_output=True, check=True, timeout=600)
    return [[tuple(check) for check in checks] for checks in json.loads(done.stdout)]


def differences(chosen, found):
    """Return the names of the cases on which the two verifiers do not agree, with what they say.

    A kind of release that the page does not know may be one that no verifier knows.
    """
    told = [
        (case.name, comparable(expected(case)), comparable(checks))
        for case, checks in zip(chosen, found, strict=True)
    ]
    return [
        (name, [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]])
        for name, ours, theirs in told
        if ours != theirs and not (theirs[0][1] == "not made" and ours[0][:2] == ("layout", "FAILS"))
    ]


def test_the_verifier_passes_what_is_good_and_refuses_what_is_forged():
    for case in cases():
        passed = all(verdict != "FAILS" for _, verdict, _ in expected(case))
        assert case.good is None or passed == case.good, case.name


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_pages_script_gives_the_verifiers_verdicts_on_good_and_forged_files():
    chosen = cases()
    assert len(chosen) > 600
    assert differences(chosen, by_node(chosen)) == []


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_pages_script_gives_the_verifiers_verdicts_on_files_changed_at_random():
    chosen = random_cases(500, seed=1)
    assert differences(chosen, by_node(chosen)) == []


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_the_pages_script_neither_passes_nor_fails_a_kind_of_release_that_it_does_not_know():
    chosen = list(strange_cases())
    for case, checks in zip(chosen, by_node(chosen), strict=True):
        assert [check[:2] for check in checks] == [("layout", "not made")], case.name
        assert "use dpmarket verify" in checks[0][2]
    told = by_node([chosen[0]._replace(digest=digest) for digest in ("0" * 64, body_digest(chosen[0]))])
    assert [checks[1][:2] for checks in told] == [("digest", "FAILS"), ("digest", "holds")]


def body_digest(case):
    return hashlib.sha256(case.certificate.removeprefix(b'{"body":').removesuffix(b",\n")).hexdigest()


def test_the_page_says_what_is_not_promised_and_names_no_other_place():
    page = receipt_page().decode()
    for sentence in NOT_PROMISED:
        assert sentence.replace("'", "&#x27;") in page
    assert "@" not in re.sub(r"@media", "", page.split("<script>")[0])
    for word in ("http://", "https://", "fetch(", "XMLHttpRequest", "localStorage", "innerHTML", "eval("):
        assert word not in page


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def page(browser, tmp_path):
    """Return a page opened from a file, as a seller opens it; whatever goes wrong in it fails the test."""
    file = tmp_path / "check.html"
    file.write_bytes(receipt_page())
    problems, asked = [], []
    page = browser.new_page(viewport={"width": 390, "height": 850})
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert problems == []
    assert asked == [file.as_uri()]


@pytest.mark.slow
def test_the_page_gives_the_verifiers_verdicts_in_a_browser(page):
    """All chosen cases and a thousand random ones, by the page's own script, where sellers run it."""
    chosen = [*cases(), *random_cases(1_000, seed=2)]
    found = []
    for start in range(0, len(chosen), 100):
        part = [given(case) for case in chosen[start : start + 100]]
        found += page.evaluate(f"(cases) => {{ {DECODE} return {CHECK_ALL}; }}", part)
    assert differences(chosen, [[tuple(check) for check in checks] for checks in found]) == []


def filled(page, tmp_path, case, cost=""):
    """Choose the files as a seller would, press the button, and return the verdict in words."""
    for name, content in (("certificate", case.certificate), ("receipt", case.receipt)):
        (tmp_path / f"{name}.json").write_bytes(content)
        page.set_input_files(f"#{name}", tmp_path / f"{name}.json")
    page.fill("#cost", cost)
    page.evaluate("document.getElementById('result').hidden = true")  # what was shown before is no answer
    page.click("#check")
    page.wait_for_selector("#result:not([hidden])")
    return page.inner_text("#verdict")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_seller_checks_a_receipt_on_the_page(page, tmp_path, width):
    page.set_viewport_size({"width": width, "height": 850})
    page.click("#check")
    assert "Choose both files" in page.inner_text("#missing")
    good = next(case for case in cases() if case.name == "version-2 online 3")
    assert filled(page, tmp_path, good, str(good.cost)) == "No check failed."
    rows = [row.split("\t") for row in page.inner_text("#checks").splitlines()]
    assert [tuple(row[1::-1]) for row in rows] == [row[:2] for row in expected(good._replace(digest=None))]
    assert "EUR" in page.inner_text("#checks")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "failed" in filled(page, tmp_path, good, "1000")
    assert "failed" in filled(page, tmp_path, good, "two")
    strange = next(iter(strange_cases()))
    assert filled(page, tmp_path, strange) == "This page cannot check this certificate: use dpmarket verify."
    forged = good._replace(receipt=good.receipt.replace(b'"payment":', b'"payment":9'))
    assert "do not trust" in filled(page, tmp_path, forged)
