"""Mails as jobs: which are due, to which address, in which words; sending them is the worker's.

Sellers' addresses are sealed to the operator's key. A mail's link is made when it is sent, so that no token
is stored. What was perhaps sent is not sent again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

import sqlalchemy as sa
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from dpmarket.campaign import schema
from dpmarket.campaign.access import link_member
from dpmarket.campaign.acts import WORKER, Caller, Text, act
from dpmarket.campaign.consent import enter_texts
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import Job, operators_opener
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.sellers import new_link
from dpmarket.campaign.transaction import Tx, require
from dpmarket.errors import FileProblem, MarketRefusal

Kind = Literal[
    "invitation", "called", "offer", "reminder", "record", "receipt", "payee", "paid", "over", "login"
]
KINDS: tuple[Kind, ...] = get_args(Kind)  # mails, all but ``login`` to sellers
PAYEE_AFTER = timedelta(days=3)  # after the receipt sellers without a payee are reminded
_ASKED = ("invited", "consented", "waiting", "reserved", "quoted")
_STILL = {
    "invitation": ("invited",), "called": ("reserved",), "offer": ("quoted",), "reminder": _ASKED,
    "record": ("quoted", "accepted"), "receipt": ("spent",), "payee": ("spent",), "paid": ("spent",),
}  # fmt: skip
_own, _of, _seller, _job = schema.participation.c, schema.campaign.c, schema.seller.c, schema.job.c
_text = schema.text_version.c
_words = SandboxedEnvironment(undefined=StrictUndefined)


@dataclass(frozen=True)
class Mail:
    """One mail; ``words`` are an operator's own: a subject in the first line, the text below it."""

    id: int
    kind: str
    address: str
    language: str | None
    token: str
    words: str | None = None

    def __repr__(self) -> str:
        return f"Mail({self.kind!r})"


@act("operator")
def add_mail_text(tx: Tx, caller: Caller, kind: Kind, texts: dict[str, Text]) -> int:
    """Enter own words of a mail by language, in Jinja: subject, empty line, text with ``{{ link }}``."""
    for body in texts.values():
        fits = "LINK" in fill_in(body, "LINK", "CONTACT").partition("\n\n")[2]
        require(fits, "invalid", "Expected a subject, an empty line, and a text with {{ link }}.")
    return enter_texts(tx, **{f"mail/{kind}": texts})


def fill_in(words: str, link: str, contact: str) -> str:
    """Return own words with their values, from a template that can reach nothing else."""
    try:
        return _words.from_string(words).render(link=link, contact=contact)
    except TemplateError:
        raise MarketRefusal("invalid", "Expected only {{ link }} and {{ contact }}.") from None


def words_of(c: sa.Connection, kind: str, language: str | None) -> str | None:
    """Return an operator's newest words of a mail in a language, or in English; None if there are none."""
    query = sa.select(_text.body).where(_text.kind == f"mail/{kind}", _text.language == (language or "en"))
    return c.scalar(query.order_by(_text.version.desc()).limit(1))


def handlers(send: Callable[[Mail], None] | None) -> Mapping[str, Callable[[Market, Job], bytes | None]]:
    """Return what a worker does with jobs of the lane ``mail``."""

    def send_one(market: Market, job: Job) -> None:
        mail = None if send is None else (_to_member if job.kind == "login" else _to_seller)(market, job)
        if send is not None and mail is not None:
            send(mail)

    return dict.fromkeys(KINDS, send_one)


def enter_mails(market: Market, before: timedelta) -> None:
    """Enter, once for each seller with an address, mails that are due, reminders so long before the end."""
    due = _due(market, before)
    with market.look() as c:
        there = [kind for kind in due if c.execute(_addressed(due[kind], kind).limit(1)).first() is not None]
    for kind in there:
        market.transact(lambda tx, kind=kind: _enter(tx, kind, due[kind]))  # type: ignore[misc]


def _enter(tx: Tx, kind: str, condition: Any) -> None:
    own = {"kind": kind, "lane": "mail", "state": "waiting", "due_at": tx.now, "attempts": 0}
    rows = [{**own, "subject": subject} for subject in tx.c.scalars(_addressed(condition, kind))]
    if rows:  # another worker may have entered some of them meanwhile, and sent them
        tx.c.execute(tx.insert(schema.job).on_conflict_do_nothing(), rows)


def _due(market: Market, before: timedelta) -> dict[str, Any]:
    """Return the conditions on which each kind of mail is due now."""
    now, soon = time_text(market.clock()), time_text(market.clock() + before)
    live = _of.state.in_(("open", "offered"))
    receipt = sa.select(_job.id).where(_job.kind == "receipt", _job.subject == _own.id)
    reminded = receipt.where(_job.due_at <= time_text(market.clock() - PAYEE_AFTER))
    unnamed = sa.and_(_own.payout.is_(None), _seller.payee.is_(None))
    choosing = sa.and_(_of.state == "open", _of.closes_at <= soon, _of.closes_at > now)
    sending = sa.and_(live, _of.deliver_until <= soon, _of.deliver_until > now)
    return {
        "offer": sa.and_(_of.state == "offered", _own.state == "quoted"),
        "reminder": sa.and_(choosing, _own.state.in_(_ASKED)),
        "record": sa.and_(sending, _own.state.in_(("quoted", "accepted"))),
        "over": sa.and_(_own.state == "lapsed", _own.reason.is_not(None)),
        "receipt": _own.state == "spent",
        "payee": sa.and_(_own.state == "spent", unnamed, reminded.exists()),
        "paid": sa.and_(_own.state == "spent", _own.paid_at.is_not(None)),
    }


def _addressed(condition: Any, kind: str) -> Any:
    """Return the query of sellers on a condition who have an address and no mail of this kind."""
    known = sa.select(_job.id).where(_job.kind == kind, _job.subject == _own.id)
    sellers = sa.select(_own.id).join(schema.seller, _seller.participation == _own.id)
    of_campaigns = sellers.join(schema.campaign, _of.id == _own.campaign)
    return of_campaigns.where(condition, _seller.contact.is_not(None), ~known.exists())


def _to_member(market: Market, job: Job) -> Mail | None:
    """Return a mail with a new link to sign in, to a member whose name is an address."""
    member = schema.member.c
    with market.look() as c:
        query = sa.select(member.subject).where(member.id == job.subject, member.ended_at.is_(None))
        address = c.scalar(query)
        words = words_of(c, job.kind, None)
    if address is None:
        return None
    return Mail(job.id, job.kind, address, None, market.run(link_member, WORKER, job.subject), words)


def _to_seller(market: Market, job: Job) -> Mail | None:
    """Return a mail with a new link; None if it has become pointless."""
    query = sa.select(_own.state, _seller.contact, _seller.language).where(_own.id == job.subject)
    with market.look() as c:
        row = c.execute(query.join(schema.seller, _seller.participation == _own.id)).one_or_none()
        words = None if row is None else words_of(c, job.kind, row.language)
    if row is None or row.contact is None or row.state not in _STILL.get(job.kind, (row.state,)):
        return None
    address = operators_opener(market).open(row.contact, "contact", str(job.subject))
    if address is None:
        raise FileProblem("the address was sealed to another key.")
    token = market.transact(lambda tx: new_link(tx, job.subject))
    return Mail(job.id, job.kind, address.decode(), row.language, token, words)
