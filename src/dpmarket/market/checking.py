"""Find whatever is wrong with a desk: holds that fit no state, limits that do not add up, orphans."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from dpmarket.errors import FileProblem
from dpmarket.ledger import Connection, check_ledger, money, rounds
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.rounds import EPSILON, SELLER
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign
from dpmarket.market.people import on_grid

_own, _quote, _person = tables.participation.c, tables.quote.c, tables.person.c
_transfer = ledger_tables.transfer.c
PROMISED = ("quoted", "accepted", "delivered", "spent")


def check_market(connection: Connection) -> None:
    """Refuse a desk whose books are not right, as :func:`~dpmarket.ledger.check_ledger` refuses a ledger.

    Checked are, besides the ledger: that the money held for every seller is what their state says, and the
    round's hold afterwards; that payments are posted exactly where promises are spent; that people's limits
    are the sums of their participations and never exceeded; that what was spent is what the ledger's pages
    say; that quotes, records and places in line exist exactly where states say so.

    Raises
    ------
    FileProblem
        With one line for everything found.
    """
    check_ledger(connection)
    problems = [*_limits(connection), *_things(connection)]
    for found in live_campaigns(connection):
        problems += _holds(connection, found)
        problems += _spending(connection, found)
    if problems:
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        raise FileProblem(f"the desk's books do not add up: {count}.", problems)


def live_campaigns(connection: Connection, *states: str) -> list[LiveCampaign]:
    """Return the campaigns in these states (all, if none are named), oldest first."""
    live = tables.live_campaign.c
    query = sa.select(*(live[name] for name in LiveCampaign.__dataclass_fields__))
    query = query.order_by(live.made_at, live.campaign)
    if states:
        query = query.where(live.state.in_(states))
    return [LiveCampaign(**row._mapping) for row in connection.execute(query)]


def _limits(connection: Connection) -> Iterator[str]:
    sums = (
        sa.select(
            _own.person,
            sa.func.sum(_own.held_epsilon).label("held"),
            sa.func.sum(_own.spent_epsilon).label("spent"),
        )
        .group_by(_own.person)
        .subquery()
    )
    query = sa.select(
        _person.id,
        _person.held_epsilon - sa.func.coalesce(sums.c.held, 0.0),
        _person.spent_epsilon - sa.func.coalesce(sums.c.spent, 0.0),
        _person.cap_epsilon - _person.spent_epsilon - _person.held_epsilon,
    ).outerjoin(sums, sums.c.person == _person.id)
    for person, held, spent, left in connection.execute(query):
        if held != 0.0 or spent != 0.0:
            yield f"person {person}: their epsilon does not add up."
        if left < 0.0:
            yield f"person {person}: more than their limit is held and spent."


def _things(connection: Connection) -> Iterator[str]:
    for table, name, states in (
        (tables.record, "record", ("delivered",)),
        (tables.waiting, "place in line", ("waiting",)),
    ):
        there = sa.select(table.c.participation).where(table.c.participation == _own.id).exists()
        wrong = sa.select(_own.id).where(_own.state.in_(states) != there)
        for identity in connection.execute(wrong).scalars():
            yield f"participation {identity}: its {name} does not fit its state."
    quoted = sa.select(_quote.participation).where(_quote.participation == _own.id, _quote.payment > 0)
    query = sa.select(_own.id).where(_own.state.in_(PROMISED), ~quoted.exists())
    for identity in connection.execute(query).scalars():
        yield f"participation {identity}: it has no quote."
    early = ("invited", "consented", "waiting", "seated", "reported")
    any_quote = sa.select(_quote.participation).where(_quote.participation == _own.id)
    for identity in connection.execute(
        sa.select(_own.id).where(_own.state.in_(early), any_quote.exists())
    ).scalars():
        yield f"participation {identity}: it has a quote too early."


def _holds(connection: Connection, found: LiveCampaign) -> Iterator[str]:
    """Compare what is held for each seller with what their state says."""
    folded = found.round is not None or found.state == "unpaid"
    expected = sa.case(
        (_own.state == "seated", found.largest_payment or 0),
        (_own.state.in_(("quoted", "accepted", "delivered")), 0 if folded else _quote.payment),
        else_=0,
    )
    held = sa.func.coalesce(_transfer.amount, 0)
    pending = sa.and_(
        _transfer.participation == _own.id, _transfer.kind == "pay", _transfer.state == "pending"
    )
    query = (
        sa.select(_own.id)
        .outerjoin(tables.quote, _quote.participation == _own.id)
        .outerjoin(ledger_tables.transfer, pending)
        .where(_own.campaign == found.campaign, expected != held)
    )
    for identity in connection.execute(query).scalars():
        yield f"participation {identity}: the money held for it does not fit its state."
    keeps = ("consented", "seated", "reported", "quoted", "accepted")
    query = sa.select(_own.id).where(
        _own.campaign == found.campaign, _own.state.in_(keeps), _own.held_epsilon != found.ceiling
    )
    for identity in connection.execute(query).scalars():
        yield f"participation {identity}: its ceiling is not held."


def _spending(connection: Connection, found: LiveCampaign) -> Iterator[str]:
    """Compare who has spent what with the ledger's round."""
    query = sa.select(_own.id, _own.person, _own.state, _own.spent_epsilon).where(
        _own.campaign == found.campaign, sa.or_(_own.spent_epsilon > 0.0, _own.state == "spent")
    )
    rows = connection.execute(query).all()
    if found.round is None:
        yield from (f"participation {row.id}: it spent something without a round." for row in rows)
        return
    entered = rounds.round_of(connection, found.round)
    ended = entered.state in ("released", "lost")
    if found.state in ("released", "lost") and found.state != entered.state:
        yield f"campaign {found.campaign}: it is {found.state}, and its round is {entered.state}."
    quotes = rounds.quotes_of(connection, found.round)
    promised = dict(
        zip(quotes.get_column(SELLER).to_list(), rounds.amounts_of(quotes)[0].tolist(), strict=True)
    )
    spent = dict(
        zip(quotes.get_column(SELLER).to_list(), rounds.spent_of(connection, entered).tolist(), strict=True)
    )
    settled = found.state in ("released", "lost")
    for row in rows:
        right = (spent if settled else promised).get(row.person, 0.0)
        if row.spent_epsilon != on_grid(right) or (row.state == "spent") != settled:
            yield f"participation {row.id}: what it spent is not what the round says."
    if settled:
        # Of a promise too small for any weight nothing is spent, and it is paid all the same.
        kept = rounds.kept_quotes(connection, found.round)
        sold = set(kept.filter(kept.get_column(EPSILON) > 0.0).get_column(SELLER).to_list())
        if {row.person for row in rows if row.state == "spent"} != sold:
            yield f"campaign {found.campaign}: who is spent is not who the round spent."
        if not ended or money.balance_of(connection, found.campaign).held:
            yield f"campaign {found.campaign}: money is held for promises that are spent."
