"""A service's folder: its settings, opening its market, the first operator, consent texts, and its checks."""

import contextlib
import json
import os
import stat
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from dpmarket.campaign.access import Member, add_member, link_member, list_members, token_member
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.checks import Finding, findings
from dpmarket.campaign.consent import add_consent, last_version
from dpmarket.campaign.database import Market, is_address, open_market
from dpmarket.campaign.people import lower_caps
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.worker import keep_keys
from dpmarket.certificates.signature import new_signing_key
from dpmarket.errors import FileProblem
from dpmarket.files import private_bytes
from dpmarket.web.pages.texts import catalogue, languages
from dpmarket.web.settings import LOOPBACK, SETTINGS_FILE, Settings, read_settings

SIGNING_KEY = "signing.pem"  # signs certificates; its public half is ``signing.pub`` beside it


@dataclass(frozen=True)
class NewMember:
    """A new member; token and link are shown once."""

    id: int
    name: str
    roles: list[str]
    token: str
    link: str

    def __repr__(self) -> str:
        return f"NewMember({self.id!r})"


def written_settings() -> str:
    """Return a settings file that has every setting with its meaning and its default, none of them in use."""
    parts = [
        "# How this service is set up. Every setting can also be given as DPMARKET_ and its name in capitals."
    ]
    for name, field in Settings.model_fields.items():
        if name not in ("folder", "testing", "clock_file"):
            value = json.dumps(field.default) if isinstance(field.default, bool | int | float | str) else ""
            meaning = textwrap.wrap(str(field.description), 100, initial_indent="# ", subsequent_indent="# ")
            parts += [*meaning, f"# {name} = {value}".rstrip(), ""]
    return "\n".join(parts)


def settings_of(folder: Path) -> Settings:
    """Return the settings of the service in a folder."""
    if not (folder / SETTINGS_FILE).is_file():
        raise FileProblem(f"there is no service in {folder}: 'dpmarket init --service' makes one.")
    return read_settings(folder)


@contextlib.contextmanager
def opened(settings: Settings, *, keys: bool = True, make: bool = False) -> Iterator[Market]:
    """Open the market of a service for a ``with`` block; without ``keys`` no private key is at hand.

    A database is made only on request: a disk that is not mounted would become a service that forgot all.
    """
    name_master_key(settings)
    make_folder(settings.folder)
    make_folder(settings.state_folder)
    if make and not is_address(settings.database):
        make_folder(Path(settings.database).parent)
    try:
        market = open_market(
            settings.database, settings.state_folder, settings.keys if keys else None, make=make
        )
    except FileProblem as problem:
        if make or (not is_address(settings.database) and Path(settings.database).exists()):
            raise
        raise FileProblem(
            f"{problem} See that its disk is mounted and its name is right, or put a backup there "
            "('dpmarket restore')."
        ) from None
    with market:
        market.terms, market.clock = settings.terms, clock_of(settings)
        yield market


@contextlib.contextmanager
def held_open(market: Market) -> Iterator[None]:
    """Hold a SQLite file open: it would be tidied up whenever its last user leaves, after every request."""
    with contextlib.ExitStack() as stack:
        if market.is_file:
            stack.enter_context(market.engine.connect())
        yield


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[tuple[Market, Settings]]:
    """Open the market of the service in a folder, without private keys, for a ``with`` block."""
    settings = settings_of(folder)
    with opened(settings, keys=False) as market:
        yield market, settings


def clock_of(settings: Settings) -> Callable[[], datetime]:
    """Return the clock of a service: the machine's, or, in tests only, one that a file shifts."""
    if settings.clock_file is None:
        return lambda: datetime.now(UTC)
    # Moving the clock decides when quotes end.
    called = {settings.host, urlsplit(settings.public_url).hostname}
    if not settings.testing or not called <= set(LOOPBACK):
        raise FileProblem("clock_file is for tests on loopback only: expected testing = true there, or none.")
    file = settings.clock_file
    _shift(file)
    return lambda: datetime.now(UTC) + _shift(file)


def _shift(file: Path) -> timedelta:
    try:
        return timedelta(seconds=float(file.read_text(encoding="ascii")))
    except (OSError, ValueError, OverflowError):
        raise FileProblem(f"cannot use {file} as a clock: expected a number of seconds.") from None


