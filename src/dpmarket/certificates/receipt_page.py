"""Make the page on which a seller checks a receipt in a browser, with nothing installed.

The page is one file. Its scripts are a second verifier, written for browsers: they share nothing with the
program but the sentences about what is not promised. Every copy of one version is the same, byte by byte, so
that whoever does not trust the buyer compares its SHA-256, or takes it from somebody else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources

from dpmarket.certificates.verifier.statements import LIMITS
from dpmarket.version import __version__

_SCRIPTS = (
    "1-sha256.js",
    "2-fractions.js",
    "3-canonical.js",
    "4-layout.js",
    "5-release.js",
    "6-gaussian.js",
    "7-market.js",
    "8-checks.js",
    "9-page.js",
)


def receipt_page() -> bytes:
    """Return the page, in UTF-8: it fetches nothing, and its own policy forbids the browser to.

    Returns
    -------
    bytes
        A whole HTML document, the same for everybody with the same version.

    Examples
    --------
    >>> page = receipt_page()
    >>> page.startswith(b"<!doctype html>"), b"http://" in page or b"https://" in page
    (True, False)
    """
    script = "\n" + "\n".join(_part(name) for name in _SCRIPTS)
    script = script.replace("@LIMITS@", json.dumps(LIMITS, indent=2))
    style = "\n" + _part("page.css")
    sentences = "\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in LIMITS)
    page = _part("page.html")
    # The script last: whatever it contains is not looked at again.
    for name, value in (
        ("VERSION", __version__),
        ("LIMITS_LIST", sentences),
        ("STYLE_HASH", _hash(style)),
        ("SCRIPT_HASH", _hash(script)),
        ("STYLE", style),
        ("SCRIPT", script),
    ):
        page = page.replace(f"@{name}@", value)
    return page.encode()


def _part(name: str) -> str:
    return resources.files("dpmarket.certificates").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
