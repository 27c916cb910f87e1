"""Choose a language by a link, in place of what the browser asks for; it is kept in a cookie of its own."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.rendering import LANGUAGE, see
from dpmarket.web.pages.texts import languages

router = APIRouter(include_in_schema=False)
_YEAR = 365 * 24 * 3600
# Pages of this service only: not another host, whose address would begin with two slashes.
_OWN = re.compile(r"/(?:[\w.-]+/)*[\w.-]*", re.ASCII)


@router.get("/language/{name}")
def choose(
    name: Annotated[str, Path(max_length=20)], back: Annotated[str, Query(max_length=200)] = "/"
) -> Response:
    """Keep which language somebody reads, and lead back to where they were.

    It changes nothing but how pages are shown to this browser, and so needs no button.
    """
    if name not in languages():
        raise MarketRefusal("unknown", "there is no such language.")
    answer = see(back if is_own(back) else "/")
    answer.set_cookie(LANGUAGE, name, max_age=_YEAR, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def is_own(back: str) -> bool:
    """Return whether an address is a page of this service."""
    return _OWN.fullmatch(back) is not None
