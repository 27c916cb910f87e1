"""``dpmarket serve``, ``worker``, ``retry`` and ``member``: a live market over HTTP, and its people."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import Shown, command
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.campaign.database import Market
    from dpmarket.cli.render import Voice
    from dpmarket.web.folder import NewMember
    from dpmarket.web.settings import Settings

Folder = Annotated[Path, typer.Argument(help="The service's folder: settings, database, keys.")]
FOLDER = Path("dpmarket-service")
Who = Annotated[str, typer.Argument(help="The member's id, or a name that only one member has.")]


@command
def serve(
    folder: Folder = FOLDER, *, host: str | None = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535)] = None, no_worker: bool = False,
) -> None:  # fmt: skip
    """Answer requests, with a worker beside it that clears, trains and certifies, until Ctrl-C.

    Put a proxy with TLS before it where others can reach it. A missing database is never made anew.

    :param host: Where to listen; loopback unless set otherwise.
    :param port: On which port; 0: a free one.
    :param metrics_port: On which port metrics are shown; 0: a free one.
    :param no_worker: Start no worker beside it: 'dpmarket worker' runs elsewhere.
    """
    need_extra()
    from dpmarket.web.folder import settings_of
    from dpmarket.web.logs import log_to
    from dpmarket.web.running import serve as run

    given = {"host": host, "port": port, "metrics_port": metrics_port, "workers": 0 if no_worker else None}
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = settings_of(folder).model_copy(update=chosen)
    log_to()
    api = "The API for programs: {0}/api/v1/openapi.json"
    run(settings, lambda url: typer.echo(f"Serving on {url}; Ctrl-C stops.\n{api.format(url)}"))


@command
def worker(
    folder: Folder = FOLDER, *, beside: Annotated[int | None, typer.Option(hidden=True)] = None
) -> None:
    """Do what is due: clear, close, train, certify, send mails, until Ctrl-C. Several can run at once.

    :param beside: Stop when this process is gone.
    """
    need_extra()
    from dpmarket.web.folder import settings_of
    from dpmarket.web.logs import log_to
    from dpmarket.web.worker import run_worker_process

    settings = settings_of(folder)
    log_to()
    run_worker_process(settings, beside)


def init_service(voice: Voice, folder: Path, name: str) -> None:
    """Make a folder with settings, keys, database and the first operator; the token is shown once."""
    need_extra()
    from dpmarket.web.folder import init_service as make

    tell_member(voice, make(folder, name))


def tell_member(voice: Voice, member: NewMember) -> None:
    """Show a new member's token and link, once."""
    lines = [f"API token  {member.token}", f"sign in    {member.link}"]
    voice.list(f"member {member.id}, {', '.join(member.roles)}; shown once:", lines, vars(member))


@contextmanager
def service(folder: Path) -> Iterator[tuple[Market, Settings]]:
    """Open a service's market, with its settings."""
    need_extra()
    from dpmarket.web.folder import opened_folder

    with opened_folder(folder) as opened:
        yield opened


def need_extra() -> None:
    """Say which extra is needed, if a package of it is missing."""
    for name in ("fastapi", "uvicorn", "httpx", "pydantic_settings", "prometheus_client", "cryptography"):
        if importlib.util.find_spec(name) is None:
            raise FileProblem("this needs the extra 'service': pip install 'dpmarket[service]'.")


@command
def retry(given: Shown, folder: Folder, *, perhaps_sent: bool = False) -> None:
    """Let a worker do failed jobs and mails once more, after the cause was mended (see 'dpmarket check').

    :param perhaps_sent: Mails that may have gone out as well: people may get two.
    """
    from dpmarket.campaign import jobs as queue
    from dpmarket.campaign.acts import OWNER

    with service(folder) as (market, _):
        jobs = market.run(queue.retry, OWNER, perhaps_sent)
    given.voice().list(f"{jobs} jobs wait for a worker.", [], {"jobs": jobs})


@command
def add(given: Shown, folder: Folder, name: str, roles: list[str]) -> None:
    """Enter a member with roles in all campaigns; token and link are shown once.

    :param name: The name that sellers are shown.
    :param roles: buyer, paymaster, auditor or operator; several.
    """
    with service(folder) as (market, settings):
        from dpmarket.web.folder import new_member

        tell_member(given.voice(), new_member(market, name, roles, settings.public_url))


@command
def list_(given: Shown, folder: Folder) -> None:
    """List members with their roles, and how many tokens, links and sessions are good."""
    with service(folder) as (market, _):
        from dpmarket.web.folder import members_of

        found = members_of(market)
    lines = [
        f"{one.id:>5}  {', '.join(one.roles):<20} {one.tokens:>3} tokens  {one.name}"
        + ("" if one.ended_at is None else f", ended {one.ended_at}")
        for one in found
    ]
    given.voice().list("Members", lines, [vars(one) for one in found])


@command
def link(given: Shown, folder: Folder, member: Who) -> None:
    """Make a new API token, and a link that signs a member in once, within a week; older ones stay good."""
    with service(folder) as (market, settings):
        from dpmarket.web.folder import member_named, new_links

        token, made = new_links(market, member_named(market, member), settings.public_url)
    lines = [f"API token  {token}", f"sign in    {made}"]
    given.voice().list("shown once:", lines, {"token": token, "link": made})


@command
def end(given: Shown, folder: Folder, member: Who) -> None:
    """End a membership with all its tokens, links and sessions, at once."""
    from dpmarket.campaign.access import end_member
    from dpmarket.campaign.acts import OWNER

    with service(folder) as (market, _):
        from dpmarket.web.folder import member_named

        market.run(end_member, OWNER, member_named(market, member))
    given.voice().list("The membership has ended.", [], {"ended": member})
