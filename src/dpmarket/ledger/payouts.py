"""Turn what sellers are owed into lines for whoever moves the money, and enter what became of them.

There is a line for every round that a seller is paid for. Its reference follows from the ledger's key, the
round, the seller and how often the line came back: a ledger that was restored from a backup makes the same
ones again, with the same amounts, and a bank that saw them before can tell. Payouts, and what became of them,
are in the log outside (:mod:`dpmarket.ledger.outside`) before anybody is told of them; a ledger that forgot
them enters them again before it pays anything out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.errors import LedgerRefusal
from dpmarket.files import positions_in, table_from_bytes, table_to_bytes
from dpmarket.ledger import money, outside, rounds, tables
from dpmarket.ledger.digests import references
from dpmarket.ledger.engine import Connection, new_id, now
from dpmarket.ledger.keyed import key_of
from dpmarket.ledger.pages import keep, kept_table
from dpmarket.ledger.places import id_of
from dpmarket.ledger.rounds import SELLER

REFERENCE, AMOUNT, ROUND = "reference", "payment_minor_units", "round"
_IDENTITY = "identity"  # of a round: its number may be another one after a repair
_LOGGED = ("payout", "payments")


@dataclass(frozen=True)
class Payout:
    """One file of payments.

    Attributes
    ----------
    id, number
        Its identity, and its place among the campaign's, from 1.
    lines, amount
        How many payments it has, and how much they come to, in minor units.
    made_at
        When, in UTC.
    """

    id: str
    number: int
    lines: int
    amount: int
    made_at: str


def payouts_of(connection: Connection, campaign: str) -> list[Payout]:
    """Return a campaign's payouts, oldest first."""
    columns = tables.payout.c
    query = sa.select(columns.id, columns.number, columns.lines, columns.amount, columns.made_at)
    rows = connection.execute(query.where(columns.campaign == campaign).order_by(columns.number))
    return [Payout(*row) for row in rows]


def lines_of(connection: Connection, payout: Payout) -> pl.DataFrame:
    """Return the lines of a payout: columns reference, seller, payment_minor_units, round."""
    return kept_table(connection, tables.payout_page, {"payout": payout.id, "entry": 0})


def make_payout(connection: Connection, campaign: str) -> tuple[Payout, pl.DataFrame]:
    """Enter everything that sellers are owed and that is in no payout as a new one; return it, and its lines.

    Who withdrew is owed nothing.

    Raises
    ------
    LedgerRefusal
        Nobody is owed anything.
    FileProblem
        The log outside cannot be read or written: nothing was paid out.
    """
    enter_forgotten(connection)
    lines = _owed(connection, campaign)
    if lines.height == 0:
        waiting = money.balance_of(connection, campaign).on_its_way
        raise LedgerRefusal(
            "nothing is owed that was not paid out already: sellers are owed their payments from the moment "
            "at which their promises are spent."
            + (" Earlier payouts wait to be confirmed (--repeat writes one again)." if waiting else "")
        )
    number = len(payouts_of(connection, campaign)) + 1
    payout = Payout(new_id(), number, lines.height, int(lines.get_column(AMOUNT).sum()), now())
    _enter_payout(connection, campaign, payout, lines)
    _log_payout(connection, campaign, payout, lines)
    return payout, lines


def enter_payments(connection: Connection, campaign: str, kind: str, asked: Sequence[str]) -> int:
    """Enter that lines with these references were ``confirmed`` or ``returned``; return how many are new.

    Returned ones are owed again, also if they had been confirmed, and get a new reference in the next payout.

    Raises
    ------
    LedgerRefusal
        A reference that is in no payout, or one to confirm that came back.
    FileProblem
        The log outside cannot be read or written: nothing was entered.
    """
    enter_forgotten(connection)
    wanted = pl.DataFrame({REFERENCE: list(dict.fromkeys(asked))})
    found = np.zeros(wanted.height, dtype=bool)
    parts = []
    for payout in payouts_of(connection, campaign):
        lines = lines_of(connection, payout)
        places = positions_in(wanted, REFERENCE, lines, REFERENCE)
        found |= places >= 0
        own = places[places >= 0]
        states = _states(connection, payout, lines)[own]
        contrary = int((states == "returned").sum()) if kind == "confirmed" else 0
        if contrary:
            raise LedgerRefusal(f"cannot enter: {contrary} of these payments were returned already.")
        parts.append((payout, lines[own.tolist()], states))
    unknown = int((~found).sum())
    if unknown:
        raise LedgerRefusal(f"cannot enter: {unknown} of {wanted.height} references are in no payout.")
    # Last of all: what is in the log outside is entered, whatever is refused after it.
    entered = 0
    for payout, own_lines, states in parts:
        entered += _enter_and_log(connection, campaign, payout, kind, own_lines, states)
    return entered


def forgets_payouts(connection: Connection) -> bool:
    """Whether the log outside knows of a payout, or of what became of one, and the ledger does not."""
    return bool(_forgotten(connection))


