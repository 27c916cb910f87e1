"""Pages of a service: the processor time of the choose page against an empty route with the same session.

The application is called in this process, without a network, so that only its own work counts. The empty
route looks the session up and answers with nothing; both are asked in turns. The choose page looks the
session up in the same reading as all else that it shows.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from fastapi import Response

from _live_market import market_for
from _results import Table, at_most, measure
from _timing import compare
from dpmarket import market
from dpmarket.campaign import check_market
from dpmarket.web.app import make_app
from dpmarket.web.auth import COOKIE
from dpmarket.web.pages import serving
from dpmarket.web.pages.looking import SignedSeller
from dpmarket.web.service import clock
from dpmarket.web.settings import Settings
from dpmarket.web.setup import new_member, prepare

REQUESTS = 200
PAGES = ("/s/choose", "/s", "/s/consent", "/s/history", "/s/withdraw")
EMPTY = "/s/empty"


@serving.router.get(EMPTY)
def empty(caller: SignedSeller) -> Response:
    return Response()


def pages():
    with service() as (app, cookie):
        found = {path: body(app, path, cookie) for path in (EMPTY, *PAGES)}
        shared = sum(len(body(app, f"/static/dpmarket.{end}", cookie)) for end in ("css", "js"))
        ask = [lambda path=path: many(app, path, cookie) for path in (EMPTY, *PAGES)]
        seconds = compare(ask, repeat=5, clock=time.process_time)
    rows = []
    for path, taken, content in zip((EMPTY, *PAGES), seconds, found.values(), strict=True):
        ratio = taken / seconds[0]
        shown = at_most(2, ratio) if path == "/s/choose" else f"{ratio:.2f}"
        size = "" if path == EMPTY else at_most(60, (len(content) + shared) / 1e3, ".1f")
        rows.append([path.replace(EMPTY, "empty route"), f"{1e3 * taken / REQUESTS:.2f} ms", shown, size])
    yield Table(
        "Pages of a seller",
        ["page", "processor time", "in empty requests", "kB with style and script"],
        rows,
        "The menu's 50 lines are written once for each campaign and language.",
    )


def many(app, path, cookie):
    async def ask():
        for _ in range(REQUESTS):
            await request(app, path, cookie)

    asyncio.run(ask())


def body(app, path, cookie):
    """Return what a page answers, which must be a page."""
    return asyncio.run(request(app, path, cookie))


async def request(app, path, cookie):
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"cookie", f"{COOKIE}={cookie}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    answer = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            assert message["status"] == 200, (path, message["status"])
        answer.append(message.get("body", b""))

    await app(scope, receive, send)
    return b"".join(answer)


@contextlib.contextmanager
def service():
    """Give an application, and the session of a seller who is at the menu."""
    with tempfile.TemporaryDirectory() as name:
        folder, now, rules = Path(name), clock(), market_for(300)
        os.environ["DPMARKET_STATE"] = str(folder / "state")
        schedule = market.Schedule(now, now + timedelta(days=1), now + timedelta(days=1))
        planned = market.plan_opening(check_market(rules), "online")
        settings = Settings(folder=folder, seat_minutes=600)
        with market.open_desk(folder / "market.ledger", folder / "keys", settings.terms) as desk:
            prepare(desk)
            buyer = new_member(desk, "buyer", "buyer", "").id
            with market.acting(desk) as connection:
                campaign = market.draft_campaign(
                    connection, buyer, "pages", rules, "online", schedule, consent_version=1, now=now
                ).campaign
                market.fund_campaign(connection, campaign, 10**9, now)
                key = market.new_key(desk.keys, campaign)
                market.open_campaign(connection, campaign, planned, key, now)
                (invited,) = market.invite(connection, campaign, ["somebody"], 1.0, now)
                seller = market.Caller("seller", invited.participation)
                digest = market.consent_page(connection, campaign).digest
                market.give_consent(connection, seller.id, digest, now)
                market.take_seat(connection, seller.id, now, settings.terms)
                cookie = market.issue_token(connection, "session", seller, now, timedelta(hours=1))
            yield make_app(desk, settings), cookie


if __name__ == "__main__":
    measure(__file__, pages)
