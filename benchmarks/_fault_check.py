"""Read a service's database and log with nothing of the service, and hold them against its callers' journal.

Nothing lost: what somebody was told is in the database. Nothing twice: there is nothing else. Money and
epsilon are counted from what callers were told, never from what the service says that they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from _fault_market import LIFETIME, Campaign
from _fault_people import SEATS, Act, Seller
from dpmarket.certificates import verify

_GRID = 2.0**-30
"""The service rounds epsilon up to this."""
_ENDS = {
    "delivered": "spent",
    "accepted": "lapsed",
    "declined": "declined",
    "withdrawn": "withdrawn",
    "expired": "expired",
}
_ONCE = ("consented", "quoted", "accepted", "delivered", "declined", "withdrawn", "trained", "spent")


def problems_in_books(
    connection: psycopg.Connection,
    acts: Sequence[Act],
    campaigns: Sequence[Campaign],
    forgotten: set[str],
) -> Iterator[str]:
    """Give a sentence for everything in which database and journal differ.

    Parameters
    ----------
    connection
        To the database, at rest.
    acts, campaigns
        The journal.
    forgotten
        Keys of acts that a backup does not know which was put back.
    """
    yield from _keys(connection, acts, forgotten)
    rows = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT t.hash, p.id, p.state, p.spent_epsilon, p.held_epsilon, q.epsilon, q.payment "
            "FROM token t JOIN participation p ON p.id = t.participation "
            "LEFT JOIN quote q ON q.participation = p.id WHERE t.kind = 'invitation'"
        )
    }
    events: dict[str, Counter[str]] = {}
    for who, kind in connection.execute(
        "SELECT participation, kind FROM event WHERE participation IS NOT NULL"
    ):
        events.setdefault(who, Counter())[kind] += 1
    count = sum(len(campaign.sellers) for campaign in campaigns)
    if len(rows) != count:
        yield f"{len(rows)} invitations, and {count} were told"
    for campaign in campaigns:
        for seller in campaign.sellers:
            found = rows.get(_digest(seller.asker.token))
            if found is None:
                yield "an invitation is lost"
            else:
                yield from _seller(campaign, seller, found, events.get(found[0], Counter()))
        yield from _money(connection, campaign)
    references = [line[0] for campaign in campaigns for line in campaign.lines]
    if len(set(references)) != len(references):
        yield "a reference is in two payouts"
    yield from _limits(connection)
    waiting = connection.execute("SELECT count(*) FROM job WHERE state <> 'done'").fetchone()[0]
    if waiting:
        yield f"{waiting} jobs were not done"


def _keys(connection: psycopg.Connection, acts: Sequence[Act], forgotten: set[str]) -> Iterator[str]:
    """What was told is there, and nothing that was not told."""
    kept = Counter(row[0] for row in connection.execute("SELECT key FROM idempotency"))
    told = {_digest(act.key) for act in acts if act.key not in forgotten}
    twice = sum(number > 1 for number in kept.values())
    lost, untold = len(told - set(kept)), len(set(kept) - told)
    for number, words in (
        (lost, "acts were told and are not there"),
        (untold, "acts were done and never told"),
        (twice, "keys were used by two"),
    ):
        if number:
            yield f"{number} {words}"


def _seller(campaign: Campaign, seller: Seller, found: Any, events: Counter[str]) -> Iterator[str]:
    identity, state, spent, held, epsilon, payment = found
    expected = _ENDS.get(seller.told)
    if (expected is not None and state != expected) or (expected is None and state == "spent"):
        yield f"participation {identity}: told {seller.told}, and it is {state}"
    if held:
        yield f"participation {identity}: a limit is held after the end"
    if campaign.must_be_lost and campaign.state != "lost":
        yield f"campaign {campaign.id}: its model was forgotten, and it is {campaign.state}"
    if seller.is_forgotten or seller.quote is None:
        if (epsilon, payment) != (None, None):
            yield f"participation {identity}: it has an offer that nobody was told"
    elif expected and (epsilon, payment) != (seller.quote["epsilon"], seller.quote["payment"]):
        yield f"participation {identity}: its quote is not the one that was told"
    if seller.told == "delivered":
        promised = seller.quote["epsilon"]
        if not 0.0 < spent <= promised + _GRID or (campaign.state == "lost" and spent < promised):
            yield f"participation {identity}: promised {promised}, spent {spent}"
    elif spent:
        yield f"participation {identity}: told {seller.told}, and something is spent"
    yield from (f"participation {identity}: {words}" for words in _history(seller, events))


def _history(seller: Seller, events: Counter[str]) -> Iterator[str]:
    """Say what somebody's history has too often, or lacks."""
    if seller.told == "expired" and events["seated"] != SEATS:
        yield f"it ended after {events['seated']} seats"
    twice = [kind for kind in _ONCE if events[kind] > 1]
    if twice:
        yield f"twice {', '.join(twice)}"
    if seller.told == "delivered" and events["trained"] + events["spent"] != 1:
        yield f"its end is told {events['trained'] + events['spent']} times"


