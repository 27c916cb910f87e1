"""Campaigns of a day's market: opened, sold to, waited for, paid; all of it by asking the service."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from _fault_people import HABITS, Asker, Journal, Seller
from _fault_places import Failed
from _live_market import market_for
from dpmarket.campaign import check_market
from dpmarket.market import plan_opening
from dpmarket.web.client import Refused

LIFETIME = 2.0
"""What everybody gives at most over the day: two campaigns' ceilings."""
_TIME_TO_SELL, _TIME_TO_DELIVER = timedelta(minutes=150), timedelta(minutes=170)
_ENDED = ("released", "lost", "cancelled")


@dataclass(eq=False)
class Campaign:
    """A campaign as its members know it.

    Attributes
    ----------
    id, escrow, until
        Its id, the money that was entered, and when it closes.
    sellers
        Who was invited.
    state
        What its buyer was told last.
    certificate
        As the buyer got it, None without a model.
    lines
        Of all its payouts: reference, payee, amount, and what was entered about it.
    refunded
        What went back to the buyer.
    must_be_lost
        Whether a backup from before its training was put back.
    """

    id: str
    escrow: int
    until: datetime
    sellers: list[Seller] = field(default_factory=list)
    state: str = "open"
    certificate: bytes | None = None
    lines: list[tuple[str, str | None, int, str]] = field(default_factory=list)
    refunded: int = 0
    must_be_lost: bool = False

    @property
    def sold(self) -> list[Seller]:
        return [seller for seller in self.sellers if seller.told == "delivered"]


class Market:
    """Members of the service, and the panel that they invite from.

    Parameters
    ----------
    journal
        What everybody was told.
    members
        Buyer, paymaster and operator.
    people
        How many are in the panel; everybody is invited again and again.
    seed
        Of their costs and records.
    """

    def __init__(self, journal: Journal, members: dict[str, Asker], people: int, seed: int) -> None:
        self.journal, self.members = journal, members
        self._people, self._rng, self._next, self._titles = people, np.random.default_rng(seed), 0, 0

    def open(self, number: int, now: datetime, asker_of: Any, later: timedelta = timedelta()) -> Campaign:
        """Open a campaign and invite so many; every fourth has too little money for all of them."""
        rules = market_for(number)
        self._titles += 1
        times = (now - timedelta(hours=1), now + later + _TIME_TO_SELL, now + later + _TIME_TO_DELIVER)
        names = ("opens_at", "closes_at", "deliver_until")
        body = {"title": f"campaign {self._titles}", "mechanism": "online", "market": rules}
        body |= {name: moment.isoformat() for name, moment in zip(names, times, strict=True)}
        largest = int(plan_opening(check_market(rules), "online").largest_payment or 0)
        escrow = largest * number * (3 if self._titles % 4 == 0 else 4) // 4
        buyer, paymaster, operator = (self.members[role] for role in ("buyer", "paymaster", "operator"))
        identity = buyer.do("/campaigns", body).answer["id"]
        for part in (escrow // 3, escrow - escrow // 3):
            paymaster.do_twice(f"/campaigns/{identity}/fund", {"amount": part})
        buyer.do(f"/campaigns/{identity}/open")
        made = Campaign(identity, escrow, times[2])
        people = {"people": self._names(number), "lifetime_epsilon": LIFETIME}
        invited = operator.do(f"/campaigns/{identity}/invitations", people).answer["invitations"]
        made.sellers = [self._seller(one, k, asker_of) for k, one in enumerate(invited)]
        return made

    def _names(self, number: int) -> list[str]:
        found = [f"panel {(self._next + k) % self._people}" for k in range(number)]
        self._next += number
        return found

    def _seller(self, invited: Any, place: int, asker_of: Any) -> Seller:
        age, income = float(self._rng.uniform(18, 90)), float(self._rng.uniform(0, 1e5))
        record = {"age": age, "income": income, "bought": "yes" if age / 90 + income / 1e5 > 1.0 else "no"}
        habit = HABITS[place % 20] if place % 20 < len(HABITS) else "sells"
        cost = float(self._rng.uniform(1.0, 5.0))
        return Seller(invited["person"], asker_of(invited["token"]), cost, record, habit)

    def wait_for_end(self, campaign: Campaign) -> None:
        """Wait until a campaign has ended, and for its certificate if it has a model."""
        buyer = self.members["buyer"]
        while campaign.state not in _ENDED:
            campaign.state = buyer.get(f"/campaigns/{campaign.id}")["state"]
            time.sleep(1.0)
        while campaign.state == "released" and campaign.certificate is None:
            campaign.certificate = _there(buyer, f"/campaigns/{campaign.id}/certificate")
            time.sleep(0.2)

    def collect(self, campaign: Campaign) -> None:
        """Fetch everybody's receipt."""
        for seller in campaign.sold if campaign.state == "released" else []:
            seller.receipt = _there(seller.asker, "/me/receipt")
            if seller.receipt is None:
                self.journal.note_wrong("/me/receipt: there is a certificate, and no receipt")

    def pay(self, campaign: Campaign) -> None:
        """Pay everybody; a tenth of the payments comes back and is made again. The rest goes to the buyer."""
        paymaster = self.members["paymaster"]
        if campaign.sold:
            for returned in (True, False):
                payout = paymaster.do_twice("/payouts", {"campaign": campaign.id}).answer["id"]
                lines = paymaster.get(f"/payouts/{payout}")["lines"]
                back = lines[::10] if returned else []
                good = [line for line in lines if line not in back]
                for kind, chosen in (("returned", back), ("confirmed", good)):
                    campaign.lines += [
                        (line["reference"], line["payee"], line["amount"], kind) for line in chosen
                    ]
                    if chosen:
                        self._enter(payout, kind, chosen)
        campaign.refunded = campaign.escrow - sum(
            line[2] for line in campaign.lines if line[3] == "confirmed"
        )
        if campaign.refunded:
            paymaster.do(f"/campaigns/{campaign.id}/refund", {"amount": campaign.refunded})

    def _enter(self, payout: str, kind: str, lines: Sequence[Any]) -> None:
        body = {"kind": kind, "references": [line["reference"] for line in lines]}
        told = self.members["paymaster"].do(f"/payouts/{payout}/confirmation", body).answer
        # What the log outside had before a failure was entered from there: it is known then.
        if told["entered"] + told["known"] != len(lines):
            self.journal.note_wrong(f"/payouts: {told} of {len(lines)} payments entered")


def in_turn(campaigns: Sequence[Campaign]) -> Iterator[Seller]:
    """Give the sellers of campaigns side by side."""
    longest = max(len(campaign.sellers) for campaign in campaigns)
    for place in range(longest):
        yield from (one.sellers[place] for one in campaigns if place < len(one.sellers))


def _there(asker: Asker, path: str) -> bytes | None:
    try:
        return asker.read(path)
    except Refused as refusal:
        if refusal.status != 404:
            raise Failed(f"{path}: refused by {refusal.status}") from None
        return None
