"""Put routes, refusals, guard and watch together into one application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from dpmarket.market import Desk
from dpmarket.version import __version__
from dpmarket.web import health, signing
from dpmarket.web.api import campaigns, models, payouts, sellers
from dpmarket.web.guard import Application, Guard
from dpmarket.web.handbook import handbook
from dpmarket.web.pages.routes import include_pages
from dpmarket.web.problems import Problem, documented, tell_problems
from dpmarket.web.service import Clock, Service, clock
from dpmarket.web.settings import Settings
from dpmarket.web.watching import Metrics, Watch

ABOUT = (
    "Buy differentially private data truthfully. A buyer drafts and opens a campaign, a paymaster enters "
    "money and pays, an operator invites; sellers read, choose, accept, send a sealed record, and can leave "
    "until the training begins. Money is in whole minor units, times are in UTC. A request with an "
    "Idempotency-Key can be sent again without harm. What is somebody else's does not exist for you: 404."
)


def make_app(
    desk: Desk, settings: Settings, metrics: Metrics | None = None, tells_time: Clock = clock
) -> Application:
    """Return the service as an ASGI application.

    Parameters
    ----------
    desk
        An open desk.
    settings
        How the service is set up.
    metrics
        Where to count; None: nowhere that anybody sees.
    tells_time
        Returns the time.
    """
    app = make_routes()
    app.state.service = Service(desk, settings, tells_time)
    guarded = Guard(app, settings.public_url, settings.max_body)
    return Watch(guarded, metrics or Metrics())


def make_routes() -> FastAPI:
    """Return the routes alone, without a desk; ``state.document`` is the OpenAPI document."""
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
    for router in (campaigns.router, sellers.router, payouts.router, health.router, signing.router):
        app.include_router(router, responses=documented(405, 421, 500))
    known = models.known_names()
    tell_problems(app, known)

    def contradicting(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, campaigns.Contradicting)
        request.scope["dpmarket.kind"] = "contradiction"
        return campaigns.told_contradictions(refusal, known)

    app.add_exception_handler(campaigns.Contradicting, contradicting)
    include_pages(app)
    document = app.state.document = _document(app)

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document

    @app.get("/api/v1/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs() -> str:
        return handbook(document)

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
