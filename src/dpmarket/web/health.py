"""Whether the service lives, and whether it can work."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from dpmarket.campaign.views import job_counts
from dpmarket.web.auth import TheService
from dpmarket.web.problems import documented

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The state of the service."""

    state: Literal["alive", "ready"]


@router.get("/healthz")
async def healthz() -> Health:
    """Say that the process lives; nothing else is looked at."""
    return Health(state="alive")


@router.get("/readyz", responses=documented(503))
def readyz(service: TheService) -> Health:
    """Say that the database can be read and agrees with the log."""
    service.market.verify()
    service.look(job_counts)
    return Health(state="ready")