def name_master_key(settings: Settings) -> None:
    """Name the master key to all of this process, unless the environment does."""
    if settings.master_key_file is not None:
        os.environ.setdefault("DPMARKET_MASTER_KEY_FILE", str(settings.master_key_file.absolute()))


def make_folder(folder: Path) -> None:
    """Make a folder for its owner only, if there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(f"cannot make the folder {folder}: {problem.strerror or problem}.") from None


def init_service(folder: Path, name: str) -> NewMember:
    """Make a service's folder with settings, keys, database, consent texts and the first operator."""
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
            file.write(written_settings())
        settings = read_settings(folder)
        with opened(settings, make=True) as market:
            prepare(market, settings)
            return new_member(market, name, ["operator"], settings.public_url)
    except BaseException:  # without them it can be tried again
        path.unlink(missing_ok=True)
        raise


def prepare(market: Market, settings: Settings) -> None:
    """Make the operator's and the signing key, enter the consent texts and the lifetime limits."""
    keep_keys(market)
    if not (settings.folder / SIGNING_KEY).exists():
        public = new_signing_key(settings.folder / SIGNING_KEY)
        private_bytes(settings.folder / "signing.pub", f"{public}\n".encode())
    market.transact(lambda tx: lower_caps(tx, settings.lifetime_epsilon, settings.lifetime_delta))
    with market.look() as c:
        version = last_version(c)
    if version is None:
        texts = {language: catalogue(language).texts["consent_text"][0] for language in languages()}
        market.run(add_consent, OWNER, texts)


def new_member(market: Market, name: str, roles: list[str], public_url: str) -> NewMember:
    """Enter a member with a token for the API and a link to sign in."""
    member = market.run(add_member, OWNER, name, roles)
    return NewMember(member, name, roles, *new_links(market, member, public_url))


def new_links(market: Market, member: int, public_url: str) -> tuple[str, str]:
    """Return a new token of a member for the API, and a new link to sign in."""
    token, link = (market.run(make, OWNER, member) for make in (token_member, link_member))
    return token, f"{public_url}/login/{link}"


def member_named(market: Market, text: str) -> int:
    """Return the id of a member by the id, or by a name that only one member has."""
    members = [one for one in members_of(market) if one.ended_at is None]
    found = [one.id for one in members if str(one.id) == text] or [
        one.id for one in members if one.name == text
    ]
    if len(found) != 1:
        raise FileProblem(f"expected the id of a member, or a name that only one has; {len(found)} have it.")
    return found[0]


def members_of(market: Market) -> list[Member]:
    """Return the members of a service."""
    with market.look() as c:
        return list_members(c, time_text(market.clock()))


def check_service(folder: Path) -> list[Finding]:
    """Look for missing keys, wrong modes, wrong books, a log ahead, a wrong clock, a full disk."""
    settings = settings_of(folder)
    name_master_key(settings)
    return [*_market(settings), *_modes(settings), *_address(settings)]


def _market(settings: Settings) -> Iterator[Finding]:
    """Look at keys, books, log, clock and jobs."""
    if not settings.keys.is_dir():
        yield Finding("keys", f"{settings.keys} is not there.", "Put it back, or name the right one.")
    try:
        with open_market(settings.database, settings.state_folder) as market:
            market.keys = settings.keys  # its folder is looked at and not changed
            yield from findings(market)
    except FileProblem as problem:
        yield Finding("database", str(problem), "Put it back, or name the right one.")


def _modes(settings: Settings) -> Iterator[Finding]:
    """Look for files that others than their owner can use."""
    master = settings.master_key_file
    if master is not None and not master.exists():
        yield Finding("keys", f"{master} is not there.", "Put it back, or name the right one.")
    own = [settings.folder, settings.folder / SETTINGS_FILE, settings.folder / SIGNING_KEY]
    own += [] if master is None else [master]
    if not is_address(settings.database):
        database = Path(settings.database)
        own += [database.parent, *database.parent.glob(f"{database.name}*")]
    for folder in (settings.keys, settings.state_folder):
        own += [folder, *folder.rglob("*")]
    for path in sorted(set(own)):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0
        if mode & 0o077:
            wanted = "700" if path.is_dir() else "600"
            yield Finding("mode", f"others can use {path}: its mode is {mode:o}.", f"chmod {wanted} {path}")


def _address(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        yield Finding(
            "address",
            f"public_url is {settings.public_url}: browsers keep no session without TLS.",
            "put a proxy with TLS before the service, and set public_url to its https address.",
        )
