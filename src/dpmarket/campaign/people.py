"""People and their lifetime limits: keyed digests of ids, and epsilon and delta on whole grids, rounded up.

A person is known by a keyed BLAKE2b digest of an id. Ids that differ only in how a computer writes them are
one id: Unicode's form NFC; an e-mail address casefolded in the form NFKC. Ids with invisible characters
are refused: two people would look like one, or one like two.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Tx
from dpmarket.errors import InvalidInput, MarketRefusal

EPSILON_UNITS, DELTA_UNITS = 2**30, 2**62
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_IGNORED = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters and marks without a shape
_person = schema.person.c


def epsilon_units(epsilon: float) -> int:
    """Return epsilon in whole units of 2**-30, rounded up; exact, since the factor is a power of two.

    Examples
    --------
    >>> epsilon_units(1.0) == 2**30, epsilon_units(1e-300)
    (True, 1)
    """
    return _units("epsilon", epsilon, EPSILON_UNITS)


def delta_units(delta: float) -> int:
    """Return delta in whole units of 2**-62, rounded up."""
    return _units("delta", delta, DELTA_UNITS)


def _units(name: str, value: float, units: int) -> int:
    if not (math.isfinite(value) and 0.0 <= value * units < 2.0**62 + 1.0):
        raise InvalidInput(f"expected {name} to be finite, at least 0 and not huge.")
    return math.ceil(value * units)


def normal_id(text: str) -> str:
    """Return an id in the one form in which ids are compared.

    Raises
    ------
    MarketRefusal
        It is empty, has blanks at an end, or has a character that nobody sees.

    Examples
    --------
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
    keyed = hashlib.blake2b(key=key, digest_size=16)
    found = []
    for text in ids:
        one = keyed.copy()
        plain = text.isascii() and text.isprintable() and "@" not in text and text == text.strip()
        one.update((text if plain and text else normal_id(text)).encode())
        found.append(one.digest())
    return found


def enter_person(tx: Tx, digest: bytes, name: str | None = None) -> int:
    """Return the row id of a person, entered with the market's limits if new."""
    market = schema.market.c
    new = sa.select(
        sa.literal(digest, schema.BYTES),
        sa.literal(name, schema.TEXT),
        market.cap,
        market.delta_cap,
    ).where(sa.true())  # SQLite reads ON as a join's without a WHERE
    columns = ["digest", "name", "epsilon_cap", "delta_cap"]
    tx.c.execute(tx.insert(schema.person).from_select(columns, new).on_conflict_do_nothing())
    return int(tx.c.execute(sa.select(_person.id).where(_person.digest == digest)).scalar_one())


def enter_people(tx: Tx, staged: sa.Table) -> None:
    """Enter everybody of a staged table with columns digest and name who is new, with the market's limits."""
    market = schema.market.c
    caps = (sa.select(column).scalar_subquery() for column in (market.cap, market.delta_cap))
    new = sa.select(staged.c.digest, staged.c.name, *caps).where(sa.true()).order_by(staged.c.digest)
    put = tx.insert(schema.person).from_select(["digest", "name", "epsilon_cap", "delta_cap"], new)
    named = {"name": put.excluded.name}
    tx.c.execute(
        put.on_conflict_do_update(index_elements=["digest"], set_=named, where=_person.name.is_(None))
    )


def hold_limits(tx: Tx, person: int, epsilon: int, delta: int) -> bool:
    """Hold epsilon and use delta of a person's lifetime limits if there is room; return whether there was."""
    changed = tx.c.execute(
        schema.person.update()
        .where(
            _person.id == person,
            _person.epsilon_held + _person.epsilon_spent + epsilon <= _person.epsilon_cap,
            _person.delta_used + delta <= _person.delta_cap,
        )
        .values(epsilon_held=_person.epsilon_held + epsilon, delta_used=_person.delta_used + delta)
    )
    return changed.rowcount == 1


def free_limits(tx: Tx, person: int, epsilon: int, delta: int) -> None:
    """Free what was held for a person that spent nothing; what holds no epsilon holds no delta."""
    if epsilon:
        tx.c.execute(
            schema.person.update()
            .where(_person.id == person)
            .values(epsilon_held=_person.epsilon_held - epsilon, delta_used=_person.delta_used - delta)
        )


def free_all_limits(tx: Tx, delta: int, condition: Any) -> None:
    """Free what all participations hold that meet a condition, in the people's rows only."""
    own = schema.participation.c
    held = sa.select(own.person, own.epsilon_held).where(condition, own.epsilon_held > 0).subquery()
    tx.c.execute(
        schema.person.update()
        .where(_person.id == held.c.person)
        .values(
            epsilon_held=_person.epsilon_held - held.c.epsilon_held, delta_used=_person.delta_used - delta
        )
    )


def lower_caps(tx: Tx, epsilon: float | None, delta: float | None) -> None:
    """Lower everybody's lifetime limits to what a campaign names; what is held or spent already stays."""
    for cap, used, value in (
        ("epsilon_cap", _person.epsilon_held + _person.epsilon_spent, epsilon),
        ("delta_cap", _person.delta_used, delta),
    ):
        if value is None:
            continue
        # A limit rounds down: what is charged against it rounds up.
        units = math.floor(value * (EPSILON_UNITS if cap == "epsilon_cap" else DELTA_UNITS))
        lowered = sa.case((used > units, used), else_=units)
        tx.c.execute(schema.person.update().where(_person[cap] > units).values({cap: lowered}))
        of_market = "cap" if cap == "epsilon_cap" else "delta_cap"
        column = schema.market.c[of_market]
        tx.c.execute(schema.market.update().where(column > units).values({of_market: units}))
