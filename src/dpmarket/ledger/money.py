"""Move money between accounts, in whole minor units: every transfer takes from one what it gives to another.

A campaign has three accounts. Money comes from *outside* into its *escrow* (fund), is held there for a round
of quotes and paid to its sellers' *payable* account when their promises are spent (pay), and goes outside
again with a payout; a payment that comes back after it was confirmed is *returned* to the payable account. A
transfer is pending, then posted or voided, once. The database itself refuses accounts below zero and a second
payment of a round.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import tables
from dpmarket.ledger.engine import Connection, new_id, now

LARGEST_SUM = 2**62
"""Up to here databases add whole numbers exactly, with room to spare; beyond, SQLite begins to round."""


@dataclass(frozen=True)
class Balance:
    """What a campaign's accounts hold, in minor units.

    Attributes
    ----------
    funded
        Came from outside, less what went back.
    held
        Waits in escrow for rounds that are promised and not ended.
    available
        Lies in escrow and is promised to nobody.
    owed
        Belongs to sellers and is in no payout.
    on_its_way
        Is in payouts that are neither confirmed nor returned.
    paid_out
        Was paid out, confirmed, and has not come back.
    """

    funded: int
    held: int
    available: int
    owed: int
    on_its_way: int
    paid_out: int

    @property
    def committed(self) -> int:
        """What is promised or paid: what a budget has no room for any more."""
        return self.held + self.owed + self.on_its_way + self.paid_out


def make_accounts(connection: Connection, campaign: str) -> None:
    """Make the three accounts of a new campaign."""
    for kind in ("outside", "escrow", "payable"):
        connection.execute(tables.account.insert().values(id=new_id(), campaign=campaign, kind=kind))


def fund(connection: Connection, campaign: str, amount: int) -> None:
    """Put money from outside into a campaign's escrow.

    Raises
    ------
    LedgerRefusal
        More than an account can count, over all its life.
    """
    if amount > 0:
        if _accounts(connection, campaign)["escrow"].credits + amount > LARGEST_SUM:
            raise LedgerRefusal("more money would come into this campaign than its accounts can count.")
        _post_new(connection, campaign, "fund", "outside", "escrow", amount)


def refund(connection: Connection, campaign: str, amount: int, transfer: str | None = None) -> None:
    """Give money that is promised to nobody back; who logs it names the new transfer's id.

    Raises
    ------
    LedgerRefusal
        Escrow has less.
    """
    if amount > 0:
        _post_new(connection, campaign, "refund", "escrow", "outside", amount, identity=transfer)


def refunded_by(connection: Connection, transfer: str) -> tuple[str, int] | None:
    """Return the campaign and the amount of a refund, in minor units; None if there is no such transfer."""
    column, escrow = tables.transfer.c, tables.account.c
    query = (
        sa.select(escrow.campaign, column.amount)
        .join(tables.account, escrow.id == column.debit_account)
        .where(column.id == transfer, column.kind == "refund")
    )
    found = connection.execute(query).first()
    return None if found is None else (str(found.campaign), int(found.amount))


def hold(connection: Connection, campaign: str, amount: int, round_number: int) -> None:
    """Hold money in escrow for the sellers of a round.

    Raises
    ------
    LedgerRefusal
        Escrow has less, or this round's money is held already.
    """
    if amount > 0:
        _begin(connection, campaign, "pay", "escrow", "payable", amount, round_number=round_number)


def shrink_hold(connection: Connection, round_number: int, amount: int) -> None:
    """Free part of what is held for a round: its sellers withdrew."""
    found = _pending(connection, tables.transfer.c.round == round_number, "pay")
    if found is None or amount == 0:
        return
    _end(connection, found, "voided")
    if found.amount > amount:
        again = {"id": new_id(), "amount": found.amount - amount, "made_at": now()}
        _insert(connection, {**found._mapping, **again})


def post_round(connection: Connection, round_number: int) -> None:
    """Pay what is held for a round to its sellers' account: their promises are spent."""
    found = _pending(connection, tables.transfer.c.round == round_number, "pay")
    if found is not None:
        _end(connection, found, "posted")


def free_holds_of_sellers(connection: Connection, campaign: str) -> None:
    """Free what a desk holds for single sellers of a campaign: its round has one hold for all of them."""
    escrow = str(_accounts(connection, campaign)["escrow"].id)
    column = tables.transfer.c
    ended = connection.execute(
        tables.transfer.update()
        .where(
            column.debit_account == escrow,
            column.kind == "pay",
            column.state == "pending",
            column.participation.is_not(None),
        )
        .values(state="voided", ended_at=now())
        .returning(column.amount)
    )
    _change(connection, escrow, pending=-sum(int(amount) for amount in ended.scalars()))


def begin_payout(connection: Connection, campaign: str, payout: str, amount: int) -> None:
    """Hold what a payout file asks for.

    Raises
    ------
    LedgerRefusal
        More than sellers are owed.
    """
    _begin(connection, campaign, "payout", "payable", "outside", amount, payout=payout)


def end_payout(connection: Connection, payout: str, confirmed: int, returned: int) -> None:
    """Enter that parts of a payout were confirmed, which is paid, or returned, which is owed again."""
    found = _pending(connection, tables.transfer.c.payout == payout, "payout")
    rest = (0 if found is None else found.amount) - confirmed - returned
    if found is None or rest < 0:
        raise LedgerRefusal("more would be confirmed and returned than was paid out.")
    _end(connection, found, "voided")
    for amount, state in ((confirmed, "posted"), (rest, "pending")):
        if amount > 0:
            part = {"id": new_id(), "amount": amount, "made_at": now(), "state": "pending", "ended_at": None}
            _insert(connection, {**found._mapping, **part})
            if state == "posted":
                _end(connection, _by_id(connection, str(part["id"])), state)


