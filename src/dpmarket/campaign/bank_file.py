"""Payouts as files that banks take (ISO 20022 pain.001), gift-card providers and panels; stored nowhere.

Bank accounts are joined here. A file campaign knows payees by their ids, never their bank details: the payer
has a table of accounts.
"""

import hashlib
import os
import re
import string
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import polars as pl

from dpmarket.campaign.rules.meaning import in_decimals
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import column_names, read_table
from dpmarket.files.formulas import csv_text

SCHEMA = "pain.001.001.03"
_SPACE = f"urn:iso:std:iso:20022:tech:xsd:{SCHEMA}"
_PAYEES = ("payee", "id", "seller")
_KEPT = frozenset(string.ascii_letters + string.digits + " /-?:().,'+ÄÖÜäöüß")
_FROM, _TO = "ØøÆæŒœŁłĐđÐðÞþ&", "O o AE ae OE oe L l D d D d Th th +"
_LETTERS = dict(zip(_FROM, _TO.split(), strict=True)) | {"\u0131": "i", "\u2019": "'"}
_LARGEST = 99_999_999_999  # cents: what the format can say


def is_iban(text: str) -> bool:
    """Whether a text is an IBAN, by its check digits (ISO 7064, modulus 97).

    >>> is_iban("DE89 3704 0044 0532 0130 00"), is_iban("DE89 3704 0044 0532 0130 01")
    (True, False)
    """
    plain = text.replace(" ", "").upper()
    if not re.fullmatch(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", plain):
        return False
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1


@dataclass(frozen=True)
class BankAccount:
    """A bank account: its owner, up to 70 characters, and its IBAN. Confidential."""

    name: str
    iban: str

    def __post_init__(self) -> None:
        iban = "".join(self.iban.split()).upper()
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > 70:
            raise InvalidInput("expected an account's owner in 1 to 70 characters that can be printed.")
        if not is_iban(iban):
            raise InvalidInput("expected an IBAN, with its check digits.")
        object.__setattr__(self, "iban", iban)
        object.__setattr__(self, "name", self.name.strip())

    def __repr__(self) -> str:
        return "BankAccount()"


@dataclass(frozen=True)
class Payment:
    """One payment to make, in cents; a payee is as the table of accounts calls them, None if not named."""

    reference: str
    payee: str | None
    amount: int

    def __repr__(self) -> str:
        return f"Payment({self.reference!r})"


def bank_file(
    payments: Sequence[Payment], currency: str, minor_units: int, *, accounts: Mapping[str, BankAccount],
    payer: BankAccount, day: date,
) -> bytes:  # fmt: skip
    """Return payments as a pain.001 file in XML, valid by its schema; a refusal quotes no value.

    References are handed on as they are, each once, and the file's identity follows from them: a bank knows a
    payment that is made twice, and the same file, of a restored market as well. ``accounts`` are by payee,
    ``day`` is when the bank is to pay.
    """
    if (currency, minor_units) != ("EUR", 100):
        raise InvalidInput("expected payments in EUR with 100 minor units: the format is for euros.")
    without = sum(payment.payee is None or payment.payee not in accounts for payment in payments)
    if not payments or without:
        raise InvalidInput(f"expected an account for everybody: {without} of {len(payments)} have none.")
    references = [payment.reference for payment in payments]
    if not all(re.fullmatch(r"[A-Za-z0-9-]{1,35}", text) for text in references):
        raise InvalidInput("expected references of 1 to 35 letters and digits.")
    if len(set(references)) != len(payments):
        raise InvalidInput("expected every reference once.")
    identity = hashlib.sha256(" ".join(sorted(references)).encode()).hexdigest()[:32]
    if not all(0 < payment.amount <= _LARGEST for payment in payments):
        raise InvalidInput("expected amounts > 0, in cents, that the format can say.")
    total = f"{in_decimals(sum(payment.amount for payment in payments), 100)}"
    count = str(len(payments))
    names = [latin(accounts[str(payment.payee)].name) for payment in payments]
    order = ET.Element("Document", {"xmlns": _SPACE})
    root = ET.SubElement(order, "CstmrCdtTrfInitn")
    _add(root, "GrpHdr/MsgId", identity)
    _add(root, "GrpHdr/CreDtTm", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    _add(root, "GrpHdr/NbOfTxs", count)
    _add(root, "GrpHdr/CtrlSum", total)
    _add(root, "GrpHdr/InitgPty/Nm", latin(payer.name))
    for path, text in (
        ("PmtInfId", identity), ("PmtMtd", "TRF"), ("BtchBookg", "true"), ("NbOfTxs", count),
        ("CtrlSum", total), ("PmtTpInf/SvcLvl/Cd", "SEPA"), ("ReqdExctnDt", day.isoformat()),
        ("Dbtr/Nm", latin(payer.name)), ("DbtrAcct/Id/IBAN", payer.iban),
        ("DbtrAgt/FinInstnId/Othr/Id", "NOTPROVIDED"), ("ChrgBr", "SLEV"),
    ):  # fmt: skip
        _add(root, f"PmtInf/{path}", text)
    batch = root[-1]
    for payment, name in zip(payments, names, strict=True):
        one = ET.SubElement(batch, "CdtTrfTxInf")
        _add(one, "PmtId/EndToEndId", payment.reference)
        _add(one, "Amt/InstdAmt", f"{in_decimals(payment.amount, 100)}").set("Ccy", "EUR")
        _add(one, "Cdtr/Nm", name)
        _add(one, "CdtrAcct/Id/IBAN", accounts[str(payment.payee)].iban)
        _add(one, "RmtInf/Ustrd", payment.reference)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + bytes(ET.tostring(order, "utf-8"))


def _add(node: ET.Element, path: str, text: str) -> ET.Element:
    """Add an element with a text below others, which are made unless they are the last ones so far."""
    for name in path.split("/"):
        last = node[-1] if len(node) else None
        shared = last is not None and last.tag == name and not last.text
        node = last if shared and last is not None else ET.SubElement(node, name)
    node.text = text
    return node


def latin(name: str) -> str:
    """Return a name in the letters of SEPA: umlauts stay, other accents go, other scripts are refused.

    >>> latin("Zoë Müller-Łukasz & Søn")
    'Zoe Müller-Lukasz + Son'
    """
    found = ""
    for letter in unicodedata.normalize("NFC", name):
        plain = _LETTERS.get(letter) or unicodedata.normalize("NFKD", letter)
        found += letter if letter in _KEPT else "".join(one for one in plain if one in _KEPT)
    if not any(one.isalnum() for one in found) or sum(map(str.isalpha, found)) < sum(map(str.isalpha, name)):
        raise InvalidInput("expected names in Latin letters, the only ones that banks can write.")
    return found.strip()[:70]


def read_accounts(source: str | os.PathLike[str] | bytes, id_column: str = "payee") -> dict[str, BankAccount]:
    """Return the accounts of a table with the columns name, iban and one of payees.

    ``source`` is a file, or its content, which then touches no disk. The payees' column is ``id_column``, so
    that a payout file with names and accounts added will do, or payee, id or seller, whatever the capitals.
    """
    told = "the accounts" if isinstance(source, bytes) else str(source)
    there = {name.lower(): name for name in reversed(column_names(source))}
    payees = next((there[name.lower()] for name in (id_column, *_PAYEES) if name.lower() in there), None)
    if payees is None or not {"name", "iban"} <= set(there):
        expected = dict.fromkeys((id_column, *_PAYEES))
        raise FileProblem(f"cannot use {told}: expected name, iban and one of {', '.join(expected)}.")
    columns = [payees, there["name"], there["iban"]]
    found: dict[str, BankAccount] = {}
    for number, (payee, name, iban) in enumerate(read_table(source, columns, columns).iter_rows(), 2):
        if payee in found:
            raise FileProblem(f"cannot use {told}: line {number} has a payee who was there before.")
        try:
            found[str(payee)] = BankAccount(str(name or ""), str(iban or ""))
        except InvalidInput as problem:
            raise FileProblem(f"cannot use {told}: line {number}: {problem}") from None
    return found


def gift_cards(payments: Sequence[Payment], currency: str, minor_units: int) -> bytes:
    """Return payments as a CSV table: amount, currency, reference and contact, which is the payee's own text.

    >>> print(gift_cards([Payment("REF1", "zoe@example.org", 250)], "EUR", 100).decode(), end="")
    amount,currency,reference,contact
    2.50,EUR,REF1,zoe@example.org
    """
    _refuse_unnamed(payments)
    table = {
        "amount": [f"{in_decimals(one.amount, minor_units)}" for one in payments],
        "currency": [currency] * len(payments),
        "reference": [one.reference for one in payments],
        "contact": [one.payee for one in payments],
    }
    return csv_text(pl.DataFrame(table, schema=dict.fromkeys(table, pl.String)))


def bonuses(payments: Sequence[Payment], currency: str, minor_units: int) -> bytes:
    """Return payments as the lines of Prolific's bulk bonus form: the panel's id, a comma, the amount.

    >>> print(bonuses([Payment("REF1", "5f0c", 250)], "GBP", 100).decode(), end="")
    5f0c,2.50
    """
    _refuse_unnamed(payments)
    if not all(str(one.payee).isalnum() for one in payments):
        raise InvalidInput("expected payees that are ids of the panel: letters and digits.")
    if len({one.payee for one in payments}) != len(payments):
        raise InvalidInput("expected every id of the panel once.")
    lines = (f"{one.payee},{in_decimals(one.amount, minor_units)}\n" for one in payments)
    return "".join(lines).encode()


FORMATS = {"gift_cards": gift_cards, "bonuses": bonuses}
"""By name: a function of payments, their currency and its minor units, whose docstring the API shows. Pages
name a format by the text ``paying.format.NAME`` of ``web/texts``."""


def _refuse_unnamed(payments: Sequence[Payment]) -> None:
    if not payments or not all(one.payee for one in payments):
        raise InvalidInput("expected payments, each with a payee.")
