"""Version 3: one account of money and privacy for many campaigns.

Pages, which may be large, stay where they are. The other tables of version 2 are small: they are made anew
and filled from the old ones. A training of version 2 that ended without a model counts as spent, as before.

Ids follow from what version 2 had entered: a copy of version 2 that is put back and upgraded again is the
same ledger with the same rounds, and the log outside knows what was spent. Nothing here calls the rest of the
package, which goes on changing.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import sqlalchemy as sa
from alembic import op

revision = "version_3"
down_revision = "version_2"

_TABLES = Path(__file__).parents[1] / "version_3.sql"
_NOW = datetime.now(UTC).isoformat(timespec="seconds")
_ROUND = ("number", "quoted_at", "mechanism", "sellers", "promised", "payments", "minor_units", "parameters")


def upgrade() -> None:
    """Turn a file of version 2 into one of version 3, inside one transaction."""
    old = _Old(op.get_bind())
    connection = old.connection
    connection.exec_driver_sql("DROP INDEX one_debit_per_round")
    connection.exec_driver_sql("ALTER TABLE page ADD COLUMN digest TEXT")
    for statement in _statements(_TABLES.read_text(encoding="utf-8")):
        connection.exec_driver_sql(statement)
    _give_digests(connection)
    rounds = old.rounds()
    # A ledger in which nothing was quoted has nothing that could be told apart.
    identity = _derived("ledger", rounds[0]["origin"]) if rounds else secrets.token_hex(16)
    config = op.get_context().config
    known_key = None if config is None else config.attributes.get("known_key")
    key = (known_key(identity) if known_key is not None else None) or secrets.token_bytes(32)
    old.insert("ledger", id=identity, key=key, made_at=_NOW, revision=0)
    journal = _Journal(connection, key)
    _move(old, rounds, identity, journal)
    connection.exec_driver_sql("DROP TABLE training")
    journal.end()


def downgrade() -> None:
    """Refuse: the copy that was kept is version 2."""
    raise NotImplementedError


class _Old:
    """A connection, and what version 2 had entered."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def rows(self, statement: str, *values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in self.connection.exec_driver_sql(statement, values).mappings()]

    def insert(self, table: str, **values: object) -> None:
        names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" for _ in values)
        # Names come from this file alone; values go in as parameters.
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # nosec B608
        self.connection.exec_driver_sql(statement, tuple(values.values()))

    def rounds(self) -> list[dict[str, Any]]:
        """Return all rounds, each with what it is known by: its row, and the digests of its quotes."""
        found = self.rows("SELECT * FROM round ORDER BY number")
        for row in found:
            pages = self.rows(
                "SELECT digest FROM page WHERE round = ? AND kind = 'quoted' ORDER BY number", row["number"]
            )
            content = [[row[name] for name in _ROUND], [page["digest"] for page in pages]]
            row["origin"] = hashlib.sha256(_canonical(content).encode()).hexdigest()
        return found


def _move(old: _Old, rounds: list[dict[str, Any]], ledger: str, journal: _Journal) -> None:
    """Enter campaigns, rounds, trainings and money, and a line of the journal about each."""
    scales = list(dict.fromkeys(row["minor_units"] for row in reversed(rounds))) or [100]
    campaigns = {}
    for scale in scales:
        # The newest scale is the market file's. Amounts of another one are another campaign's.
        name = "" if scale == scales[0] else f"version 2, {scale} minor units"
        campaigns[scale] = _Campaign(old, _derived("campaign", ledger, name), name, scale)
        journal.record("campaign", campaigns[scale].id)
    for row in rounds:
        values = {name: row[name] for name in _ROUND}
        identity = _derived("round", ledger, row["origin"])
        campaign = campaigns[row["minor_units"]].id
        old.insert(
            "new_round",
            **values,
            campaign=campaign,
            identity=identity,
            digest=f"version 2, {identity}",
            repetition=0,
        )
    # In this order, and without foreign keys, other tables go on referring to the name.
    old.connection.exec_driver_sql("DROP TABLE round")
    old.connection.exec_driver_sql("ALTER TABLE new_round RENAME TO round")
    spent = _move_trainings(old, {row["number"]: row["origin"] for row in rounds}, journal)
    for row in rounds:
        campaigns[row["minor_units"]].enter_money(row["number"], row["number"] in spent, journal)
        journal.record("round", row["number"])
    for row in old.rows("SELECT DISTINCT round FROM withdrawal ORDER BY round"):
        journal.record("withdrawals of round", row["round"])
    for found in campaigns.values():
        found.enter_accounts()


def _move_trainings(old: _Old, origins: dict[int, str], journal: _Journal) -> set[int]:
    """Enter trainings as releases; return the numbers of the rounds that are spent."""
    spent = set()
    for row in old.rows("SELECT * FROM training ORDER BY number"):
        identity = _derived("release", origins[row["round"]], str(row["number"]), row["debited_at"])
        state = "lost" if row["state"] == "debited" else row["state"]
        old.insert(
            "release",
            id=identity,
            kind="model",
            state=state,
            debited_at=row["debited_at"],
            marked_at=None if state == "returned" else row["debited_at"],
            ended_at=row["ended_at"],
            model=row["model"],
        )
        old.insert("debit", release=identity, round=row["round"], counts=int(state != "returned"))
        if state != "returned":
            spent.add(row["round"])
        journal.record("release", identity)
    return spent


