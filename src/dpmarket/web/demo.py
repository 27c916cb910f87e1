"""Run a whole live market over HTTP on loopback: invented people who sell, leave, lapse, lie and retry.

Time is the demonstration's own, so that days pass in a moment. Everything else is the service as it is.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from dpmarket.campaign import check_market as checked_market
from dpmarket.certificates import verify
from dpmarket.errors import DpmarketError, NotConverged
from dpmarket.ledger import check_everything, reading
from dpmarket.market import Desk, check_market, open_desk, plan_opening
from dpmarket.progress import StageProgress
from dpmarket.web.client import Client, Refused
from dpmarket.web.invented import Person, invented_people, market_for
from dpmarket.web.running import serving, working
from dpmarket.web.settings import Settings
from dpmarket.web.setup import new_member, prepare

_AT_ONCE = 4  # people who are there at the same time
_TRAINING_SECONDS = 300.0
_ROLES = ("buyer", "paymaster", "operator")


@dataclass(frozen=True)
class ServiceDemo:
    """What a demonstration of the service came to; money in minor units.

    Attributes
    ----------
    people, sold, declined, lapsed, withdrew, waiting
        How many were invited, and what became of them.
    liars, largest_gain
        How many named another cost than theirs, and what the luckiest of them gained over the best line of
        the menu by their true cost: at most the unit that payments are rounded by.
    retried, done_twice
        How many sellers sent every request twice, and how many of these requests were done twice.
    escrow, paid, refunded, minor_units, currency
        Money.
    receipts, receipts_hold
        Receipts, and how many of them the verifier accepts.
    books
        Whether all books add up at the end.
    requests
        How many requests were answered.
    """

    people: int
    sold: int
    declined: int
    lapsed: int
    withdrew: int
    waiting: int
    liars: int
    largest_gain: int
    retried: int
    done_twice: int
    escrow: int
    paid: int
    refunded: int
    minor_units: int
    currency: str
    receipts: int
    receipts_hold: int
    books: bool
    requests: int

    @property
    def good(self) -> bool:
        """Whether everything is as promised."""
        return (
            self.books
            and self.receipts == self.receipts_hold == self.sold > 0
            and self.done_twice == 0
            and self.largest_gain <= 1
            and self.escrow == self.paid + self.refunded
        )


class _Clock:
    """Tells a time that the demonstration moves."""

    def __init__(self) -> None:
        self._offset = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def skip_to(self, moment: str) -> None:
        self._offset += datetime.fromisoformat(moment) - self() + timedelta(seconds=1)


class _Diary:
    """What people saw, from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.gains: list[int] = []
        self.twice = self.retried = 0
        self.reported: dict[str, float] = {}

    def note_ending(self, twice: int) -> None:
        with self._lock:
            self.retried += 1
            self.twice += twice

    def note(self, person: Person, reported: float, gain: int | None) -> None:
        with self._lock:
            self.reported[person.name] = reported
            if gain is not None:
                self.gains.append(gain)


