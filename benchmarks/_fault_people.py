"""Callers of a service that fails: they ask again with the same key until they are told, and write it down.

The journal is theirs alone. What the service did is read elsewhere, and must be what the journal says.
"""

from __future__ import annotations

import itertools
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from _fault_places import Failed
from dpmarket.web.client import Client, Refused

HABITS = ("withdraws", "lapses", "declines", "sends twice", "sends twice")
"""Of 20 people; the others sell."""
SEATS = 3
"""So often money is set aside for somebody who then does not choose; they get no offer afterwards."""
_PATIENCE = 300.0  # seconds in which an act must be answered, whatever is broken


@dataclass(frozen=True)
class Act:
    """Something that was asked for and answered."""

    who: str
    path: str
    key: str
    body: Mapping[str, Any] | None
    answer: Mapping[str, Any]
    number: int


class Journal:
    """What callers were told, from all threads; ``wrong`` is what they must never be told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self.acts: list[Act] = []
        self.wrong: list[str] = []
        self.again: Counter[str] = Counter()
        self.ends_at = float("inf")
        self.failed: BaseException | None = None

    def note(self, who: str, path: str, key: str, body: Any, answer: Mapping[str, Any]) -> Act:
        with self._lock:
            made = Act(who, path, key, body, answer, next(self._numbers))
            self.acts.append(made)
        return made

    def note_again(self, why: str) -> None:
        with self._lock:
            self.again[why] += 1

    def note_wrong(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)

    def refuse_end(self) -> None:
        """Stop the thread that asks, if the run is over or has failed."""
        if self.failed is not None:
            raise Failed("stopped: something else failed")
        if time.monotonic() > self.ends_at:
            raise Failed("the time is over")


class Asker:
    """Somebody who calls, through whichever web process answers.

    Parameters
    ----------
    journal
        Where it is written down.
    urls, http
        The web processes, and what to call with.
    name, token
        Who it is, and their token.
    """

    def __init__(
        self, journal: Journal, urls: Sequence[str], http: httpx.Client, name: str, token: str
    ) -> None:
        self.journal, self.name, self.token = journal, name, token
        self._clients = [Client(url, token, http) for url in urls]

    def get(self, path: str) -> Any:
        return self._asked(lambda client: client.get(path), path)

    def read(self, path: str) -> bytes:
        return self._asked(lambda client: client.read(path), path)

    def do(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Act:
        """Do an act once: ask until it is answered, with one key.

        Raises
        ------
        Refused
            The service said no.
        """
        key = key or secrets.token_urlsafe(24)
        answer = self._asked(lambda client: client.post(path, body, key), path)
        return self.journal.note(self.name, path, key, body, answer)

    def do_twice(self, path: str, body: Mapping[str, Any] | None = None) -> Act:
        """Do an act, and ask for it again with the same key."""
        made = self.do(path, body)
        if self._asked(lambda client: client.post(path, body, made.key), path) != made.answer:
            self.journal.note_wrong(f"{path}: another answer for the same key")
        return made

    def repeat(self, act: Act) -> None:
        """Ask for an act again that the service has forgotten: with the same key comes the same answer."""
        answer = self._asked(lambda client: client.post(act.path, act.body, act.key), act.path)
        names = ("state", "epsilon", "payment")
        if [answer.get(name) for name in names] != [act.answer.get(name) for name in names]:
            self.journal.note_wrong(f"{act.path}: another answer after the backup was put back")

    def _asked(self, ask: Callable[[Client], Any], path: str) -> Any:
        end = time.monotonic() + _PATIENCE
        while True:
            self.journal.refuse_end()
            try:
                return ask(random.choice(self._clients))
            except Refused as refusal:
                kinds = {one.get("kind") for one in refusal.problems}
                if refusal.status == 429:
                    self.journal.note_again("too often")
                    time.sleep(min(refusal.retry_after, 7.0))
                elif refusal.status == 503:
                    self.journal.note_again("unavailable")
                    time.sleep(0.2)
                elif refusal.status == 409 and "early" in kinds:
                    self.journal.note_again("early")
                    time.sleep(0.5)
                elif refusal.status >= 500:
                    self.journal.note_wrong(f"{path}: {refusal.status} {sorted(map(str, kinds))}")
                    time.sleep(0.5)
                else:
                    raise
            if time.monotonic() > end:
                raise Failed(f"{path}: no answer in {_PATIENCE:.0f} seconds")


@dataclass(eq=False)
class Seller:
    """Somebody invited to one campaign.

    Attributes
    ----------
    name, asker
        The person's name in the panel, and what they call with.
    cost, record, habit
        Theirs.
    told
        The last state that they were told.
    quote
        The offer that they were told, None if they have none.
    """

    name: str
    asker: Asker
    cost: float
    record: Mapping[str, Any]
    habit: str
    told: str = "invited"
    quote: Mapping[str, Any] | None = None
    receipt: bytes | None = field(default=None, repr=False)
    is_forgotten: bool = False
    """Whether they left after a backup that was put back, which knows nothing of their offer."""

    @property
    def payee(self) -> str:
        return f"account of {self.name}"

    def come(self) -> None:
        """Go as far as the offer."""
        digest = self.asker.get("/me/consent")["digest"]
        self.told = self._do("/me/consent", {"digest": digest})["state"]
        for _ in range(SEATS + 1):
            if self.told in ("waiting", "quoted", "expired"):
                return
            self._choose()

    def _choose(self) -> None:
        """Take a seat and choose; a seat can be lost to a clock that is ahead, and the last one for good."""
        try:
            self.told = self.asker.do("/me/menu").answer["state"]
            if self.told == "waiting":
                return
            self.quote = dict(self.asker.do("/me/quote", {"cost": self.cost}).answer)
            self.told = "quoted"
        except Refused as refusal:
            state = self.asker.get("/me")["state"]
            if state not in ("consented", "waiting", "seated", "expired"):
                self.asker.journal.note_wrong(f"/me/quote: refused by {refusal.status} although {state}")
                self.told = "quoted"
            else:
                self.asker.journal.note_again("seat lost")
                self.told = "expired" if state == "expired" else "consented"

    def sell(self) -> None:
        """Go on from the offer, as one's habit is."""
        if self.told != "quoted" or not self.quote or not self.quote["payment"]:
            return
        if self.habit == "declines":
            self.told = self._do("/me/decline")["state"]
            return
        self.told = self._do("/me/acceptance")["state"]
        if self.habit == "lapses":
            return
        self.told = self._do("/me/record", {"values": dict(self.record)})["state"]
        self.name_payee()
        if self.habit == "withdraws":
            self.told = self._do("/me/withdrawal")["state"]

    def name_payee(self) -> None:
        self._do("/me/payee", {"payee": self.payee})

    def _do(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Do an act that nothing but a fault could refuse."""
        act = self.asker.do_twice if self.habit == "sends twice" else self.asker.do
        try:
            return act(path, body).answer
        except Refused as refusal:
            self.asker.journal.note_wrong(f"{path}: refused by {refusal.status} although {self.told}")
            raise Failed(f"{path}: refused by {refusal.status} although {self.told}") from None
