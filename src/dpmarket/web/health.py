"""Say whether the service lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter

from dpmarket.ledger import reading
from dpmarket.market import job_counts
from dpmarket.web.api.models import State
from dpmarket.web.auth import TheService
from dpmarket.web.problems import documented

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> State:
    """Say that the process lives. Asks nobody else."""
    return State(state="alive")


@router.get("/readyz", responses=documented(503))
def readyz(service: TheService) -> State:
    """Say that the database can be read and has the desk's tables."""
    with reading(service.desk.ledger) as connection:
        job_counts(connection)
    return State(state="ready")