def enter_forgotten(connection: Connection) -> int:
    """Enter payouts, and what became of them, of which only the log outside knows; return how many lines.

    An older backup was put back, or who wrote the line died before the ledger had it: then nobody was told,
    and the payout is among the others, to be paid. Called by who holds the ledger's own row.

    Raises
    ------
    LedgerRefusal
        The ledger lacks a round that was paid for: it has to be repaired first.
    FileProblem
        The log cannot be read, or a page of it is missing.
    """
    forgotten = _forgotten(connection)
    for line in forgotten:
        page = table_from_bytes(outside.read_page(line.about["page"], line.about["page_digest"]))
        if line.kind == "payout":
            _enter_payout_again(connection, line.about, page)
        else:
            campaign, payout = _payout_with(connection, line.about["payout"])
            lines = lines_of(connection, payout)
            places = positions_in(page, REFERENCE, lines, REFERENCE)
            own = lines[places[places >= 0].tolist()]
            states = _states(connection, payout, lines)[places[places >= 0]]
            _enter(connection, campaign, payout, line.about["kind"], own, states)
    return len(forgotten)


def _forgotten(connection: Connection) -> list[outside.Line]:
    """Return the lines of the log about payouts that the ledger does not know, oldest first."""
    return _forgotten_of(connection, outside.read_log())


def _forgotten_of(connection: Connection, log: Sequence[outside.Line]) -> list[outside.Line]:
    own = id_of(connection)
    lines = [line for line in log if line.ledger == own and line.kind in _LOGGED]
    if not lines:
        return []
    page = tables.payout_page.c
    query = sa.select(page.payout, sa.func.max(page.entry)).group_by(page.payout)
    entries = {payout: int(last) for payout, last in connection.execute(query)}
    return [
        line for line in lines if entries.get(line.about["payout"], -1) < int(line.about.get("entry", "0"))
    ]


def _enter_payout_again(connection: Connection, about: Mapping[str, str], page: pl.DataFrame) -> None:
    found = {
        identity: rounds.round_with_identity(connection, identity)
        for identity in page.get_column(_IDENTITY).unique().to_list()
    }
    known = {identity: one for identity, one in found.items() if one is not None}
    if len(known) < len(found):
        raise LedgerRefusal("the log outside knows of payments for rounds that the ledger does not know.")
    numbers = {identity: one.number for identity, one in known.items()}
    campaign = next(iter(known.values())).campaign
    lines = page.with_columns(pl.col(_IDENTITY).replace_strict(numbers, return_dtype=pl.Int64))
    lines = lines.rename({_IDENTITY: ROUND})
    number = len(payouts_of(connection, campaign)) + 1
    amount = int(lines.get_column(AMOUNT).sum())
    payout = Payout(about["payout"], number, lines.height, amount, about["made_at"])
    _enter_payout(connection, campaign, payout, lines)


def _enter_payout(connection: Connection, campaign: str, payout: Payout, lines: pl.DataFrame) -> None:
    values = {name: getattr(payout, name) for name in payout.__dataclass_fields__}
    connection.execute(tables.payout.insert().values(campaign=campaign, **values))
    _keep(connection, payout.id, 0, "lines", lines)
    money.begin_payout(connection, campaign, payout.id, payout.amount)


def _payout_with(connection: Connection, identity: str) -> tuple[str, Payout]:
    """Return a payout's campaign, and the payout."""
    columns = tables.payout.c
    campaign = connection.execute(sa.select(columns.campaign).where(columns.id == identity)).scalar_one()
    return campaign, next(one for one in payouts_of(connection, campaign) if one.id == identity)


def waiting_in(connection: Connection, payout: Payout) -> set[str]:
    """Return the references of a payout of which nobody entered yet what became of them."""
    lines = lines_of(connection, payout)
    waiting = _states(connection, payout, lines) == "pending"
    return set(lines.filter(waiting).get_column(REFERENCE).to_list())


def state_of_seller(connection: Connection, campaign: str, seller: str) -> str | None:
    """Return what became of a seller's latest payment: ``pending``, ``confirmed``, ``returned``, or None."""
    for payout in reversed(payouts_of(connection, campaign)):
        lines = lines_of(connection, payout)
        own = (lines.get_column(SELLER) == seller).to_numpy()
        if own.any():
            return str(_states(connection, payout, lines)[own][-1])
    return None


def _log_payout(connection: Connection, campaign: str, payout: Payout, lines: pl.DataFrame) -> None:
    """Write a payout to the log outside, by identities of rounds.

    Raises
    ------
    LedgerRefusal
        A copy of this ledger has paid out meanwhile.
    """
    known = {one.number: one.identity for one in rounds.rounds_of(connection, campaign)}
    by_identity = lines.with_columns(pl.col(ROUND).replace_strict(known, return_dtype=pl.String))
    page = outside.keep_page(payout.id, 0, table_to_bytes(by_identity.rename({ROUND: _IDENTITY})))
    about = {"payout": payout.id, "made_at": payout.made_at, **page}
    outside.append(id_of(connection), "", "payout", about=about, check=_refuse_others(connection))


