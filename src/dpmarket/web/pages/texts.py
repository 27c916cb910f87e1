"""Texts from gettext catalogues in somebody's language, and money, numbers and times by locale.

``web/texts/dpmarket.pot`` has every text in English, by its name (the context); a language is one file beside
it, such as ``fr.po``. Values that are put into a text are escaped, and never become markup.
"""

import functools
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from gettext import c2py
from importlib import resources
from typing import Any, Self

from babel import Locale, UnknownLocaleError, numbers
from babel.dates import format_datetime
from babel.messages.pofile import read_po
from markupsafe import Markup, escape

from dpmarket.campaign.rules.meaning import in_decimals

FALLBACK = "en"
_WANTED = re.compile(r"^([A-Za-z]{2,3})(?:-([A-Za-z0-9]{2,8}))?$")
_LONGEST = 200
_SMALL, _LAST = 1e-3, 12  # below the first more decimals are written; below 10**-12 powers of ten

Forms = tuple[str, ...]  # a text; or one for each plural form of the language


@dataclass(frozen=True)
class Catalogue:
    """All texts of a language by name, and which form a number takes."""

    texts: Mapping[str, Forms]
    form_of: Callable[[int], int]


class Texts:
    """The texts of one language, with the numbers of one locale."""

    def __init__(
        self, language: str, locale: Locale, messages: Mapping[str, Forms], form_of: Callable[[int], int]
    ) -> None:
        self.language, self.locale, self._form_of, self._purpose = language, locale, form_of, ""
        self._messages = {name: tuple(map(escape, forms)) for name, forms in messages.items()}

    def __call__(self, name: str, /, **values: Any) -> Markup:
        """Return a text with values in it, escaped."""
        forms = self._messages.get(self._purpose + name) or self._messages[name]
        found = forms[0]
        if len(forms) > 1:
            found = forms[self._form_of(values["n"])]
            values["n"] = self.number(values["n"])
        made: Markup = found.format(**values) if values else found  # a Markup escapes what is put into it
        return made

    def about(self, purpose: str) -> Self:
        """Return the texts for one purpose: those below it in the catalogue, in place of the usual ones."""
        made = copy(self)
        made._purpose = f"{purpose}."
        return made

    def has(self, name: str) -> bool:
        """Whether there is such a text."""
        return name in self._messages

    def money(self, amount: int, minor_units: int, currency: str) -> str:
        """Return an amount of whole minor units as this locale writes it; nothing is rounded."""
        digits, value = len(str(minor_units)) - 1, in_decimals(amount, minor_units)
        if currency in numbers.list_currencies():
            return str(_currency_text(value, currency, self.locale, digits))
        pattern = "#,##0" + ("." + "0" * digits if digits else "")
        return f"{numbers.format_decimal(value, format=pattern, locale=self.locale)} {currency}".strip()

    def number(self, value: float | int) -> str:
        """Return a number with at most six decimals; of small ones at least the first four digits."""
        if value == 0 or abs(value) >= _SMALL:
            return str(numbers.format_decimal(value, format="#,##0.######", locale=self.locale))
        # Six decimals of a small number would be a smaller number, and an epsilon is never shown too small.
        exact = Decimal(repr(float(value)))
        if exact.adjusted() < -_LAST:
            return str(numbers.format_scientific(exact, format="0.###E0", locale=self.locale))
        return str(numbers.format_decimal(exact, format="0." + "#" * (_LAST + 6), locale=self.locale))

    def measured(self, value: float) -> str:
        """Return an expected or measured number with its first three digits."""
        return self.number(float(f"{value:.3g}"))

    def typed_amount(self, amount: int, minor_units: int) -> str:
        """Return an amount as somebody types it into a field."""
        text = f"{in_decimals(amount, minor_units)}"
        # A comma before three digits is taken for one between thousands, and refused.
        return text if minor_units > 100 else text.replace(".", str(numbers.get_decimal_symbol(self.locale)))

    def when(self, moment: str) -> Markup:
        """Return a time of the desk, in UTC; the page's script shows it in the reader's own zone."""
        found = datetime.fromisoformat(moment).astimezone(UTC)
        text = format_datetime(found, "d MMM y, HH:mm", tzinfo=UTC, locale=self.locale)
        return Markup('<time datetime="{}">{} UTC</time>').format(found.isoformat(timespec="seconds"), text)


@functools.cache
def languages() -> tuple[str, ...]:
    """Return the names of all catalogues, the one that is used if nothing else fits first."""
    files = (entry.name for entry in resources.files("dpmarket.web").joinpath("texts").iterdir())
    return (FALLBACK, *sorted(name.removesuffix(".po") for name in files if name.endswith(".po")))


@functools.cache
def other_languages(language: str) -> tuple[tuple[str, str], ...]:
    """Return names of all catalogues but one, with what their readers call the language."""
    return tuple((name, catalogue(name).texts["language"][0]) for name in languages() if name != language)


@functools.lru_cache(maxsize=256)
def texts_for(wanted: str) -> Texts:
    """Return the texts that a browser's ``Accept-Language`` asks for, as far as there are any."""
    for part in wanted[:_LONGEST].split(","):  # browsers name what they like best first
        match = _WANTED.match(part.partition(";")[0].strip())
        if match and match[1].lower() in languages():
            return _made(match[1].lower(), _locale(match[1].lower(), match[2]))
    return _made(FALLBACK, _locale(FALLBACK, None))


@functools.cache
def _made(language: str, locale: Locale) -> Texts:
    found = catalogue(language)
    return Texts(language, locale, found.texts, found.form_of)


@functools.cache
def catalogue(language: str) -> Catalogue:
    """Return the texts of a language; what it lacks, or has for another English text, is in English."""
    name = "dpmarket.pot" if language == FALLBACK else f"{language}.po"
    with resources.files("dpmarket.web").joinpath("texts", name).open("rb") as file:
        read = read_po(file, locale=language)
    source = {} if language == FALLBACK else catalogue(FALLBACK).texts
    found = dict(source)
    for message in read:
        forms = (message.id,) if isinstance(message.id, str) else tuple(message.id)
        said = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
        if message.context is None:
            continue  # the header
        if language == FALLBACK:
            found[message.context] = forms
        elif source.get(message.context) == forms and said and all(said) and not message.fuzzy:
            found[message.context] = said
    return Catalogue(found, c2py(read.plural_expr))


def _locale(language: str, territory: str | None) -> Locale:
    if territory is not None and len(territory) == 2:
        try:
            return Locale(language, territory.upper())
        except UnknownLocaleError:
            pass
    return Locale(language)


@functools.lru_cache(maxsize=4096)
def _currency_text(value: Decimal, currency: str, locale: Locale, digits: int) -> str:
    pattern = locale.currency_formats["standard"].pattern
    # The market's own minor units decide about the digits, not the currency's usual ones.
    pattern = re.sub(r"0(\.0+)?(?=[^0]|$)", "0" + ("." + "0" * digits if digits else ""), pattern, count=1)
    made = numbers.format_currency(value, currency, format=pattern, locale=locale, currency_digits=False)
    return str(made)