def run_service_demo(
    people: int = 200,
    place: str | None = None,
    progress: StageProgress = lambda what, share: None,
) -> ServiceDemo:
    """Run the demonstration; it stops by itself and leaves nothing.

    Parameters
    ----------
    people
        How many are invited, 20 or more.
    place
        The address of an empty PostgreSQL database; None: a SQLite file.
    progress
        Called with what is being done, and the share of it all.

    Raises
    ------
    NotConverged
        The training did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="dpmarket-") as name, _state_in(Path(name) / "state"):
        folder, clock = Path(name), _Clock()
        settings = Settings(folder=folder, workers=1)
        with (
            open_desk(place or folder / "market.ledger", folder / "keys", settings.terms) as desk,
            serving(desk, settings, clock) as (url, metrics),
            working(desk, clock),
            httpx.Client(timeout=60.0, trust_env=False) as http,
        ):
            prepare(desk)
            tokens = {role: new_member(desk, f"A {role}", role, url).token for role in _ROLES}
            members = {role: Client(url, token, http) for role, token in tokens.items()}
            story = _Story(desk, url, http, clock, members, invented_people(people))
            done = story.run(progress)
            answered = sum(
                sample.value
                for family in metrics.registry.collect()
                for sample in family.samples
                if sample.name == "dpmarket_requests_total"
            )
    return ServiceDemo(**done, requests=int(answered))


class _Story:
    """The demonstration, step by step."""

    def __init__(
        self,
        desk: Desk,
        url: str,
        http: httpx.Client,
        clock: _Clock,
        members: dict[str, Client],
        people: list[Person],
    ) -> None:
        self._desk, self._url, self._http, self._clock = desk, url, http, clock
        self._members, self._people, self._diary = members, people, _Diary()

    def run(self, progress: StageProgress) -> dict[str, Any]:
        buyer, paymaster, operator = (self._members[role] for role in _ROLES)
        progress("opening", 0.0)
        campaign, escrow = self._opened(buyer, paymaster)
        invited = operator.invite(campaign["id"], [person.name for person in self._people], 1.0)
        tokens = {one["person"]: one["token"] for one in invited}
        clients = {person.name: Client(self._url, tokens[person.name], self._http) for person in self._people}
        for ended, _ in enumerate(self._come(clients)):
            progress("people come", 0.05 + 0.7 * ended / len(self._people))
        progress("training", 0.8)
        states = {person.name: clients[person.name].me()["state"] for person in self._people}
        self._clock.skip_to(campaign["deliver_until"])
        _until(lambda: buyer.campaign(campaign["id"])["state"] in ("released", "lost", "cancelled"))
        certificate = _until(lambda: _there(lambda: buyer.certificate(campaign["id"])))
        progress("receipts", 0.9)
        ended_as = Counter(clients[person.name].me()["state"] for person in self._people)
        holds = [
            verify(certificate, receipt=clients[name].receipt(), cost=self._diary.reported[name]).passed
            for name, state in states.items()
            if state == "delivered"
        ]
        paid, refunded = self._pay(campaign["id"], paymaster, escrow)
        return {
            "people": len(self._people),
            "sold": ended_as["spent"],
            "declined": ended_as["declined"],
            "lapsed": ended_as["lapsed"],
            "withdrew": ended_as["withdrawn"],
            "waiting": sum(state == "waiting" for state in states.values()),
            "liars": len(self._diary.gains),
            "largest_gain": max(self._diary.gains, default=0),
            "retried": self._diary.retried,
            "done_twice": self._diary.twice,
            "escrow": escrow,
            "paid": paid,
            "refunded": refunded,
            "minor_units": campaign["minor_units"],
            "currency": campaign["currency"],
            "receipts": len(holds),
            "receipts_hold": sum(holds),
            "books": self._books(),
        }

    def _opened(self, buyer: Client, paymaster: Client) -> tuple[Any, int]:
        """Open a campaign with money for some of those who may sell; return it and the money."""
        now, rules = self._clock(), market_for(len(self._people))
        times = [(now + timedelta(days=days)).isoformat() for days in (0, 7, 9)]
        drafted = buyer.draft("invented", "online", rules, *times)
        largest = int(plan_opening(checked_market(rules), "online").largest_payment or 1)
        escrow = 2 * largest * len(self._people) // 5
        paymaster.fund(drafted["id"], escrow)
        return buyer.open_campaign(drafted["id"]), escrow

    def _come(self, clients: dict[str, Client]) -> Iterator[None]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from pool.map(lambda person: self._take_part(person, clients[person.name]), self._people)

    def _take_part(self, person: Person, client: Client) -> None:
        sends = _twice if person.habit == "retries" else _once
        twice = 0
        client.consent()
        if client.menu()["state"] == "waiting":
            return
        menu = client.get("/me/menu")["menu"]
        reported = (
            person.cost * (1.3 if person.cost < 3.0 else 0.7) if person.habit == "lies" else person.cost
        )
        offer, again = sends(lambda key: client.quote(reported, key))
        twice += again
        gain = None
        if person.habit == "lies":
            gain = _gain(person.cost, offer, menu)
        self._diary.note(person, reported, gain)
        if offer["payment"] == 0:
            return
        if person.habit == "declines":
            client.post("/me/decline")
            return
        twice += sends(client.accept)[1]
        if person.habit == "lapses":
            return
        twice += sends(lambda key: client.deliver(person.record, key))[1]
        client.set_payee(f"account of {person.name}")
        if person.habit == "withdraws":
            client.withdraw()
        if person.habit == "retries":
            self._diary.note_ending(twice)

    def _pay(self, campaign: str, paymaster: Client, escrow: int) -> tuple[int, int]:
        """Pay everybody, and give the rest back; return both."""
        made = paymaster.pay_out(campaign)
        paymaster.confirm(made["payout"]["id"], [line["reference"] for line in made["lines"]])
        (told,) = paymaster.get("/payouts")["campaigns"]
        rest = escrow - told["paid_out"]
        paymaster.post(f"/campaigns/{campaign}/refund", {"amount": rest})
        return told["paid_out"], rest

    def _books(self) -> bool:
        try:
            with reading(self._desk.ledger) as connection:
                check_everything(connection, self._desk.ledger)
                check_market(connection)
        except DpmarketError:
            return False
        return True


def _once(act: Callable[[str], Any]) -> tuple[Any, int]:
    return act(secrets.token_urlsafe(24)), 0


def _twice(act: Callable[[str], Any]) -> tuple[Any, int]:
    """Send a request twice with one key, then with another; return its answer, and 1 if it was done again.

    The third must be refused: what was done with one key is not done again with another.
    """
    key = secrets.token_urlsafe(24)
    first, second = act(key), act(key)
    try:
        act(secrets.token_urlsafe(24))
    except Refused as refusal:
        return first, int(first != second or refusal.status != 409)
    return first, 1


def _gain(cost: float, offer: Any, menu: list[Any]) -> int:
    """Return what a lie gained over the best line of the menu, in minor units; below 0 for a loss."""
    hundred = 100.0

    def worth(line: Any) -> float:
        return float(line["payment"]) - hundred * cost * float(line["epsilon"])

    return round(worth(offer) - max([0.0, *(worth(line) for line in menu)]))


def _there(look: Callable[[], bytes]) -> bytes | None:
    try:
        return look()
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return None


def _until(look: Callable[[], Any]) -> Any:
    """Look again and again until there is something; return it."""
    end = time.monotonic() + _TRAINING_SECONDS
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise NotConverged("the training did not end in time.")
        time.sleep(0.2)


@contextmanager
def _state_in(folder: Path) -> Iterator[None]:
    """Keep the log outside of ledgers in a folder of the demonstration's own."""
    before = os.environ.get("DPMARKET_STATE")
    os.environ["DPMARKET_STATE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["DPMARKET_STATE"]
        else:
            os.environ["DPMARKET_STATE"] = before