def _money(connection: psycopg.Connection, campaign: Campaign) -> Iterator[str]:
    query = "SELECT kind, credits, debits, pending FROM account WHERE campaign = %s"
    found = {row[0]: row[1:] for row in connection.execute(query, [campaign.id])}
    paid = sum(seller.quote["payment"] for seller in campaign.sold)
    expected = {
        "outside": (paid + campaign.refunded, campaign.escrow, 0),
        "escrow": (campaign.escrow, paid + campaign.refunded, 0),
        "payable": (paid, paid, 0),
    }
    if paid + campaign.refunded != campaign.escrow:
        yield f"campaign {campaign.id}: {campaign.escrow} came, {paid} and {campaign.refunded} went"
    for kind, amounts in expected.items():
        if found.get(kind) != amounts:
            yield f"campaign {campaign.id}: expected {kind} {amounts}, found {found.get(kind)}"
    owed = Counter({seller.payee: seller.quote["payment"] for seller in campaign.sold})
    made: Counter[str | None] = Counter()
    for _, payee, amount, kind in campaign.lines:
        made[payee] += amount if kind == "confirmed" else 0
    wrong = {payee for payee in {*owed, *made} if owed[payee] != made[payee]}
    if wrong:
        yield f"campaign {campaign.id}: {len(wrong)} payees got something else than they were told"


def _limits(connection: psycopg.Connection) -> Iterator[str]:
    query = (
        "SELECT e.id, e.cap_epsilon, e.spent_epsilon, e.held_epsilon, coalesce(sum(p.spent_epsilon), 0) "
        "FROM person e LEFT JOIN participation p ON p.person = e.id GROUP BY e.id"
    )
    for person, cap, spent, held, added in connection.execute(query):
        if cap != LIFETIME or held or spent != added or spent > cap:
            yield f"person {person}: limit {cap}, spent {spent}, held {held}, their campaigns {added}"


def problems_in_log(
    connection: psycopg.Connection, state: Path, campaigns: Sequence[Campaign]
) -> Iterator[str]:
    """Give a sentence for everything in which the log outside and what was told differ."""
    before, debits, marked = "0" * 64, {}, set()
    log = state / "spent.log"
    for raw in log.read_bytes().splitlines() if log.exists() else []:
        outer = json.loads(raw)
        line = json.loads(outer["line"])
        if hashlib.sha256(outer["line"].encode()).hexdigest() != outer["digest"] or line["before"] != before:
            yield "the log's chain is broken"
            return
        before = outer["digest"]
        if line["kind"] == "debit":
            debits[line["attempt"]] = [one["identity"] for one in line["rounds"]]
        elif line["kind"] == "mark":
            marked.add(line["attempt"])
    noise = Counter(identity for attempt in marked for identity in debits.get(attempt, ["nothing"]))
    rounds = dict(connection.execute("SELECT campaign, identity FROM round").fetchall())
    spent = {rounds.get(campaign.id) for campaign in campaigns if campaign.state in ("released", "lost")}
    if set(noise) != spent:
        yield f"noise was drawn for {len(noise)} rounds, and {len(spent)} are spent"
    if any(number != 1 for number in noise.values()):
        yield "noise was drawn twice for one round"
    alive = [path for path in state.glob("*.running") if _is_locked(path)]
    if alive:
        yield f"{len(alive)} trainings look alive"


def _is_locked(path: Path) -> bool:
    """Whether some process holds a file; what the dead left is removed when a worker tidies up."""
    with open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def problems_in_receipts(campaigns: Sequence[Campaign]) -> Iterator[str]:
    """Give a sentence for every receipt that does not verify, or says something else than was told."""
    for campaign in campaigns:
        if campaign.certificate is None:
            if campaign.state == "released":
                yield f"campaign {campaign.id}: no certificate"
            continue
        for seller in campaign.sold:
            if seller.receipt is None:
                yield f"campaign {campaign.id}: a seller has no receipt"
            elif not verify(campaign.certificate, receipt=seller.receipt, cost=seller.cost).passed:
                yield f"campaign {campaign.id}: a receipt does not verify"


def problems_in_keys(folder: Path) -> Iterator[str]:
    """Give a sentence if a campaign's private key is left."""
    left = [path.name for path in folder.glob("*.key") if not path.name.startswith("operator-")]
    if left:
        yield f"{len(left)} keys of campaigns that ended are left"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
