"""Set an invented campaign up that people can try: members, money and invitations are there already."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from dpmarket.campaign import check_market
from dpmarket.market import (
    Schedule,
    acting,
    draft_campaign,
    fund_campaign,
    invite,
    new_key,
    open_campaign,
    plan_opening,
)
from dpmarket.web.invented import market_for
from dpmarket.web.running import opened
from dpmarket.web.service import clock
from dpmarket.web.settings import Settings, read_settings
from dpmarket.web.setup import init_service, new_member

_PEOPLE = 20
_SHOWN = 3
_ARTICLE = {"auditor": "an"}


@contextmanager
def invented(given: Mapping[str, Any]) -> Iterator[tuple[Settings, list[str]]]:
    """Give settings of a service in a folder that is gone afterwards, and lines that say what can be done.

    Parameters
    ----------
    given
        Settings to use in place of the usual ones.
    """
    with tempfile.TemporaryDirectory(prefix="dpmarket-") as name:
        folder = Path(name) / "service"
        init_service(folder, "An operator")
        if given.get("port"):
            given = {"public_url": f"http://127.0.0.1:{given['port']}", **given}
        settings = read_settings(folder, **given)
        yield settings, _campaign(settings)


def _campaign(settings: Settings) -> list[str]:
    now = clock()
    schedule = Schedule(now, now + timedelta(minutes=50), now + timedelta(minutes=60))
    rules = market_for(_PEOPLE)
    with opened(settings) as desk:
        members = {
            role: new_member(desk, f"{_ARTICLE.get(role, 'a').title()} {role}", role, "URL")
            for role in ("buyer", "paymaster", "auditor")
        }
        planned = plan_opening(check_market(rules), "online")
        with acting(desk) as connection:
            made = draft_campaign(
                connection,
                members["buyer"].id,
                "An invented campaign",
                rules,
                "online",
                schedule,
                consent_version=1,
                now=now,
            ).campaign
            fund_campaign(connection, made, _PEOPLE * int(planned.largest_payment or 1), now)
            open_campaign(connection, made, planned, new_key(desk.keys, made), now)
            people = invite(connection, made, [f"panel {k}" for k in range(_PEOPLE)], 5.0, now)
    token = people[0].token
    return [
        f"An invented campaign is open for an hour: {made}. Open in a browser:",
        *(f"  as a seller: URL/i/{person.token}" for person in people[:_SHOWN]),
        *(f"  as {_ARTICLE.get(role, 'a')} {role}, once: {members[role].link}" for role in members),
        "Or by API, with these tokens:",
        *(f"  {role}: {members[role].token}" for role in members),
        f'  curl -H "Authorization: Bearer {token}" URL/api/v1/me',
        f'  curl -X POST -H "Authorization: Bearer {token}" URL/api/v1/me/menu   (after me/consent)',
    ]
