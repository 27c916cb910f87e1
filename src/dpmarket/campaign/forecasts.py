"""Forecasts that a buyer asks for about a draft: a public sample table, and what a worker found with it.

The table is never private data: it is public, or of people who agreed. It is forgotten once the forecast is
made. A forecast holds for the rules that it was made with; a draft that is changed has none.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, act
from dpmarket.campaign.transaction import Tx, campaign_of, require

KIND = "forecast"
"""Of the job."""
Sample = Annotated[str, pydantic.Field(min_length=1, max_length=10**7, pattern=r"^[^\x00]*$")]
_job = schema.job.c


@act("buyer")
def ask_forecast(tx: Tx, caller: Caller, campaign: int, sample: Sample) -> None:
    """Have a worker simulate a draft's campaign on a public table, as CSV with the columns of the rules."""
    require(campaign_of(tx.c, campaign).state == "draft", "state", "Forecasts are made of drafts.")
    tx.job(KIND, campaign, tx.now, body=sample.encode())


def forecast_of(c: sa.Connection, campaign: int) -> dict[str, Any] | None:
    """Return a draft's forecast as plain data; empty while it is being made, None if nobody asked for one."""
    query = sa.select(_job.state, _job.answer).where(_job.kind == KIND, _job.subject == campaign)
    found = c.execute(query).one_or_none()
    if found is None or found.state not in ("waiting", "running", "done"):
        return None
    if found.state != "done":
        return {}
    made: dict[str, Any] = json.loads(found.answer)
    return made if made["rules"] == campaign_of(c, campaign).rules_digest else None
