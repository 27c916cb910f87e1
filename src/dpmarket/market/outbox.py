"""Keep mails that are to be sent, so that each is sent once, by one worker, however many there are or die.

Addresses and links are sealed to the operator's key: who has the database has neither. A mail is claimed
before it is sent. If its worker dies, or the server's last word is lost, nobody knows whether it went out:
it is not sent again, and counted as such.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.desk import Desk, acting, time_text
from dpmarket.market.keys import OPERATOR, Opener, operator_key, seal
from dpmarket.market.statements import insert, random_id

_mail, _contact, _own, _live = (
    tables.mail.c, tables.contact.c, tables.participation.c, tables.live_campaign.c,
)  # fmt: skip
_ASKED = ("invited", "consented", "seated", "quoted")
_WIDTH = 512  # of what is sealed: a length would tell something
_LEASE = timedelta(minutes=10)
_LONGEST_PAUSE = timedelta(hours=1)
TRIES = 12
"""So often a mail is tried that its server does not take now."""


@dataclass(frozen=True)
class Mail:
    """One mail that a worker sends now.

    Attributes
    ----------
    id, kind
        Its identity, and what it says: ``invitation``, ``reminder`` or ``receipt``.
    address, token
        To whom, and the token of their link. Confidential.
    attempts
        How often it was tried, this time included.
    claim
        This worker's claim.
    """

    id: str
    kind: str
    address: str
    token: str
    attempts: int
    claim: str

    def __repr__(self) -> str:
        return f"Mail({self.id!r}, {self.kind!r})"


def is_address(text: str) -> bool:
    """Whether a text can be mailed to: one plain address, without anything that could add a line or another.

    Examples
    --------
    >>> is_address("ann@example.org"), is_address("panel 7"), is_address("a@b.org, c@d.org")
    (True, False, False)
    """
    name, at, host = text.rpartition("@")
    plain = text.isascii() and text.isprintable() and not any(mark in text for mark in ' ,;:<>()[]"\\')
    ends = all(part and not part.startswith("-") for part in host.split("."))
    return bool(at and name) and plain and "@" not in name and "." in host and ends and len(text) <= 200


def enter_invitation(
    connection: Connection, participation: str, address: str, token: str, operator: bytes, now: datetime
) -> None:
    """Want an invitation sent, in the transaction that invites; address and token are sealed.

    Parameters
    ----------
    participation
        Whose.
    address, token
        To whom, and their token.
    operator
        The operator's public key.
    now
        The time.
    """
    content = json.dumps({"address": address, "token": token}).encode().ljust(_WIDTH)
    sealed = seal(operator, content, "contact", participation)
    connection.execute(tables.contact.insert().values(participation=participation, sealed=sealed))
    values = {"id": new_id(), "participation": participation, "kind": "invitation", "state": "waiting"}
    connection.execute(tables.mail.insert().values(**values, due_at=time_text(now)))


def enter_due(desk: Desk, now: datetime, remind: timedelta) -> None:
    """Want reminders and receipts sent that are due, each once.

    Reminded is, so long before the end, who has not answered an invitation or an offer until the campaign
    closes, and who has accepted and not sent a record until records are due.

    Parameters
    ----------
    remind
        How long before the end.
    """
    at, soon = time_text(now), time_text(now + remind)
    undecided = sa.and_(
        _own.state.in_(_ASKED),
        _live.closes_at <= soon,
        _live.closes_at > at,
        _live.state.in_(("open", "deciding")),
    )
    owing = sa.and_(
        _own.state == "accepted",
        _live.deliver_until <= soon,
        _live.deliver_until > at,
        _live.state.in_(("open", "deciding")),
    )
    has_receipt = sa.select(tables.receipt.c.participation).where(tables.receipt.c.participation == _own.id)
    with acting(desk) as connection:
        _enter_all(connection, "reminder", sa.or_(undecided, owing), at)
        _enter_all(connection, "receipt", sa.and_(_own.state == "spent", has_receipt.exists()), at)


def claim_mail(desk: Desk, now: datetime) -> Mail | None:
    """Take the mail that is due longest; None if there is none.

    One whose contact cannot be opened any more is entered as failed.
    """
    at = time_text(now)
    first = (
        sa.select(_mail.id)
        .where(_mail.state == "waiting", _mail.due_at <= at)
        .order_by(_mail.due_at, _mail.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    claim = new_id()
    with acting(desk) as connection:
        _give_up_lost(connection, at)
        identity = connection.execute(first).scalar()
        if identity is None:
            return None
        changes = {"state": "sending", "claim": claim, "attempts": _mail.attempts + 1}
        taken = connection.execute(
            tables.mail.update()
            .where(_mail.id == identity)
            .values(**changes, lease_until=time_text(now + _LEASE))
            .returning(_mail.kind, _mail.participation, _mail.attempts)
        ).one()
        query = sa.select(_contact.sealed).where(_contact.participation == taken.participation)
        sealed = connection.execute(query).scalar()
    opener = Opener(desk.keys, OPERATOR, operator_key(desk.keys))
    opened = None if sealed is None else opener.open(bytes(sealed), "contact", taken.participation)
    if opened is None:
        end_mail(desk, Mail(identity, taken.kind, "", "", taken.attempts, claim), "failed", "contact")
        return None
    known = json.loads(opened)
    return Mail(identity, taken.kind, known["address"], known["token"], taken.attempts, claim)


def end_mail(desk: Desk, mail: Mail, state: str, error_kind: str | None = None) -> None:
    """Enter that a mail is ``sent``, ``failed`` for good, or ``unknown``: perhaps sent."""
    with acting(desk) as connection:
        _end(connection, mail, state=state, error_kind=error_kind)


def put_off_mail(desk: Desk, mail: Mail, error_kind: str, now: datetime) -> None:
    """Enter that a mail was certainly not sent; it is due again later and later, and failed in the end."""
    if mail.attempts >= TRIES:
        end_mail(desk, mail, "failed", error_kind)
        return
    due = time_text(now + min(timedelta(seconds=15.0 * 2.0**mail.attempts), _LONGEST_PAUSE))
    with acting(desk) as connection:
        _end(connection, mail, state="waiting", error_kind=error_kind, due_at=due)


def send_again(
    connection: Connection, campaign: str, now: datetime, states: Sequence[str] = ("failed",)
) -> int:
    """Want mails of a campaign sent that were given up, with as many tries as new ones; return how many.

    Parameters
    ----------
    campaign
        Its id.
    now
        The time.
    states
        ``failed``, which were certainly not sent; ``unknown`` ones may have been, and may come twice.
    """
    mine = sa.select(_own.id).where(_own.campaign == campaign)
    # Nobody who decided, or whose campaign is over, is asked again; a receipt is always theirs.
    going_on = mine.join(tables.live_campaign, _live.campaign == _own.campaign)
    going_on = going_on.where(_live.state.in_(("open", "deciding")))
    invited, asked = (
        going_on.where(_own.state == "invited"),
        going_on.where(_own.state.in_((*_ASKED, "accepted"))),
    )
    wanted = sa.or_(
        _mail.kind == "receipt",
        sa.and_(_mail.kind == "invitation", _mail.participation.in_(invited)),
        sa.and_(_mail.kind == "reminder", _mail.participation.in_(asked)),
    )
    changed = connection.execute(
        tables.mail.update()
        .where(_mail.participation.in_(mine), _mail.state.in_(states), wanted)
        .values(state="waiting", attempts=0, due_at=time_text(now), error_kind=None)
    )
    return changed.rowcount


def mail_counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Return how many mails there are, by kind and state."""
    query = sa.select(_mail.kind, _mail.state, sa.func.count()).group_by(_mail.kind, _mail.state)
    return {(row[0], row[1]): int(row[2]) for row in connection.execute(query)}