def _refuse_others(connection: Connection) -> Callable[[Sequence[outside.Line]], None]:
    """Return what refuses a log in which a copy of this ledger has paid out something meanwhile."""

    def check(lines: Sequence[outside.Line]) -> None:
        if _forgotten_of(connection, lines):
            raise LedgerRefusal(
                "a copy of this ledger has paid out meanwhile: nothing was entered; try again."
            )

    return check


def _enter_and_log(
    connection: Connection,
    campaign: str,
    payout: Payout,
    kind: str,
    lines: pl.DataFrame,
    states: np.ndarray[tuple[int], np.dtype[np.str_]],
) -> int:
    """Enter what became of some lines of a payout, also in the log outside; return how many are new."""
    entry, new = _enter(connection, campaign, payout, kind, lines, states)
    if new.height:
        own = id_of(connection)
        logged = (
            line.about["payout"] for line in outside.read_log() if line.ledger == own and line.kind in _LOGGED
        )
        if payout.id not in logged:  # the log that it was written to is lost
            _log_payout(connection, campaign, payout, lines_of(connection, payout))
        page = outside.keep_page(new_id(), 0, table_to_bytes(new))
        about = {"payout": payout.id, "entry": str(entry), "kind": kind, **page}
        outside.append(own, "", "payments", about=about, check=_refuse_others(connection))
    return new.height


def _enter(
    connection: Connection,
    campaign: str,
    payout: Payout,
    kind: str,
    lines: pl.DataFrame,
    states: np.ndarray[tuple[int], np.dtype[np.str_]],
) -> tuple[int, pl.DataFrame]:
    """Enter what became of some lines of a payout; return the entry's number, and new references."""
    new = states != kind
    entered = lines.filter(new).select(REFERENCE)
    page = tables.payout_page.c
    last = connection.execute(sa.select(sa.func.max(page.entry)).where(page.payout == payout.id)).scalar_one()
    if not entered.height:
        return int(last), entered
    amounts = lines.get_column(AMOUNT).to_numpy()
    _keep(connection, payout.id, int(last) + 1, kind, entered)
    waiting = int(amounts[new & (states == "pending")].sum())
    if waiting:
        money.end_payout(connection, payout.id, **{"confirmed": 0, "returned": 0, kind: waiting})
    money.return_payment(connection, campaign, int(amounts[new & (states == "confirmed")].sum()))
    return int(last) + 1, entered


def _keep(connection: Connection, payout: str, entry: int, kind: str, table: pl.DataFrame) -> None:
    keys = {"payout": payout, "entry": entry, "kind": kind}
    keep(connection, tables.payout_page, keys, table_to_bytes(table))


def _states(
    connection: Connection, payout: Payout, lines: pl.DataFrame
) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """Return what became of each line of a payout: pending, confirmed or returned."""
    states = np.full(lines.height, "pending", dtype="U9")
    page = tables.payout_page.c
    query = sa.select(page.entry, page.kind).where(page.payout == payout.id, page.entry > 0).distinct()
    for entry, kind in connection.execute(query.order_by(page.entry)).all():
        entered = kept_table(connection, tables.payout_page, {"payout": payout.id, "entry": entry})
        states[positions_in(entered, REFERENCE, lines, REFERENCE)] = kind
    return states


def _owed(connection: Connection, campaign: str) -> pl.DataFrame:
    """Return a line for everything that is owed and in no payout; columns as for :func:`lines_of`."""
    key = key_of(connection)
    earlier = [
        (lines, _states(connection, payout, lines) == "returned")
        for payout in payouts_of(connection, campaign)
        for lines in [lines_of(connection, payout)]
    ]
    parts = [
        pl.DataFrame(schema={REFERENCE: pl.String, SELLER: pl.String, AMOUNT: pl.Int64, ROUND: pl.Int64})
    ]
    for found in rounds.rounds_of(connection, campaign):
        if found.state not in ("released", "lost"):
            continue
        quotes = rounds.kept_quotes(connection, found.number)
        quotes = quotes.filter(quotes.get_column(AMOUNT) > 0)
        paid, times = np.zeros(quotes.height, dtype=bool), np.zeros(quotes.height, dtype=np.int64)
        for lines, back in earlier:
            own = (lines.get_column(ROUND) == found.number).to_numpy()
            paid[positions_in(lines.filter(own & ~back), SELLER, quotes, SELLER)] = True
            times[positions_in(lines.filter(own & back), SELLER, quotes, SELLER)] += 1
        quotes, times = quotes.filter(~paid), times[~paid]
        columns = {
            REFERENCE: references(key, f"payout {found.identity}", quotes, SELLER, times),
            SELLER: quotes.get_column(SELLER),
            AMOUNT: quotes.get_column(AMOUNT),
            ROUND: np.full(quotes.height, found.number, dtype=np.int64),
        }
        parts.append(pl.DataFrame(columns, schema=parts[0].schema))
    return pl.concat(parts)
