"""The page on which a seller checks a receipt in a browser: a second verifier, the same bytes for all."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources

from dpmarket.certificates.verifier.verdicts import LIMITS, TABLES
from dpmarket.version import __version__

_FOLDER = resources.files("dpmarket.certificates").joinpath("page")


def receipt_page() -> bytes:
    """Return the page, a whole HTML document in UTF-8 that fetches nothing, the same for one version."""
    scripts = sorted(part.name for part in _FOLDER.iterdir() if part.name.endswith(".js"))  # numbered
    script = "\n" + "\n".join(map(_part, scripts))
    script = script.replace("@TABLES@", json.dumps(TABLES, ensure_ascii=False).replace("<", "\\u003c"))
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
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
