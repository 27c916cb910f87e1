"""People and their lifetime limits: keyed digests of ids, and epsilon and delta on whole grids, rounded up.

Ids that differ only in how a computer writes them are one id: Unicode's form NFC; an e-mail address
casefolded in the form NFKC. Ids with invisible characters are refused.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.transaction import Tx
from dpmarket.errors import InvalidInput, MarketRefusal

EPSILON_UNITS, DELTA_UNITS = 2**30, 2**62
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_IGNORED = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters and marks without a shape
_person = schema.person.c


def epsilon_units(epsilon: float) -> int:
    """Return epsilon in whole units of 2**-30, rounded up; exact, since the factor is a power of two.

    >>> epsilon_units(1.0) == 2**30, epsilon_units(1e-300)
    (True, 1)
    """
    return _units("epsilon", epsilon * EPSILON_UNITS)


def delta_units(delta: float) -> int:
    """Return delta in whole units of 2**-62, rounded up."""
    return _units("delta", delta * DELTA_UNITS)


def _units(name: str, units: float) -> int:
    if not 0.0 <= units < 2.0**62 + 1.0:
        raise InvalidInput(f"expected {name} to be finite, at least 0 and not huge.")
    return math.ceil(units)


def normal_id(text: str) -> str:
    """Return an id in the one form in which ids are compared.

    >>> normal_id("Zoe.X@Example.org"), normal_id("Panel-7 A")
    ('zoe.x@example.org', 'Panel-7 A')
    """
    if text.isascii() and text.isprintable():
        normal = text
    else:
        hidden = any(
            unicodedata.category(letter) in _HIDDEN
            or letter in _IGNORED
            or "\ufe00" <= letter <= "\ufe0f"
            or "\u180b" <= letter <= "\u180f"
            or "\U000e0100" <= letter <= "\U000e01ef"
            or (letter.isspace() and letter != " ")
            for letter in text
        )
        if hidden:
            raise MarketRefusal("invalid", "An id has a character that nobody sees; remove it.")
        normal = unicodedata.normalize("NFC", text)
    if not normal or normal != normal.strip():
        raise MarketRefusal("invalid", "Expected an id without blanks before and after it.")
    name, at, host = normal.partition("@")
    if at and name and "." in host and "@" not in host and " " not in normal:
        return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", normal).casefold())
    return normal


def person_digest(key: bytes, text: str) -> bytes:
    """Return the digest by which a person of an id is known."""
    return hashlib.blake2b(normal_id(text).encode(), key=key, digest_size=16).digest()


def person_digests(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Return the digests of many ids."""
    texts = list(ids)
    lines = "\n".join(["", *texts, ""])
    # Plain ASCII is in the one form already, which is looked up for all of a million at once.
    is_plain = lines.isascii() and lines.replace("\n", "").isprintable() and "@" not in lines
    if (
        not is_plain
        or lines.count("\n") > len(texts) + 1
        or any(one in lines for one in ("\n\n", "\n ", " \n"))
    ):
        texts = [normal_id(text) for text in texts]
    return [hashlib.blake2b(text.encode(), key=key, digest_size=16).digest() for text in texts]


def enter_person(tx: Tx, digest: bytes, name: str | None = None) -> int:
    """Return the row id of a person, entered with the market's limits if new."""
    caps = (schema.market.c.cap, schema.market.c.delta_cap)
    # SQLite reads ON as a join's without a WHERE.
    new = sa.select(sa.literal(digest, schema.BYTES), sa.literal(name, schema.TEXT), *caps).where(sa.true())
    tx.c.execute(tx.insert(schema.person).from_select(_NEW, new).on_conflict_do_nothing())
    return int(tx.c.scalar(sa.select(_person.id).where(_person.digest == digest)) or 0)


def enter_people(tx: Tx, staged: sa.Table) -> None:
    """Enter everybody of a staged table with columns digest and name who is new, with the market's limits."""
    market = schema.market.c
    caps = (sa.select(column).scalar_subquery() for column in (market.cap, market.delta_cap))
    new = sa.select(staged.c.digest, staged.c.name, *caps).where(sa.true()).order_by(staged.c.digest)
    put = tx.insert(schema.person).from_select(_NEW, new)
    named = {"name": put.excluded.name}
    tx.c.execute(
        put.on_conflict_do_update(index_elements=["digest"], set_=named, where=_person.name.is_(None))
    )


_NEW = ["digest", "name", "epsilon_cap", "delta_cap"]


def has_room(epsilon: Any, delta: Any) -> Any:
    """Return the condition that a person's lifetime limits have room for so many units."""
    return sa.and_(
        _person.epsilon_held + _person.epsilon_spent + epsilon <= _person.epsilon_cap,
        _person.delta_used + delta <= _person.delta_cap,
    )


def hold_limits(tx: Tx, person: int, epsilon: int, delta: int) -> bool:
    """Hold epsilon and use delta of a person's lifetime limits if there is room; return whether there was."""
    held = {"epsilon_held": _person.epsilon_held + epsilon, "delta_used": _person.delta_used + delta}
    return tx.set(schema.person, sa.and_(_person.id == person, has_room(epsilon, delta)), **held) == 1


def free_limits(tx: Tx, person: int, epsilon: int, delta: int) -> None:
    """Free what was held for a person that spent nothing; what holds no epsilon holds no delta."""
    if epsilon:
        held = {"epsilon_held": _person.epsilon_held - epsilon, "delta_used": _person.delta_used - delta}
        tx.set(schema.person, _person.id == person, **held)


def lower_caps(tx: Tx, epsilon: float | None, delta: float | None) -> None:
    """Lower everybody's lifetime limits to what a campaign names; what is held or spent already stays."""
    used = _person.epsilon_held + _person.epsilon_spent
    if epsilon is not None:
        _lower(tx, "epsilon_cap", "cap", used, math.floor(epsilon * EPSILON_UNITS))
    if delta is not None:
        _lower(tx, "delta_cap", "delta_cap", _person.delta_used, math.floor(delta * DELTA_UNITS))


def _lower(tx: Tx, own: str, of_market: str, used: Any, units: int) -> None:
    """Lower one limit; the caller rounded it down, because what is charged against it rounds up."""
    lowered = sa.case((used > units, used), else_=units)
    tx.set(schema.person, _person[own] > units, **{own: lowered})
    tx.set(schema.market, schema.market.c[of_market] > units, **{of_market: units})


def is_address(text: str) -> bool:
    """Whether a text is an e-mail address.

    >>> is_address("zoe@example.org"), is_address("panel 7")
    (True, False)
    """
    form = r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:]+\.[^\s@<>,;:.]+"
    return len(text) <= 254 and re.fullmatch(form, text) is not None
