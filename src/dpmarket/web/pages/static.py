"""The style sheet, the script and the icon, from memory; browsers keep them."""

from __future__ import annotations

from hashlib import sha256
from importlib import resources

from fastapi import APIRouter, Response

from dpmarket.errors import MarketRefusal

router = APIRouter(include_in_schema=False)
_KINDS = {"dpmarket.css": "text/css", "dpmarket.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES = {name: resources.files("dpmarket.web").joinpath("static", name).read_bytes() for name in _KINDS}
_KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}


def static_path(name: str) -> str:
    """Return the address of a file, which changes with its content: browsers keep it for a year."""
    return f"/static/{name}?{sha256(_FILES[name]).hexdigest()[:16]}"


@router.get("/static/{name}")
async def file(name: str) -> Response:
    """Give a file."""
    if name not in _FILES:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    return Response(_FILES[name], media_type=_KINDS[name], headers=_KEEP)
