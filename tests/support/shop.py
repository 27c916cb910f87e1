"""A service on loopback with a clock of its own, members who call it, and campaigns to try things on."""

import contextlib
import itertools
import json
import os
import threading
from datetime import UTC, datetime, timedelta

import httpx

from dpmarket.errors import DpmarketError
from dpmarket.ledger import reading
from dpmarket.market import check_market, do_errands, open_desk
from dpmarket.web.client import Client
from dpmarket.web.running import serving
from dpmarket.web.settings import Settings
from dpmarket.web.setup import new_member, prepare
from support.live import MARKET, RECORD

ROLES = ("buyer", "paymaster", "auditor", "operator")


class Clock:
    """Tells a time that tests move."""

    def __init__(self):
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self):
        return self.now

    def pass_(self, **span):
        self.now += timedelta(**span)


class Shop:
    """A service that answers."""

    def __init__(self, desk, url, metrics, clock, tokens):
        self.desk, self.url, self.metrics, self.clock, self.tokens = desk, url, metrics, clock, tokens
        self.http = httpx.Client(timeout=300.0, trust_env=False)
        self.members = {role: Client(url, token, self.http) for role, token in tokens.items()}
        self._numbers = itertools.count()

    @property
    def buyer(self):
        return self.members["buyer"]

    @property
    def paymaster(self):
        return self.members["paymaster"]

    @property
    def operator(self):
        return self.members["operator"]

    def request(self, method, path, token=None, **options):
        """Send anything; return the answer, whatever it is."""
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.http.request(method, self.url + path, headers=headers, **options)

    def times(self, closes=7, until=9):
        start = self.clock.now
        moments = (start, start + timedelta(days=closes), start + timedelta(days=until))
        return [moment.isoformat() for moment in moments]

    def draft(self, mechanism="online", market=MARKET):
        title = f"campaign {next(self._numbers)}"
        return self.buyer.draft(title, mechanism, market, *self.times())["id"]

    def open(self, mechanism="online", amount=20_000, market=MARKET):
        """Return the id of a campaign that is funded and open."""
        made = self.draft(mechanism, market)
        self.paymaster.fund(made, amount)
        self.buyer.open_campaign(made)
        return made

    def invite(self, campaign, number=1, **options):
        """Invite people; return their tokens."""
        names = [f"person {next(self._numbers)}" for _ in range(number)]
        return [one["token"] for one in self.operator.invite(campaign, names, **options)]

    def seller(self, campaign, *steps, cost=2.0):
        """Return a client of somebody who went so far."""
        return self.with_token(self.invite(campaign)[0], *steps, cost=cost)

    def with_token(self, token, *steps, cost=2.0):
        client = Client(self.url, token, self.http)
        acts = {
            "consent": client.consent,
            "menu": client.menu,
            "quote": lambda: client.quote(cost),
            "accept": client.accept,
            "deliver": lambda: client.deliver(RECORD),
        }
        for step in steps:
            acts[step]()
        client.token = token
        return client

    def check(self):
        """Check all books."""
        with reading(self.desk.ledger) as connection:
            check_market(connection)


SOLD = ("consent", "menu", "quote", "accept", "deliver")


@contextlib.contextmanager
def open_shop(folder, place=None, prepared=lambda desk: None, **settings):
    """Open a service in a folder for a ``with`` block, with a state folder of its own.

    ``prepared`` is called with its desk before anybody else uses it.
    """
    before = os.environ.get("DPMARKET_STATE")
    os.environ["DPMARKET_STATE"] = str(folder / "state")
    clock = Clock()
    chosen = Settings(folder=folder, **settings)
    try:
        with (
            open_desk(place or folder / "market.ledger", folder / "keys", chosen.terms) as desk,
            contextlib.nullcontext(prepared(desk)),
            serving(desk, chosen, clock) as (url, metrics),
        ):
            prepare(desk)
            tokens = {role: new_member(desk, f"A {role}", role, url).token for role in ROLES}
            shop = Shop(desk, url, metrics, clock, tokens)
            with shop.http, errands(desk, clock):
                yield shop
    finally:
        if before is None:
            os.environ.pop("DPMARKET_STATE", None)
        else:
            os.environ["DPMARKET_STATE"] = before


@contextlib.contextmanager
def errands(desk, clock):
    """Have somebody with keys beside a service, who does nothing that is not asked for."""
    ended = threading.Event()

    def run():
        while not ended.wait(0.03):
            with contextlib.suppress(DpmarketError):
                do_errands(desk, clock())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def body_of(answer):
    """Return a problem's body, after a look at its shape."""
    assert answer.headers["content-type"] == "application/problem+json"
    told = json.loads(answer.content)
    assert set(told) == {"title", "status", "problems"}
    assert told["status"] == answer.status_code
    return told
