"""All routes of pages together."""

from __future__ import annotations

from fastapi import FastAPI

from dpmarket.web.pages import (
    buying,
    choosing,
    delivering,
    language,
    paying,
    selling,
    serving,
    verifying,
    watching,
)
from dpmarket.web.pages.refusing import tell_people


def include_pages(app: FastAPI) -> None:
    """Add the pages to an application, and have its refusals told to people as pages."""
    for part in (selling, choosing, delivering, buying, watching, paying, verifying, serving, language):
        app.include_router(part.router)
    tell_people(app)
