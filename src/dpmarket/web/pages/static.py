"""The one style sheet and the one script, both from memory, and the page that checks receipts."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter, Request, Response

from dpmarket.certificates import receipt_page
from dpmarket.web.pages.rendering import page, whole_page

router = APIRouter(include_in_schema=False)
_STATIC = resources.files("dpmarket.web").joinpath("static")
_STYLE = _STATIC.joinpath("dpmarket.css").read_bytes()
_SCRIPT = _STATIC.joinpath("dpmarket.js").read_bytes()
_ICON = _STATIC.joinpath("icon.svg").read_bytes()


@router.get("/")
@router.get("/login")
def door(request: Request) -> Response:
    """Say to who comes without a link how one signs in."""
    return page(request, "door", title=None, home=None)


@router.get("/static/dpmarket.css")
async def style() -> Response:
    """The style sheet of all pages."""
    return Response(_STYLE, media_type="text/css; charset=utf-8")


@router.get("/static/dpmarket.js")
async def script() -> Response:
    """The script of all pages."""
    return Response(_SCRIPT, media_type="text/javascript; charset=utf-8")


@router.get("/static/icon.svg")
async def icon() -> Response:
    """The sign that browsers show beside a page's name."""
    return Response(_ICON, media_type="image/svg+xml")


@router.get("/check-receipt")
def check_receipt(request: Request) -> Response:
    """Give the page that checks a receipt in the browser, by its own and stricter policy."""
    return whole_page(request, receipt_page())
