"""Read what a form sends: names and texts in memory, never in a file, with limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from dpmarket.errors import MarketRefusal

_FIELDS = 2_000
_KEY = re.compile(r"^[A-Za-z0-9_-]{16,200}$")
_NUMBER = re.compile(r"^[+-]?(\d{1,40}([.,]\d{0,40})?|[.,]\d{1,40})([eE][+-]?\d{1,3})?$", re.ASCII)
_THOUSANDS = re.compile(r"^[+-]?[1-9]\d*,\d{3}$", re.ASCII)
URLENCODED = "application/x-www-form-urlencoded"


class Form:
    """What a form sent. Private: it may hold somebody's record or cost."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Form({len(self._values)} fields)"

    def text(self, name: str) -> str:
        """Return what was typed into a field, without blanks around it; empty for no such field."""
        return self._values.get(name, "").strip()

    def names(self) -> set[str]:
        """Return the names of all fields that were sent."""
        return set(self._values)

    @property
    def key(self) -> str:
        """The form's idempotency key.

        Raises
        ------
        MarketRefusal
            There is none: the form is not one of ours.
        """
        key = self.text("key")
        if not _KEY.match(key):
            raise MarketRefusal("invalid", "expected a form of this service.")
        return key


async def sent(request: Request) -> Form:
    """Return the form that a request sends.

    Raises
    ------
    MarketRefusal
        It is no form, has a field twice, or too many fields.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != URLENCODED:
        raise MarketRefusal("invalid", "expected a form.")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise MarketRefusal("invalid", "expected a form.") from None
    values = dict(pairs)
    if len(values) != len(pairs) or any("\0" in text for pair in pairs for text in pair):
        raise MarketRefusal("invalid", "expected a form with every field once.")
    return Form(values)


Sent = Annotated[Form, Depends(sent)]


def number_in(text: str) -> float | None:
    """Return the number that somebody typed, or None for what is none.

    A comma is taken for a point, unless it may be one between thousands: a payment that is a thousand
    times too small must not come of a misunderstanding.

    Examples
    --------
    >>> number_in("2,5"), number_in("1e3"), number_in("-.5"), number_in("1,000"), number_in("nan")
    (2.5, 1000.0, -0.5, None, None)
    """
    if not _NUMBER.match(text) or _THOUSANDS.match(text):
        return None
    value = float(text.replace(",", "."))
    return value if abs(value) < 1e300 else None
