"""Amounts of money as people read them: in units of the currency, with its name."""


def money_text(amount: int, minor_units: int, currency: str) -> str:
    """Return an amount of whole minor units as text.

    Examples
    --------
    >>> money_text(123456, 100, "EUR"), money_text(-5, 1000, ""), money_text(7, 1, "JPY")
    ('1,234.56 EUR', '-0.005', '7 JPY')
    >>> money_text(7, 240, "GBP")
    '7/240 GBP'
    """
    digits = len(str(minor_units)) - 1
    if minor_units == 10**digits:
        whole, part = divmod(abs(amount), minor_units)
        text = f"{'-' if amount < 0 else ''}{whole:,}" + (f".{part:0{digits}d}" if digits else "")
    else:
        text = f"{amount:,}/{minor_units}"
    return f"{text} {currency}".strip()
