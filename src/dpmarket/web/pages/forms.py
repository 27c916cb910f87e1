"""Forms as pages send them: names, texts and files in memory, never on a disk, with limits."""

import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser

from dpmarket.errors import MarketRefusal

_FIELDS, _FILES = 2_000, 3
_KEY = re.compile(r"^[A-Za-z0-9_-]{16,200}$")
_NUMBER = re.compile(r"^[+-]?(\d{1,40}([.,]\d{0,40})?|[.,]\d{1,40})([eE][+-]?\d{1,3})?$", re.ASCII)
_THOUSANDS = re.compile(r"^[+-]?[1-9]\d*,\d{3}$", re.ASCII)
_KINDS = ("application/x-www-form-urlencoded", "multipart/form-data")
# Nothing that is uploaded touches a disk: a request is far smaller, by the guard's limit.
MultiPartParser.spool_max_size = 2**31


class Form:
    """What a form sent. Private: it may hold somebody's record or cost, a receipt, or names of people."""

    def __init__(self, values: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> None:
        self._values, self.files = dict(values), dict(files or {})

    def text(self, name: str) -> str:
        """Return what was typed into a field, without blanks around it; empty for no such field."""
        return self._values.get(name, "").strip()

    def typed(self) -> dict[str, str]:
        """Return all fields with what was typed into them."""
        return {name: text.strip() for name, text in self._values.items()}

    @property
    def key(self) -> str:
        """The form's idempotency key; a form without one is not of this service."""
        key = self.text("key")
        if not _KEY.match(key):
            raise MarketRefusal("invalid", "Expected a form of this service.")
        return key


async def sent(request: Request) -> Form:
    """Return the form that a request sends."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in _KINDS:
        raise MarketRefusal("invalid", "Expected a form.")
    try:
        async with request.form(max_files=_FILES, max_fields=_FIELDS, max_part_size=2**31) as parts:
            pairs = parts.multi_items()
            files = {name: await one.read() for name, one in pairs if isinstance(one, UploadFile)}
    except (HTTPException, KeyError, UnicodeDecodeError):
        raise MarketRefusal("invalid", "Expected a form.") from None
    texts = [(name, text) for name, text in pairs if isinstance(text, str)]
    values = dict(texts)
    ends = any("\0" in part for pair in texts for part in pair)
    if ends or len(values) != len(texts) or len(texts) > _FIELDS:
        raise MarketRefusal("invalid", "Expected a form with every field once.")
    return Form(values, {name: content for name, content in files.items() if content})


Sent = Annotated[Form, Depends(sent)]


def number_in(text: str) -> float | None:
    """Return the number that somebody typed, or None for what is none, or has a comma before thousands.

    >>> number_in("2,5"), number_in("1e3"), number_in("-.5"), number_in("1,000"), number_in("nan")
    (2.5, 1000.0, -0.5, None, None)
    """
    if not _NUMBER.match(text) or _THOUSANDS.match(text):
        return None
    value = float(text.replace(",", "."))
    return value if abs(value) < 1e300 else None
