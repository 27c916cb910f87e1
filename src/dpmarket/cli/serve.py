"""``dpmarket serve``, ``worker`` and ``service``: run a live market over HTTP."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import JsonFlag
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.web.setup import NewMember

app = typer.Typer(help="Set a live market up, and let members in.")
Folder = Annotated[Path, typer.Argument(help="The service's folder: settings, ledger, keys.")]
_FOLDER = Path("dpmarket-service")


def serve(
    folder: Folder = _FOLDER,
    host: Annotated[str | None, typer.Option(help="Where to listen; loopback unless set otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="On which port; 0: a free one.", min=0, max=65535)] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="On which port metrics are told; 0: a free one.", min=0, max=65535)
    ] = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Start no worker beside it: 'dpmarket worker' runs elsewhere.")
    ] = False,
) -> None:
    """Answer requests, with a worker beside it that clears, trains and certifies, until Ctrl-C.

    The ledger and its tables are made or brought up to date, and loops are compiled, before the first
    request is answered. Put a proxy with TLS before it where others can reach it.
    """
    need_extra()
    from dpmarket.web.running import serve as run
    from dpmarket.web.settings import SETTINGS_FILE, read_settings
    from dpmarket.web.watching import log_to

    given = {"host": host, "port": port, "metrics_port": metrics_port, "workers": 0 if no_worker else None}
    chosen = {name: value for name, value in given.items() if value is not None}
    if not (folder / SETTINGS_FILE).is_file():
        raise FileProblem(f"there is no service in {folder}: 'dpmarket service init' makes one.")
    log_to()
    run(read_settings(folder, **chosen), _tell_address)


def worker(
    folder: Folder = _FOLDER,
    beside: Annotated[int | None, typer.Option(help="Stop when this process is gone.", hidden=True)] = None,
) -> None:
    """Do what is due: clear, close, train, certify, until Ctrl-C. Any number may work side by side."""
    need_extra()
    from dpmarket.web.running import run_worker_process
    from dpmarket.web.settings import read_settings
    from dpmarket.web.watching import log_to

    log_to()
    run_worker_process(read_settings(folder), beside)


@app.command(epilog="Example: dpmarket service init hospital --name 'A. Operator'")
def init(
    folder: Folder = _FOLDER,
    name: Annotated[str, typer.Option(help="What the first member, an operator, is called.")] = "operator",
    as_json: JsonFlag = False,
) -> None:
    """Make a folder with settings, keys, ledger and the first member; their token is told once."""
    need_extra()
    from dpmarket.web.setup import init_service

    _tell_member(init_service(folder, name), as_json)


@app.command("invite-member", epilog="Example: dpmarket service invite-member hospital 'A clinic' buyer")
def invite_member(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="What the member is called.")],
    role: Annotated[str, typer.Argument(help="buyer, paymaster, auditor or operator.")],
    as_json: JsonFlag = False,
) -> None:
    """Let somebody in who works with the service; their token and link are told once."""
    need_extra()
    from dpmarket.web import setup

    _tell_member(setup.invite_member(folder, name, role), as_json)


@app.command(epilog="Example: dpmarket service check hospital")
def check(folder: Folder = _FOLDER, as_json: JsonFlag = False) -> None:
    """Look for wrong modes, missing keys, other tables, wrong books, a wrong clock, a full disk.

    Each finding says what to do; the exit code is 1 if there is any. Nothing is changed, and the service may
    run meanwhile. Run it as the user that the service runs as.
    """
    need_extra()
    from dpmarket.cli.render import Voice
    from dpmarket.web.checkup import check_service

    findings = check_service(folder)
    lines = [f"{one.kind}: {one.found} To do: {one.todo}" for one in findings]
    title = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "All is well"
    data = {"well": not findings, "findings": [dict(vars(one)) for one in findings]}
    Voice(as_json, False).list(title, lines, data)
    if findings:
        raise typer.Exit(1)


@app.command(epilog="Example: dpmarket service backup hospital monday.backup")
def backup(
    folder: Folder,
    target: Annotated[Path, typer.Argument(help="The new file; name another disk's.")],
    as_json: JsonFlag = False,
) -> None:
    """Copy the service's database, as it is at one moment, to a new file, while the service runs.

    Private keys are never in it; the state folder is copied apart from it.
    """
    need_extra()
    from dpmarket.cli.render import Voice
    from dpmarket.web.backups import back_up_service

    made = back_up_service(folder, target)
    data = {"path": str(made.path), "database": made.database, "bytes": made.size}
    Voice(as_json, False).list(f"{made.path}: {made.size:,} bytes", [], data)


@app.command(epilog="Example: dpmarket service restore hospital monday.backup")
def restore(
    folder: Folder,
    source: Annotated[Path, typer.Argument(help="A file that 'service backup' wrote.")],
    as_json: JsonFlag = False,
) -> None:
    """Put a backup where there is no database any more, and enter what was spent since as spent and paid.

    Stop the service first, and move what is left of its database away. The state folder stays as it is: it
    knows what was spent since the backup.
    """
    need_extra()
    from dpmarket.cli.render import Voice
    from dpmarket.web.backups import restore_service

    done = restore_service(folder, source)
    rows = [
        f"trainings entered as spent: {done.spent:,}",
        f"rounds that were not known: {done.rounds:,}",
        f"withdrawals that were not known: {done.withdrawn:,}",
    ]
    Voice(as_json, False).list("Restored", rows, dict(vars(done)))


def _tell_address(url: str) -> None:
    typer.echo(f"Serving on {url}; Ctrl-C stops.")
    typer.echo(f"What the API offers: {url}/api/v1/docs")


def _tell_member(member: NewMember, as_json: bool) -> None:
    from dpmarket.files import to_json

    if as_json:
        typer.echo(to_json(dict(vars(member))), nl=False)
        return
    typer.echo(f"member {member.id}, {member.role}; told once, keep it:")
    typer.echo(f"  API token  {member.token}")
    typer.echo(f"  sign in    {member.link}")


def need_extra() -> None:
    """Say which extra is needed, if a package of it is missing."""
    for name in ("fastapi", "uvicorn", "httpx", "pydantic_settings", "prometheus_client", "cryptography"):
        if importlib.util.find_spec(name) is None:
            raise FileProblem("this needs the extra 'service': pip install 'dpmarket[service]'.")
