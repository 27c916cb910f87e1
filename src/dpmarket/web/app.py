"""Routes, refusals, guard and metrics together: one ASGI application."""

from typing import Any

from fastapi import FastAPI

from dpmarket.campaign.database import Market
from dpmarket.version import __version__
from dpmarket.web import api, single_sign_on
from dpmarket.web.guard import Application, Guard
from dpmarket.web.metrics import Metrics, Watch
from dpmarket.web.pages import drafts, member, panels, public, rendering, seller, staff
from dpmarket.web.problems import Problem, documented, tell_refusals
from dpmarket.web.service import Service
from dpmarket.web.settings import Settings
from dpmarket.web.single_sign_on import Proxies

ABOUT = (
    "Buy differentially private data truthfully. A buyer drafts and opens a campaign, a paymaster enters "
    "money and pays, an operator invites; sellers consent, choose, accept, send a sealed record, and can "
    "leave until the training begins. Money is in whole minor units, times are in UTC. Every act needs an "
    "Idempotency-Key and can be sent again without harm. What belongs to others does not exist for you: 404."
)


def make_app(market: Market, settings: Settings, metrics: Metrics | None = None) -> Application:
    """Return the service of an open market, whose clock tells the time, as an ASGI application."""
    app = make_routes()
    app.state.service = Service(market, settings)
    guarded = Guard(app, settings.public_url, settings.max_body)
    watched = Watch(guarded, metrics or Metrics())
    return Proxies(watched, settings) if settings.trusted_proxies else watched


def make_routes() -> FastAPI:
    """Return the routes alone, without a market; ``state.document`` is the OpenAPI document."""
    app = FastAPI(
        title="dpmarket",
        version=__version__,
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    for router in (api.router, api.health, single_sign_on.router):
        app.include_router(router, responses=documented(405, 421, 500))
    for pages in (panels, seller, drafts, staff, member, public, rendering):
        app.include_router(pages.router)
    tell_refusals(app, api.known_names(), rendering.page_of)
    document = app.state.document = _document(app)

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document

    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document: refusals are problems everywhere, not the framework's own."""
    document = app.openapi()
    schemas = document["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schemas["Problem"].pop("$defs"))
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document
