"""Payouts as files for gift-card providers and panels: joined for the answer, and stored nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import polars as pl

from dpmarket.campaign.bank_file import Payment
from dpmarket.errors import InvalidInput
from dpmarket.files.formulas import csv_text


def gift_cards(payments: Sequence[Payment], currency: str, minor_units: int) -> bytes:
    """Return payments as a CSV table: amount, currency, reference and contact, which is the payee's own text.

    Examples
    --------
    >>> print(gift_cards([Payment("REF1", "zoe@example.org", 250)], "EUR", 100).decode(), end="")
    amount,currency,reference,contact
    2.50,EUR,REF1,zoe@example.org
    """
    _refuse_unnamed(payments)
    table = {
        "amount": [amount_text(one.amount, minor_units) for one in payments],
        "currency": [currency] * len(payments),
        "reference": [one.reference for one in payments],
        "contact": [one.payee for one in payments],
    }
    return csv_text(pl.DataFrame(table, schema=dict.fromkeys(table, pl.String)))


def bonuses(payments: Sequence[Payment], currency: str, minor_units: int) -> bytes:
    """Return payments as the lines of Prolific's bulk bonus form: the panel's id, a comma, the amount.

    Examples
    --------
    >>> print(bonuses([Payment("REF1", "5f0c", 250)], "GBP", 100).decode(), end="")
    5f0c,2.50
    """
    _refuse_unnamed(payments)
    if not all(str(one.payee).isalnum() for one in payments):
        raise InvalidInput("expected payees that are ids of the panel: letters and digits.")
    if len({one.payee for one in payments}) != len(payments):
        raise InvalidInput("expected every id of the panel once.")
    lines = (f"{one.payee},{amount_text(one.amount, minor_units)}\n" for one in payments)
    return "".join(lines).encode()


FORMATS = {"gift_cards": gift_cards, "bonuses": bonuses}
"""By name: a function of payments, their currency and its minor units."""


def amount_text(amount: int, minor_units: int) -> str:
    """Return an amount in money with all its decimals; refuses minor units that are no power of ten."""
    digits = len(str(minor_units)) - 1
    if minor_units != 10**digits:
        raise InvalidInput("expected minor units such as 100, so that an amount has an end in decimals.")
    return f"{Decimal(amount).scaleb(-digits):f}"


def _refuse_unnamed(payments: Sequence[Payment]) -> None:
    if not payments or not all(one.payee for one in payments):
        raise InvalidInput("expected payments, each with a payee.")
