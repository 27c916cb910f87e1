"""What every route needs: the desk, the settings, a clock, and one way to do an act once."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpmarket.ledger import Connection
from dpmarket.market import Caller, Desk, Rate, acting, once, take_token
from dpmarket.web.problems import TooOften
from dpmarket.web.settings import Settings

Clock = Callable[[], datetime]
LOGIN, INVITING, QUOTING = Rate(10, 60.0), Rate(30, 3600.0), Rate(10, 60.0)
"""Sign-ins of an address, lists of people of a member, and menus and quotes of a seller."""


def clock() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class Service:
    """A desk that is open, and how it is set up.

    Attributes
    ----------
    desk, settings
        The desk, and the settings.
    clock
        Tells the time; examples and tests have their own.
    """

    desk: Desk
    settings: Settings
    clock: Clock = clock

    def limit(self, kind: str, who: str, rate: Rate) -> None:
        """Count that somebody does something.

        Raises
        ------
        TooOften
            They did it too often.
        """
        with acting(self.desk) as connection:
            seconds = take_token(connection, kind, who, rate, self.clock())
        if seconds > 0.0:
            raise TooOften(seconds)

    def act(
        self,
        caller: Caller,
        key: str | None,
        request: Mapping[str, Any],
        act: Callable[[Connection, datetime], Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Do an act in a transaction of its own; with an idempotency key, once.

        What is kept of the answer is sealed with the idempotency key, of which the database has a digest
        only: answers may hold tokens.

        Parameters
        ----------
        caller, key
            Who asks, and their idempotency key, if they sent one.
        request
            What is asked, as plain data, with the name of the act.
        act
            Gets a connection and the time, and returns the answer as plain data.
        """
        now = self.clock()
        with acting(self.desk) as connection:
            if key is None:
                return dict(act(connection, now))
            kept = once(connection, caller.id, key, request, lambda: _sealed(key, act(connection, now)), now)
        return _opened(key, kept)


def _sealed(key: str, answer: Mapping[str, Any]) -> dict[str, str]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(12)
    sealed = AESGCM(_answer_key(key)).encrypt(nonce, json.dumps(answer).encode(), None)
    return {"sealed": base64.b64encode(nonce + sealed).decode()}


def _opened(key: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = base64.b64decode(kept["sealed"])
    answer = json.loads(AESGCM(_answer_key(key)).decrypt(sealed[:12], sealed[12:], None))
    return dict(answer)


def _answer_key(key: str) -> bytes:
    return hashlib.sha256(b"dpmarket answer\0" + key.encode()).digest()
