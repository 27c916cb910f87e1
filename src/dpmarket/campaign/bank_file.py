"""Payments as a file that banks take, ISO 20022 pain.001: accounts are joined here and stored nowhere.

A file campaign knows payees by their ids, never their bank details: the payer has a table of accounts.
"""

from __future__ import annotations

import csv
import io
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import column_names, read_table

SCHEMA = "pain.001.001.03"
_SPACE = f"urn:iso:std:iso:20022:tech:xsd:{SCHEMA}"
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_PAYEES = ("payee", "id", "seller")
_LARGEST = 99_999_999_999  # cents: what the format can say


@dataclass(frozen=True)
class BankAccount:
    """A bank account: its owner, up to 70 characters, and its IBAN. Confidential."""

    name: str
    iban: str

    def __post_init__(self) -> None:
        iban = "".join(self.iban.split()).upper()
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > 70:
            raise InvalidInput("expected an account's owner in 1 to 70 characters that can be printed.")
        if (
            not _IBAN.fullmatch(iban)
            or int("".join(str(int(one, 36)) for one in iban[4:] + iban[:4])) % 97 != 1
        ):
            raise InvalidInput("expected an IBAN, with its check digits.")
        object.__setattr__(self, "iban", iban)
        object.__setattr__(self, "name", self.name.strip())

    def __repr__(self) -> str:
        return "BankAccount()"


@dataclass(frozen=True)
class Payment:
    """One payment to make, in cents.

    The bank hands on the reference from end to end, up to 35 characters; the payee is as the table of
    accounts calls them, None if they have not said.
    """

    reference: str
    payee: str | None
    amount: int

    def __repr__(self) -> str:
        return f"Payment({self.reference!r})"


def bank_file(
    payments: Sequence[Payment],
    accounts: Mapping[str, BankAccount],
    payer: BankAccount,
    identity: str,
    day: date,
    *,
    currency: str = "EUR",
    minor_units: int = 100,
) -> bytes:
    """Return payments as a pain.001 file in XML, valid by its schema; a refusal quotes no value.

    Parameters
    ----------
    payments
        Each once; references are handed on as they are, so that a payment made twice is recognised.
    accounts, payer
        By payee, and from which account.
    identity
        Of the payout, up to 35 letters and digits: the same file has the same one.
    day
        When the bank is to pay.
    currency, minor_units
        Of the payments: EUR, in cents.
    """
    if (currency, minor_units) != ("EUR", 100):
        raise InvalidInput("expected payments in EUR with 100 minor units: the format is for euros.")
    without = sum(payment.payee is None or payment.payee not in accounts for payment in payments)
    if not payments or without:
        raise InvalidInput(f"expected an account for everybody: {without} of {len(payments)} have none.")
    if len({payment.reference for payment in payments}) != len(payments):
        raise InvalidInput("expected every reference once.")
    texts = [identity, *(payment.reference for payment in payments)]
    if not all(re.fullmatch(r"[A-Za-z0-9-]{1,35}", text) for text in texts):
        raise InvalidInput("expected references and an identity of 1 to 35 letters and digits.")
    if not all(0 < payment.amount <= _LARGEST for payment in payments):
        raise InvalidInput("expected amounts > 0, in cents, that the format can say.")
    try:
        from sepaxml import SepaTransfer
    except ImportError:
        raise FileProblem("bank files need the extra 'service': pip install 'dpmarket[service]'.") from None
    made = SepaTransfer({"name": payer.name, "IBAN": payer.iban, "currency": "EUR", "batch": True}, SCHEMA)
    for payment in payments:
        account = accounts[str(payment.payee)]
        made.add_payment(
            {
                "name": account.name,
                "IBAN": account.iban,
                "amount": payment.amount,
                "execution_date": day,
                "description": payment.reference,
                "endtoend_id": payment.reference,
            }
        )
    return _identified(made.export(validate=False), identity)


def read_accounts(source: str | os.PathLike[str]) -> dict[str, BankAccount]:
    """Return the accounts of a .csv or .parquet file with the columns payee (or id), name and iban."""
    column = _first_of(source, _PAYEES)
    table = read_table(source, [column, "name", "iban"], [column, "name", "iban"])
    return _accounts(table.iter_rows(), str(source))


def accounts_in(content: bytes) -> dict[str, BankAccount]:
    """Return the accounts of a CSV file that is in memory and touches no disk."""
    try:
        text = content.decode("utf-8-sig")
        first = text.splitlines()[0] if text.strip() else ""
        separator = ";" if first.count(";") > first.count(",") else ","
        head, *rows = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise FileProblem("cannot use the accounts: expected a CSV file in UTF-8.") from None
    names = [cell.strip().lower() for cell in head]
    column = next((name for name in _PAYEES if name in names), None)
    if column is None or not {"name", "iban"} <= set(names):
        raise FileProblem("cannot use the accounts: expected the columns payee, name and iban.")
    places = [names.index(name) for name in (column, "name", "iban")]
    if any(row and len(row) != len(names) for row in rows):
        raise FileProblem("cannot use the accounts: expected as many cells on each line as in the first.")
    # An apostrophe keeps table programs from running a cell: it is none of the payee's.
    cells = ([row[place].removeprefix("'") for place in places] for row in rows if row)
    return _accounts(cells, "the accounts")


def _accounts(rows: Iterable[Sequence[str | None]], source: str) -> dict[str, BankAccount]:
    found: dict[str, BankAccount] = {}
    for number, (payee, name, iban) in enumerate(rows, 2):
        if payee in found:
            raise FileProblem(f"cannot use {source}: line {number} has a payee who was there before.")
        try:
            found[str(payee)] = BankAccount(str(name or ""), str(iban or ""))
        except InvalidInput as problem:
            raise FileProblem(f"cannot use {source}: line {number}: {problem}") from None
    return found


def _identified(content: bytes, identity: str) -> bytes:
    """Give a file the payout's identity in place of a random one, and hold it against the schema."""
    from sepaxml.validation import ValidationError, try_valid_xml

    ET.register_namespace("", _SPACE)
    # Our own words, not somebody else's file.
    root = ET.fromstring(content)  # nosec B314
    for name in ("MsgId", "PmtInfId"):
        for number, node in enumerate(root.iter(f"{{{_SPACE}}}{name}")):
            node.text = identity if number == 0 else f"{identity[:30]}-{number}"
    made: bytes = b'<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "utf-8")
    try:
        try_valid_xml(made, SCHEMA)
    except ValidationError:
        raise InvalidInput("expected names and references in characters that banks can write.") from None
    return made


def _first_of(source: str | os.PathLike[str], names: Sequence[str]) -> str:
    there = column_names(source)
    found = next((name for name in names if name in there), None)
    if found is None:
        raise FileProblem(f"cannot use {source}: expected a column {' or '.join(names)}.")
    return found
