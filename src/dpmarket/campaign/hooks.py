"""Webhooks: send a campaign's own events to addresses, in order, and never one person's, or any amount.

The worker sends an event until the address takes it; its number shows a repeated one.
"""

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Id, Number, act, refuse_others, shown_id
from dpmarket.campaign.database import Market
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.transaction import Tx, require

KIND = "hook"
_AT_ONCE = 100
# On PostgreSQL a number may be committed after a larger one: events are sent once they are this old.
_SETTLED = timedelta(seconds=10)
_hook, _event, _job = schema.webhook.c, schema.event.c, schema.job.c
Url = Annotated[str, pydantic.Field(pattern=r"^https?://[!-~]+$", max_length=1000)]


@dataclass(frozen=True)
class NewWebhook:
    """A new webhook, and the secret of its signatures, which is shown once."""

    id: int
    secret: str

    def __repr__(self) -> str:
        return f"NewWebhook({self.id})"


@dataclass(frozen=True)
class Webhook:
    """An address that gets events: of one campaign, or of all."""

    id: int
    url: str
    campaign: str | None
    sent: int  # the number of the last event that it took
    error: str | None  # why the last try failed


Message = tuple[int, bytes, dict[str, str]]  # an event's number, and its body and headers as they are sent


@act("operator")
def add_webhook(tx: Tx, caller: Caller, url: Url, of: Id | None = None) -> NewWebhook:
    """Tell an address of all later events of a campaign, or of all campaigns; return its secret, once."""
    known = of is None or tx.c.scalar(sa.select(schema.campaign.c.id).where(schema.campaign.c.id == of))
    require(known, "invalid", "There is no such campaign.")
    secret = secrets.token_bytes(32)
    last = sa.select(sa.func.coalesce(sa.func.max(_event.number), 0)).scalar_subquery()
    new = schema.webhook.insert().values(url=url, secret=secret, campaign=of, sent=last)
    made = tx.c.execute(new.returning(_hook.id)).scalar_one()
    return NewWebhook(made, f"whsec_{base64.b64encode(secret).decode()}")


@act("operator")
def end_webhook(tx: Tx, caller: Caller, webhook: Number) -> None:
    """Tell an address nothing more."""
    done = tx.delete(schema.webhook, _hook.id == webhook)
    require(done, "invalid", "There is no such webhook.")
    tx.delete(schema.job, sa.and_(_job.kind == KIND, _job.subject == webhook))


def list_webhooks(c: sa.Connection, caller: Caller) -> list[Webhook]:
    """Return all webhooks, without their secrets, to an operator."""
    refuse_others(c, caller, "operator")
    mine = sa.and_(_job.kind == KIND, _job.subject == _hook.id)
    query = (
        sa.select(_hook.id, _hook.url, schema.campaign.c.name, _hook.sent, _job.error)
        .outerjoin(schema.campaign, schema.campaign.c.id == _hook.campaign)
        .outerjoin(schema.job, mine)
    )
    return [Webhook(*row) for row in c.execute(query.order_by(_hook.id))]


def enter_hooks(market: Market) -> None:
    """Enter a job for each webhook with events to send, unless it has one that waits, or failed for good."""
    with market.look() as c:
        busy = sa.select(_job.subject).where(_job.kind == KIND, _job.state != "done")
        idle = c.execute(sa.select(_hook.id, _hook.campaign, _hook.sent).where(_hook.id.not_in(busy))).all()
        due = [row.id for row in idle if c.execute(_pending(market, row).limit(1)).first() is not None]
    if due:
        market.transact(lambda tx: tx.jobs(KIND, due, "hook"))


def pending(market: Market, webhook: int) -> tuple[str, list[Message]]:
    """Return a webhook's address and the next events to send there, signed; none if it has ended."""
    with market.look() as c:
        row = c.execute(sa.select(schema.webhook).where(_hook.id == webhook)).one_or_none()
        if row is None:
            return "", []
        found = c.execute(_pending(market, row).limit(_AT_ONCE)).all()
    at = str(int(market.clock().timestamp()))
    return str(row.url), [_message(row.secret, one, at) for one in found]


def took(market: Market, webhook: int, number: int) -> None:
    """Enter that a webhook took all events up to a number."""
    market.transact(lambda tx: tx.set(schema.webhook, _hook.id == webhook, sent=number))


def _pending(market: Market, row: Any) -> Any:
    columns = (_event.number, _event.campaign, _event.kind, _event.at)
    query = sa.select(*columns).where(_event.participation.is_(None), _event.number > row.sent)
    if row.campaign is not None:
        query = query.where(_event.campaign == row.campaign)
    if not market.is_file:
        query = query.where(_event.at <= time_text(market.clock() - _SETTLED))
    return query.order_by(_event.number)


def _message(secret: bytes, event: Any, at: str) -> Message:
    """Return an event as it is sent, signed by the scheme of Standard Webhooks."""
    data = {"campaign": shown_id(event.campaign), "number": event.number}
    body = json.dumps({"type": f"campaign.{event.kind}", "timestamp": event.at, "data": data}).encode()
    identity = f"event-{event.number}"
    signed = hmac.new(secret, f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "content-type": "application/json",
        "webhook-id": identity,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
    return event.number, body, headers
