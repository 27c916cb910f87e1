"""Templates, files and refusals as answers, in the reader's language, with the operator's name and colour."""

import re
import secrets
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dpmarket.campaign.acts import shown_id
from dpmarket.campaign.rules import meaning
from dpmarket.campaign.transaction import nothing
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.web.pages.texts import Texts, languages, other_languages, texts_for
from dpmarket.web.problems import Description
from dpmarket.web.service import TheService
from dpmarket.web.settings import Settings

LANGUAGE = "__Host-language"  # the cookie that keeps which language somebody chose

_POLICY = re.compile(r'Content-Security-Policy" content="([^"]*)"')
_FOLDER = Path(__file__).parents[1]
_LOGOS = {".svg": "image/svg+xml", ".png": "image/png"}
_LARGEST = 200_000
_KINDS = {"dpmarket.css": "text/css", "dpmarket.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILES = {name: resources.files("dpmarket.web").joinpath("static", name).read_bytes() for name in _KINDS}
_KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}
_KEEP_LOGO = {"Cache-Control": "public, max-age=3600"}


def static_path(name: str) -> str:
    """Return the address of a file, which changes with its content: browsers keep it for a year."""
    return f"/static/{name}?{sha256(_FILES[name]).hexdigest()[:16]}"


_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters["shown_id"] = shown_id
_environment.globals |= {
    "static": static_path,
    "chance_of": meaning.chance_of,
    "epsilon_left": meaning.epsilon_left,
    "epsilon_shown": meaning.epsilon_shown,
    "guess_percent": meaning.guess_percent,
}


def texts_of(request: Request) -> Texts:
    """Return the texts in the language that a reader chose, or that their browser asks for."""
    wanted = request.headers.get("accept-language", "")
    chosen = request.cookies.get(LANGUAGE, "")
    return texts_for(f"{chosen},{wanted}" if chosen in languages() else wanted)


def page(
    request: Request, template: str, *, status: int = 200, texts: Texts | None = None, **values: Any
) -> HTMLResponse:
    """Return a page."""
    said = (texts or texts_of(request)).about(str(values.get("purpose", "model")))
    content = _environment.get_template(f"{template}.html").render(
        {"title": None, "home": None},
        t=said,
        money=said.money,
        number=said.number,
        measured=said.measured,
        typed_amount=said.typed_amount,
        when=said.when,
        new_key=new_key,
        languages=other_languages(said.language),
        brand=brand_of(request),
        here=request.url.path if request.method == "GET" else values.get("home") or "/",
        **values,
    )
    headers = {"Content-Language": said.language, "Vary": "Accept-Language, Cookie"}
    return HTMLResponse(content, status, headers)


def whole_page(content: bytes) -> HTMLResponse:
    """Return a page that was made elsewhere, by the stricter policy that it brings along itself."""
    found = _POLICY.search(content[:4000].decode(errors="replace"))
    assert found is not None
    return HTMLResponse(content, headers={"Content-Security-Policy": f"{found[1]}; frame-ancestors 'none'"})


def new_key() -> str:
    """Return an idempotency key for a form: pressing its button twice does its act once."""
    return secrets.token_urlsafe(24)


def see(path: str) -> RedirectResponse:
    """Return an answer that leads to a page after an act, so that going back repeats nothing."""
    return RedirectResponse(path, status_code=303)


def attached(name: str, content: str | bytes) -> Response:
    """Return a file to download, of the kind that its ending names."""
    kinds = {"csv": "text/csv; charset=utf-8", "json": "application/json", "xml": "application/xml"}
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kinds[name.rsplit(".", 1)[1]], headers=headers)


_FOR_PROGRAMS = ("/api/", "/healthz", "/readyz", "/metrics")
_NAMES = {
    401: "stranger", 404: "unknown", 405: "unknown", 409: "state", 422: "invalid", 429: "often", 503: "later",
}  # fmt: skip


def page_of(request: Request, refusal: Exception, found: Description) -> Response | None:
    """Return the page that states a refusal; None for programs, which get a problem."""
    path = request.url.path
    if path.startswith(_FOR_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return None
    is_market = isinstance(refusal, MarketRefusal)
    name = found.kind if is_market else _NAMES.get(found.status, "error")
    # The market's own sentence is for members: sellers have texts of their own.
    detail = found.title if is_market and home_of(path) == "/m" else None
    return page(request, "refused", status=found.status, name=name, detail=detail, home=home_of(path))


def home_of(path: str) -> str | None:
    """Return where a reader of a page goes on; None for who may have no place."""
    return next((home for home in ("/s", "/m") if path == home or path.startswith(home + "/")), None)


router = APIRouter(include_in_schema=False)


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


@router.get("/static/{name}")
async def file(name: str) -> Response:
    """Give a file."""
    if name not in _FILES:
        raise nothing()
    return Response(_FILES[name], media_type=_KINDS[name], headers=_KEEP)