class _Campaign:
    """A campaign with its accounts, which are written when all transfers are known."""

    def __init__(self, old: _Old, identity: str, name: str, scale: int) -> None:
        self.id, self._old = identity, old
        old.insert("campaign", id=identity, name=name, made_at=_NOW, minor_units=scale, currency="")
        self._accounts: dict[str, dict[str, Any]] = {
            kind: {"id": _derived("account", identity, kind), "credits": 0, "debits": 0, "pending": 0}
            for kind in ("outside", "escrow", "payable")
        }
        for kind, account in self._accounts.items():
            old.insert("account", campaign=identity, kind=kind, id=account["id"])

    def enter_money(self, number: int, is_spent: bool, journal: _Journal) -> None:
        """Fund, hold and post what version 2 knew as sums only; withdrawn sellers' money is not held."""
        pages = self._old.rows(
            "SELECT content FROM page WHERE round = ? AND kind = 'quoted' ORDER BY number", number
        )
        quotes = pl.read_parquet(io.BytesIO(b"".join(bytes(page["content"]) for page in pages)))
        gone = [
            row["seller"] for row in self._old.rows("SELECT seller FROM withdrawal WHERE round = ?", number)
        ]
        stays = quotes.filter(~quotes.to_series(0).is_in(gone))
        amount = int(stays.get_column("payment_minor_units").sum())
        if amount > 0:
            self._transfer("fund", "outside", "escrow", amount, number, None, True, journal)
            self._transfer("pay", "escrow", "payable", amount, number, number, is_spent, journal)

    def enter_accounts(self) -> None:
        """Write what the transfers come to."""
        for account in self._accounts.values():
            self._old.connection.exec_driver_sql(
                "UPDATE account SET credits = ?, debits = ?, pending = ? WHERE id = ?",
                (account["credits"], account["debits"], account["pending"], account["id"]),
            )

    def _transfer(
        self,
        kind: str,
        source: str,
        target: str,
        amount: int,
        number: int,
        round_number: int | None,
        is_posted: bool,
        journal: _Journal,
    ) -> None:
        identity = _derived("transfer", self.id, kind, str(number))
        giver, taker = self._accounts[source], self._accounts[target]
        giver["debits" if is_posted else "pending"] += amount
        taker["credits"] += amount if is_posted else 0
        self._old.insert(
            "transfer",
            id=identity,
            kind=kind,
            debit_account=giver["id"],
            credit_account=taker["id"],
            amount=amount,
            round=round_number,
            state="posted" if is_posted else "pending",
            made_at=_NOW,
            ended_at=_NOW if is_posted else None,
        )
        journal.record("transfer", identity)


class _Journal:
    """The journal of version 3: a chain of keyed digests of rows."""

    _ROWS: ClassVar = {
        "campaign": ["SELECT id, name, made_at, rules, minor_units, currency FROM campaign WHERE id = ?"],
        "round": [
            "SELECT number, identity, digest, repetition, campaign, quoted_at, mechanism, sellers, promised, "
            "delta, payments, minor_units, ceiling, parameters, plan, header FROM round WHERE number = ?",
            "SELECT round, kind, number, digest FROM page WHERE round = ? AND kind = 'quoted' "
            "ORDER BY number",
            "SELECT round, number, digest FROM left_out WHERE round = ? ORDER BY number",
        ],
        "withdrawals of round": [
            "SELECT round, seller, withdrawn_at FROM withdrawal WHERE round = ? ORDER BY seller"
        ],
        "release": [
            "SELECT id, kind, state, delta, debited_at, marked_at, ended_at, model FROM release WHERE id = ?",
            "SELECT release, round, counts FROM debit WHERE release = ? ORDER BY round",
            "SELECT page.round, page.number, page.digest FROM page JOIN debit ON debit.round = page.round "
            "WHERE debit.release = ? AND debit.counts = 1 AND page.kind = 'spent' "
            "ORDER BY page.round, page.number",
        ],
        "transfer": [
            "SELECT id, kind, debit_account, credit_account, amount, round, payout, person, participation, "
            "state, made_at, ended_at FROM transfer WHERE id = ?"
        ],
    }

    def __init__(self, connection: sa.Connection, key: bytes) -> None:
        self._connection, self._key = connection, key
        self._number, self._chain = 0, "0" * 64

    def record(self, kind: str, subject: str | int) -> None:
        self._number += 1
        queries = [self._connection.exec_driver_sql(query, (subject,)).all() for query in self._ROWS[kind]]
        content = self._keyed(_canonical([[list(row) for row in rows] for rows in queries]))
        self._chain = self._keyed(self._chain, str(self._number), _NOW, kind, str(subject), content)
        self._connection.exec_driver_sql(
            "INSERT INTO journal (number, at, kind, subject, content, chain) VALUES (?, ?, ?, ?, ?, ?)",
            (self._number, _NOW, kind, str(subject), content, self._chain),
        )

    def end(self) -> None:
        """Note where the journal ends."""
        end = self._keyed("end", str(self._number), self._chain)
        self._connection.exec_driver_sql("UPDATE ledger SET journal_end = ?", (end,))

    def _keyed(self, *parts: str) -> str:
        digest = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()


def _give_digests(connection: sa.Connection) -> None:
    for number, kind, part in connection.exec_driver_sql("SELECT round, kind, number FROM page").all():
        key = (number, kind, part)
        content = connection.exec_driver_sql(
            "SELECT content FROM page WHERE round = ? AND kind = ? AND number = ?", key
        ).scalar_one()
        digest = hashlib.sha256(bytes(content)).hexdigest()
        connection.exec_driver_sql(
            "UPDATE page SET digest = ? WHERE round = ? AND kind = ? AND number = ?", (digest, *key)
        )


def _statements(text: str) -> Iterable[str]:
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _derived(*parts: str) -> str:
    """Return an id that follows from texts: 32 hexadecimal digits, as all ids."""
    return hashlib.sha256(_canonical(["dpmarket version 2", *parts]).encode()).hexdigest()[:32]