def _enter_all(connection: Connection, kind: str, where: sa.ColumnElement[bool], at: str) -> None:
    """Enter a mail for everybody with a contact for whom a condition holds and who has none of this kind."""
    known = sa.select(_mail.id).where(_mail.participation == _own.id, _mail.kind == kind)
    chosen = (
        sa.select(random_id(connection), _own.id, sa.literal(kind), sa.literal("waiting"), sa.literal(at))
        .join(tables.contact, _contact.participation == _own.id)
        .join(tables.live_campaign, _live.campaign == _own.campaign)
        .where(where, ~known.exists())
    )
    names = ["id", "participation", "kind", "state", "due_at"]
    entering = insert(connection, tables.mail, {}).from_select(names, chosen)
    connection.execute(entering.on_conflict_do_nothing())


def _give_up_lost(connection: Connection, at: str) -> None:
    """Enter mails of dead workers: perhaps sent, and so not sent again."""
    connection.execute(
        tables.mail.update()
        .where(_mail.state == "sending", _mail.lease_until <= at)
        .values(state="unknown", claim=None, lease_until=None, error_kind="worker died")
    )


def _end(connection: Connection, mail: Mail, **values: str | None) -> None:
    connection.execute(
        tables.mail.update()
        .where(_mail.id == mail.id, _mail.claim == mail.claim)
        .values(claim=None, lease_until=None, **values)
    )