def return_payment(connection: Connection, campaign: str, amount: int) -> None:
    """Enter that payments came back after they had been confirmed: they are owed again."""
    if amount > 0:
        _post_new(connection, campaign, "returned", "outside", "payable", amount)


def balance_of(connection: Connection, campaign: str) -> Balance:
    """Return what a campaign's accounts hold."""
    by_kind = _accounts(connection, campaign)
    outside, escrow, payable = by_kind["outside"], by_kind["escrow"], by_kind["payable"]
    refunded = outside.credits - payable.debits
    returned = payable.credits - (escrow.debits - refunded)
    return Balance(
        funded=escrow.credits - refunded,
        held=escrow.pending,
        available=escrow.credits - escrow.debits - escrow.pending,
        owed=payable.credits - payable.debits - payable.pending,
        on_its_way=payable.pending,
        paid_out=payable.debits - returned,
    )


def money_problems(connection: Connection) -> list[str]:
    """Return a sentence for every account that is not the sum of its transfers, or holds for nobody."""
    transfer = tables.transfer.c
    sums: dict[tuple[str, str], int] = {}
    for column, state, name in (
        (transfer.debit_account, "posted", "debits"),
        (transfer.credit_account, "posted", "credits"),
        (transfer.debit_account, "pending", "pending"),
    ):
        query = sa.select(column, sa.func.sum(transfer.amount)).where(transfer.state == state)
        for account, total in connection.execute(query.group_by(column)):
            sums[account, name] = int(total)
    problems, everything = [], 0
    for row in connection.execute(sa.select(tables.account)):
        everything += row.credits - row.debits
        for name in ("credits", "debits", "pending"):
            if getattr(row, name) != sums.get((row.id, name), 0):
                problems.append(f"account {row.kind} of campaign {row.campaign}: its {name} do not add up.")
        if row.kind != "outside" and row.credits - row.debits - row.pending < 0:
            problems.append(f"account {row.kind} of campaign {row.campaign}: it is below zero.")
    if everything != 0:
        problems.append("accounts: what some gave is not what others got.")
    return problems


def held_for(connection: Connection, round_number: int) -> int:
    """Return what is held, or was paid, for a round, in minor units."""
    query = sa.select(tables.transfer.c.amount).where(
        tables.transfer.c.round == round_number,
        tables.transfer.c.kind == "pay",
        tables.transfer.c.state != "voided",
    )
    return int(connection.execute(query).scalar() or 0)


def _begin(
    connection: Connection,
    campaign: str,
    kind: str,
    source: str,
    target: str,
    amount: int,
    *,
    round_number: int | None = None,
    payout: str | None = None,
    identity: str | None = None,
) -> str:
    """Enter a pending transfer between two accounts of a campaign; return its id."""
    accounts = {kind: row.id for kind, row in _accounts(connection, campaign).items()}
    values = {
        "id": identity or new_id(),
        "kind": kind,
        "debit_account": accounts[source],
        "credit_account": accounts[target],
        "amount": amount,
        "round": round_number,
        "payout": payout,
        "state": "pending",
        "made_at": now(),
        "ended_at": None,
    }
    _insert(connection, values)
    return str(values["id"])


def _accounts(connection: Connection, campaign: str) -> dict[str, sa.Row[tuple[object, ...]]]:
    """Return a campaign's accounts by their kind."""
    rows = connection.execute(sa.select(tables.account).where(tables.account.c.campaign == campaign))
    accounts = {row.kind: row for row in rows}
    if set(accounts) != {"outside", "escrow", "payable"}:
        raise FileProblem(
            "cannot use the ledger: a campaign in it has not its three accounts; was it edited?"
        )
    return accounts


def _insert(connection: Connection, values: dict[str, object]) -> None:
    connection.execute(tables.transfer.insert().values(values))
    _change(connection, str(values["debit_account"]), pending=int(str(values["amount"])))


def _post_new(
    connection: Connection,
    campaign: str,
    kind: str,
    source: str,
    target: str,
    amount: int,
    *,
    identity: str | None = None,
) -> None:
    made = _begin(connection, campaign, kind, source, target, amount, identity=identity)
    _end(connection, _by_id(connection, made), "posted")


def _end(connection: Connection, found: sa.Row[tuple[object, ...]], state: str) -> None:
    """Post or void a pending transfer."""
    changed = connection.execute(
        tables.transfer.update()
        .where(tables.transfer.c.id == found.id, tables.transfer.c.state == "pending")
        .values(state=state, ended_at=now())
    )
    if changed.rowcount != 1:
        raise LedgerRefusal("a transfer has ended already: nothing was changed.")
    if state == "posted":
        _change(connection, found.debit_account, pending=-found.amount, debits=found.amount)
        _change(connection, found.credit_account, credits=found.amount)
    else:
        _change(connection, found.debit_account, pending=-found.amount)


def _change(connection: Connection, account: str, **amounts: int) -> None:
    columns = tables.account.c
    connection.execute(
        tables.account.update()
        .where(columns.id == account)
        .values({name: columns[name] + amount for name, amount in amounts.items()})
    )


def _by_id(connection: Connection, identity: str) -> sa.Row[tuple[object, ...]]:
    return connection.execute(sa.select(tables.transfer).where(tables.transfer.c.id == identity)).one()


def _pending(
    connection: Connection, where: sa.ColumnElement[bool], kind: str
) -> sa.Row[tuple[object, ...]] | None:
    query = sa.select(tables.transfer).where(
        where, tables.transfer.c.kind == kind, tables.transfer.c.state == "pending"
    )
    return connection.execute(query.with_for_update()).one_or_none()
