"""Amounts of money as people read them, with the currency's name."""

from __future__ import annotations

from unicodedata import category

_LONGEST = 12


def is_currency(name: str) -> bool:
    """Whether a text is up to 12 letters and currency signs: nothing that could be read as an amount.

    Examples
    --------
    >>> [is_currency(name) for name in ("EUR", "US$", "", "000 EUR", "a.b")]
    [True, True, True, False, False]
    """
    return len(name) <= _LONGEST and all(category(sign)[0] == "L" or category(sign) == "Sc" for sign in name)


def amount_text(payment: float, minor_units: int, currency: str) -> str:
    """Return a payment in whole minor units as text.

    Examples
    --------
    >>> amount_text(123456.0, 100, "EUR"), amount_text(7.0, 1, "JPY"), amount_text(7.0, 240, "")
    ('1234.56 EUR', '7 JPY', '7/240')
    """
    digits = len(str(minor_units)) - 1
    whole, part = divmod(int(payment), minor_units)
    text = f"{int(payment)}/{minor_units}"
    if minor_units == 10**digits:
        text = f"{whole}" + (f".{part:0{digits}d}" if digits else "")
    return f"{text} {currency}".strip()
