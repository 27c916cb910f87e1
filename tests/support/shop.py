"""A service on loopback with a clock of its own, members who call it, and campaigns to try things on."""

import contextlib
import itertools
import json
import threading
from datetime import UTC, datetime, timedelta

import httpx

from dpmarket.campaign.checks import books
from dpmarket.campaign.worker import work
from dpmarket.errors import DpmarketError
from dpmarket.web.client import Client
from dpmarket.web.folder import new_member, opened, prepare
from dpmarket.web.running import serving
from dpmarket.web.settings import Settings
from dpmarket.web.worker import methods_of

ROLES = ("buyer", "paymaster", "auditor", "operator")
RECORD = {"age": 41, "income": 2.5e4, "bought": "yes"}
RULES = {
    "sellers": {"expected": 30, "minimum": 1},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 1e-3, "max_epsilon": 1.0},
    "money": {"currency": "EUR"},
    "features": {"age": {"low": 18, "high": 90}, "income": {"low": 0, "high": 1e5}},
    "label": {"column": "bought", "values": ["no", "yes"]},
}
ASKED = {
    **{table: RULES[table] for table in ("sellers", "costs", "objective", "money")},
    "statistics": {
        "age": {"kind": "mean", "column": "age", "low": 18, "high": 90, "share": 2},
        "median": {"kind": "quantile", "column": "age", "low": 0, "high": 120, "steps": 24},
        "way": {"kind": "histogram", "column": "way", "categories": ["bus", "car", "train"]},
        "member": {"kind": "share", "column": "member"},
        "place": {"kind": "vector_mean", "columns": ["east", "north"], "bound": 2.0},
    },
}
"""Rules that ask for five statistics in place of a model."""
ANSWERS = {"age": 41, "way": "car", "member": True, "east": 0.5, "north": -1.0}


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

    def __init__(self, market, settings, url, metrics, tokens):
        self.market, self.settings, self.url = market, settings, url
        self.metrics, self.tokens, self.clock = metrics, tokens, market.clock
        self.http = httpx.Client(timeout=300.0, trust_env=False)
        self.members = {role: Client(url, token, self.http) for role, token in tokens.items()}
        self._numbers = itertools.count()

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

    def draft(self, mechanism="online", rules=RULES, name=None):
        called = {"name": name or f"campaign {next(self._numbers)}", "mechanism": mechanism}
        return self.members["buyer"].draft({**rules, "campaign": called}, *self.times())

    def open(self, mechanism="online", amount=20_000, rules=RULES, name=None):
        """Return the id of a campaign that is funded and open."""
        made = self.draft(mechanism, rules, name)
        self.members["paymaster"].act("fund", made, amount=amount)
        self.members["buyer"].act("open", made, confirmed=True)
        return made

    def invite(self, campaign, number=1):
        """Invite people; return their tokens."""
        names = [f"person {next(self._numbers)}" for _ in range(number)]
        return [one["token"] for one in self.members["operator"].invite(campaign, names)]

    def seller(self, campaign, *steps, cost=2.0, record=RECORD):
        """Return a client of somebody who went so far."""
        return self.with_token(self.invite(campaign)[0], *steps, cost=cost, record=record)

    def with_token(self, token, *steps, cost=2.0, record=RECORD):
        client = Client(self.url, token, self.http)
        client.token = token
        for step in steps:
            if step == "consent":
                client.consent()
            else:
                body = {"choose": {"cost": cost}, "report": {"cost": cost}, "deliver": {"values": record}}
                client.act(step, **body.get(step, {}))
        return client

    def work(self):
        """Do everything that is due."""
        return work(self.market, methods_of(self.settings), ("work", "mail"))

    def check(self):
        """Check all books."""
        with self.market.look() as c:
            assert books(c) == []


SOLD = ("consent", "reserve", "choose", "accept", "deliver")


@contextlib.contextmanager
def open_shop(folder, prepared=lambda market: None, **settings):
    """Open a service in a folder for a ``with`` block; nothing is done that nobody waits for.

    ``prepared`` is called with its market before anybody else uses it.
    """
    chosen = Settings(folder=folder, state=folder / "state", **settings)
    with opened(chosen, make=True) as market:
        market.clock = Clock()
        prepared(market)
        prepare(market, chosen)
        with serving(market, chosen) as (url, metrics):
            tokens = {role: new_member(market, f"A {role}", [role], url).token for role in ROLES}
            shop = Shop(market, chosen, url, metrics, tokens)
            with shop.http, answering(shop):
                yield shop


@contextlib.contextmanager
def answering(shop):
    """Have a worker beside a service that makes keys and opens documents, and does nothing else."""
    ended, methods = threading.Event(), methods_of(shop.settings)

    def run():
        while not ended.wait(0.03):
            with contextlib.suppress(DpmarketError):
                work(shop.market, methods, ("now",))

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
