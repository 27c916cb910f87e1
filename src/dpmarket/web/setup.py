"""Set a service up: its folder, keys, the first consent text, members with their tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from dpmarket import market
from dpmarket.errors import FileProblem
from dpmarket.ledger import reading
from dpmarket.market import (
    ENGLISH,
    GERMAN,
    Caller,
    Desk,
    Member,
    acting,
    add_consent,
    add_member,
    issue_token,
    list_members,
    member_with,
    revoke_tokens,
    tell_operator_key,
)
from dpmarket.web.running import make_folder, opened, opened_without_keys
from dpmarket.web.service import clock
from dpmarket.web.settings import SETTINGS_FILE, Settings, read_settings

_LOGIN = timedelta(days=7)
_WRITTEN = """\
# How this service is set up. Every setting can also be given as DPMARKET_ and its name in capitals.
# As callers know the service; put a proxy with TLS before it and name its https address here.
public_url = "http://127.0.0.1:8000"
host = "127.0.0.1"
port = 8000
metrics_port = 8001
# Where the ledger is; left out: data/market.ledger beside this file.
# database_url = "postgresql://market@localhost/market"
# The key by which private keys are wrapped (openssl rand -hex 32 > FILE; chmod 600 FILE); on another disk.
# master_key_file = "/etc/dpmarket/master-key"
# Who may enter that money has arrived: "paymaster" (and operator), or "buyer" as well.
funding = "paymaster"
# Who may invite, and so sees links that act for sellers: "operator", or "buyer" as well.
inviting = "operator"
quote_hours = 48
seat_minutes = 15
lifetime_cap = 5.0
batch = 20
max_body = 1000000
workers = 1
"""


@dataclass(frozen=True)
class NewMember:
    """Somebody who works with a service; tokens are told once.

    Attributes
    ----------
    id, role
        Who.
    token
        For the API.
    link
        Signs in once, within a week.
    """

    id: str
    role: str
    token: str
    link: str

    def __repr__(self) -> str:
        return f"NewMember({self.id!r})"


def init_service(folder: Path, name: str) -> NewMember:
    """Make a service's folder with its settings, keys, ledger and first member, an operator.

    Raises
    ------
    FileProblem
        There is a service already, the folder cannot be written, or the database cannot be used. It can be
        tried again.
    """
    path = folder / SETTINGS_FILE
    make_folder(folder)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileProblem(f"there is a service in {folder} already: {path} exists.") from None
    except OSError as problem:
        raise FileProblem(f"cannot write {path}: {problem.strerror or problem}.") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_WRITTEN)
        settings = read_settings(folder)
        with opened(settings, is_new=True) as desk:
            prepare(desk)
            return new_member(desk, name, "operator", settings.public_url)
    except BaseException:  # without them it can be tried again
        path.unlink(missing_ok=True)
        raise


def prepare(desk: Desk) -> None:
    """Make the operator's key and tell its public half, and keep the first consent text."""
    with acting(desk) as connection:
        tell_operator_key(desk, connection, clock())
        version = add_consent(connection, "en", ENGLISH, clock())
        add_consent(connection, "de", GERMAN, clock(), version)


def invite_member(folder: Path, name: str, role: str) -> NewMember:
    """Enter somebody who works with a service, and return what lets them in.

    Raises
    ------
    FileProblem
        There is no service in the folder.
    MarketRefusal
        No such role.
    """
    with _service_in(folder) as (desk, settings):
        return new_member(desk, name, role, settings.public_url)


def new_member(desk: Desk, name: str, role: str, public_url: str) -> NewMember:
    """Enter a member with a token for the API and a link to sign in."""
    now = clock()
    with acting(desk) as connection:
        made = Caller(role, add_member(connection, name, role, now))
        token = issue_token(connection, "api", made, now)
        link = issue_token(connection, "login", made, now, _LOGIN)
    return NewMember(made.id, role, token, f"{public_url}/login/{link}")


def list_service_members(folder: Path) -> list[Member]:
    """Return who works with a service; raises as :func:`invite_member`."""
    with _service_in(folder) as (desk, _), reading(desk.ledger) as connection:
        return list_members(connection, clock())


def new_link(folder: Path, member: str) -> str:
    """Return a new link that signs a member in once, within a week.

    Raises
    ------
    FileProblem
        There is no service in the folder.
    MarketRefusal
        There is no such member.
    """
    with _service_in(folder) as (desk, settings):
        return f"{settings.public_url}/login/{_issue(desk, member, 'login', _LOGIN)}"


def new_token(folder: Path, member: str) -> str:
    """Return a new token for the API; raises as :func:`new_link`."""
    with _service_in(folder) as (desk, _):
        return _issue(desk, member, "api", None)


def revoke_member(folder: Path, member: str) -> int:
    """End all tokens, links and sessions of a member; return how many. Raises as :func:`new_link`."""
    with _service_in(folder) as (desk, _), acting(desk) as connection:
        now = clock()
        return revoke_tokens(connection, member_with(connection, member, now).id, now)


def retry_jobs(folder: Path) -> int:
    """Want everything done again that a worker gave up; return how many jobs.

    Raises
    ------
    FileProblem
        There is no service in the folder.
    """
    with _service_in(folder) as (desk, _), acting(desk) as connection:
        return market.retry_jobs(connection, clock())


def send_again(folder: Path, campaign: str, states: Sequence[str] = ("failed",)) -> int:
    """Want mails of a campaign sent again that were given up; return how many.

    Raises
    ------
    FileProblem
        There is no service in the folder.
    MarketRefusal
        There is no such campaign.
    """
    with _service_in(folder) as (desk, _), acting(desk) as connection:
        market.campaign_of(connection, campaign)
        return market.send_again(connection, campaign, clock(), states)


def _issue(desk: Desk, member: str, kind: str, lasts: timedelta | None) -> str:
    now = clock()
    with acting(desk) as connection:
        found = member_with(connection, member, now)
        return issue_token(connection, kind, Caller(found.role, found.id), now, lasts)


@contextmanager
def _service_in(folder: Path) -> Iterator[tuple[Desk, Settings]]:
    if not (folder / SETTINGS_FILE).is_file():
        raise FileProblem(f"there is no service in {folder}: 'dpmarket service init' makes one.")
    settings = read_settings(folder)
    with opened_without_keys(settings) as desk:
        yield desk, settings
