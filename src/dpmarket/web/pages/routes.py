"""All routes of pages together."""

from __future__ import annotations

from fastapi import FastAPI

from dpmarket.web.pages import language, member, money, seller, static, verify
from dpmarket.web.pages.refusals import tell_people


def include_pages(app: FastAPI) -> None:
    """Add the pages to an application, and have its refusals shown to people as pages."""
    for part in (seller, member, money, verify, static, language):
        app.include_router(part.router)
    tell_people(app)
