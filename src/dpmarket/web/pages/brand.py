"""The files of pages, and the service's own name, logo and colour; browsers keep them."""

from __future__ import annotations

from hashlib import sha256
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request, Response

from dpmarket.campaign.transaction import nothing
from dpmarket.errors import FileProblem
from dpmarket.web.service import TheService
from dpmarket.web.settings import Settings

router = APIRouter(include_in_schema=False)
_LOGOS = {".svg": "image/svg+xml", ".png": "image/png"}
_LARGEST = 200_000
_KINDS = {"dpmarket.css": "text/css", "dpmarket.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES = {name: resources.files("dpmarket.web").joinpath("static", name).read_bytes() for name in _KINDS}
_KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}
_KEEP_LOGO = {"Cache-Control": "public, max-age=3600"}


def brand_of(request: Request) -> dict[str, str | None]:
    """Return what pages show of the operator: a name, and addresses of a logo and a style sheet, if any."""
    settings: Settings = request.app.state.service.settings
    logo, colour = settings.brand_logo, settings.brand_colour
    return {
        "name": settings.brand_name,
        "logo": None if logo is None else "/brand/logo?" + sha256(str(logo).encode()).hexdigest()[:8],
        "style": None if colour is None else f"/brand/style.css?{colour[1:]}",
    }


def check_brand(settings: Settings) -> None:
    """Refuse a logo that is not there, too large, or no picture."""
    if settings.brand_logo is not None:
        _logo(settings.brand_logo)


@router.get("/brand/logo")
def logo(service: TheService) -> Response:
    """Give the logo; as a page of its own it can run nothing."""
    path = service.settings.brand_logo
    if path is None:
        raise nothing()
    kind, content = _logo(path)
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(content, media_type=kind, headers={**_KEEP_LOGO, **policy})


@router.get("/brand/style.css")
def style(service: TheService) -> Response:
    """Give the colour as a style sheet."""
    colour = service.settings.brand_colour
    if colour is None:
        raise nothing()
    return Response(
        f"header {{ border-top: .4rem solid {colour}; }}\n", media_type="text/css", headers=_KEEP_LOGO
    )


def _logo(path: Path) -> tuple[str, bytes]:
    kind = _LOGOS.get(path.suffix.lower())
    try:
        content = path.read_bytes() if kind and path.stat().st_size <= _LARGEST else b""
    except OSError:
        content = b""
    if kind is None or not content:
        raise FileProblem("cannot use brand_logo: expected a .svg or .png file of at most 200 kB.")
    return kind, content


def static_path(name: str) -> str:
    """Return the address of a file, which changes with its content: browsers keep it for a year."""
    return f"/static/{name}?{sha256(_FILES[name]).hexdigest()[:16]}"


@router.get("/static/{name}")
async def file(name: str) -> Response:
    """Give a file."""
    if name not in _FILES:
        raise nothing()
    return Response(_FILES[name], media_type=_KINDS[name], headers=_KEEP)
